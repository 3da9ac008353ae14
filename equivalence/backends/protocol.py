"""What a backend is: the protocol that `docs/backends.md` explains, in types.

A backend needs no base class.  Anything with these attributes will do, and what it does not have it
does not have: a missing operation, dtype, `jvp` or optimizer is reported as unsupported, apart from
passed and failed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from torch import Tensor

from equivalence.cases.declared.reading import Declaration
from equivalence.conventions import UNSAID, Conventions
from equivalence.worlds.contract import ContractRule

Results: TypeAlias = Tensor | Sequence[Tensor]
"""A tensor, and of an op of several results one for each, in the order of the page's."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do, and what it promises.

    ops maps an operation's name to the names of the dtypes that it is supported in ("fp32", "bf16",
    "fp16", "fp64"); optimizers does the same for those of spec.optim.
    contract(op, dtype) is the arithmetic that the backend declares.
    ring says where results come from: "host", "interpreted" or "device".
    device is where inputs are placed; labelled says that refusals name the page's constraint.
    conventions say what it chooses where a page had to choose; without, it may choose anything.
    takes says, by op or optimizer, which part of it is done, where not all of it is.
    extras says, by optimizer, which of its page's extra hyper-parameters are taken: a backend that
    does not name one is never asked about it. "max_value" and "group_norms" are extras of each.
    checks_constraints says that calls which break a page's constraint are refused; without, such a
    call may give anything. unchecked_indices says that an index out of range is read or written as
    it comes: the suite then makes no such call.
    """

    ops: Mapping[str, Collection[str]]
    contract: ContractRule
    optimizers: Mapping[str, Collection[str]] = field(default_factory=dict)
    ring: str = "host"
    device: str = "cpu"
    labelled: bool = False
    conventions: Conventions = UNSAID
    takes: Mapping[str, Declaration] = field(default_factory=dict[str, Declaration])
    extras: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])
    checks_constraints: bool = False
    unchecked_indices: bool = False


@runtime_checkable
class Backend(Protocol):
    """An implementation of the operations, as the suite sees it."""

    @property
    def name(self) -> str:
        """The name in reports and in findings."""

    def capabilities(self) -> Capabilities:
        """Say which operations, dtypes and optimizers there are, and under which contract."""

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Results:
        """Compute an operation; raise on what the operation refuses."""

    def vjp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        cotangents: Sequence[Tensor],
    ) -> Sequence[Tensor | None]:
        """Return one gradient per input, None at inputs of indices; a cotangent came per result."""


@runtime_checkable
class HasJvp(Protocol):
    """A backend that also has forward mode."""

    def jvp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        tangents: Sequence[Tensor | None],
    ) -> Results:
        """Return the tangent of the result; None stands for a zero tangent."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an operation that will be made: its shapes, strides and dtypes are those.

    The numbers may be others when it is made. A value has no cotangents.
    """

    op: str
    direction: str
    inputs: Sequence[Tensor]
    attrs: Mapping[str, Any]
    cotangents: Sequence[Tensor] = ()


@runtime_checkable
class Prepares(Protocol):
    """A backend that wants to know calls before they are made, such as one that compiles."""

    def prepare(self, calls: Sequence[Call]) -> None:
        """Get ready for calls, values and VJPs; refuse none of them, and keep no tensor.

        Each may be made any number of times, or never. Others may be made as well.
        """


class OptimizerHandle(Protocol):
    """Parameters under an optimizer, inside a backend.

    Tensors that a handle is given stay the caller's: they are read during the call, in whatever
    layout they come, and overwritten after it.
    """

    def step(self, grads: Sequence[Tensor | None]) -> None:
        """Update every parameter that has a gradient; the others keep value, state and step."""

    def params(self) -> Sequence[Tensor]:
        """Return the parameters' current values."""

    def state(self) -> Mapping[str, Sequence[Tensor | None]]:
        """Return each state field, one entry per parameter; None before a first update."""


APART = ("start_step", "groups", "max_norm", "max_value")
"""What an optimizer is given with its hyper-parameters, and is none."""


@runtime_checkable
class SetsLr(Protocol):
    """A handle whose learning rates may change between steps."""

    def set_lr(self, lr: float, group: int) -> None:
        """Use another learning rate from the next step on.

        Group 0 has the parameters that no group names; the others are numbered from 1.
        """


@runtime_checkable
class SetsHyper(Protocol):
    """A handle whose other hyper-parameters may change between steps."""

    def set_hyper(self, name: str, value: float, group: int) -> None:
        """Use another number as a hyper-parameter of a group from the next step on.

        name is one of the page that is not "lr". Groups are numbered as for `set_lr`. Every group
        is told in turn, and all of them the same.
        """


@runtime_checkable
class SetsMaxNorm(Protocol):
    """A handle that clips gradients to a norm that may change between steps."""

    def set_max_norm(self, max_norm: float) -> None:
        """Clip the global norm of the gradients to another bound, from the next step on."""


@runtime_checkable
class SetsGradScale(Protocol):
    """A handle that divides its gradients first, as whoever scales a loss needs."""

    def set_grad_scale(self, grad_scale: float) -> None:
        """Take gradients to be so many times too large, from the next step on."""


@runtime_checkable
class Loads(Protocol):
    """A handle that goes on from a state of somewhere else."""

    def load(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Replace the state of every parameter by copies of this one.

        It has the fields of `state()`, and an entry for every parameter in each: tensors of the
        parameter's shape and dtype, in any layout, and of "step" integers.
        """


@runtime_checkable
class Writes(Protocol):
    """A handle whose parameters and states may be written from outside."""

    def write(self, parameter: int, field: str, numbers: Tensor) -> None:
        """Put other numbers into a parameter ("parameter") or into a moment that it has."""


@runtime_checkable
class HasOptimizers(Protocol):
    """A backend that also has optimizers."""

    def optimizer(
        self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]
    ) -> OptimizerHandle:
        """Put parameters under an optimizer with the reference's hyper-parameter names.

        The handle may copy the parameters, or update the tensors that it is given in place: each
        may be transposed or a slice of a larger buffer, of which nothing else may change.
        hyper["start_step"] is the number of updates that the parameters are taken to have had
        already, with zero moments: it makes late bias corrections reachable.  hyper["max_norm"],
        where given, is what the global norm of the gradients is clipped to; hyper["groups"] lists
        mappings with "params", the positions of parameters, and what differs for them. Who names
        the extra "max_value" is given hyper["max_value"], to which entries are clipped before the
        norm is; groups may have their own. Who names "group_norms" is given groups with a
        "max_norm" of their own, which is over their gradients alone; None bounds nothing.
        """
