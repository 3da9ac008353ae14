"""What an optimizer's page hands over: hyper-parameters, a check, and an update per provider."""

# This file is longer than the guide because what a page hands over is read and refused here too.

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Rational
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from fast.device import bridge
from fast.device.arena import Arena
from fast.device.dtypes import wide
from fast.errors import Rejected
from fast.kernels.checks import is_row
from fast.optim._chunks import ChunkTable, Run


class Flat(NamedTuple):
    """The flat arenas of one update: parameters, gradients, and the states in the rule's order."""

    params: Tensor
    grads: Tensor
    states: tuple[Tensor, ...]


class Batch(NamedTuple):
    """Slices of the arenas that one ATen call updates: one group, all new or all not.

    A state that the update does not keep has no slices.
    """

    params: list[Tensor]
    grads: list[Tensor]
    states: tuple[list[Tensor], ...]
    steps: list[Tensor]
    first: bool


class Launch(NamedTuple):
    """What the kernels need beside the arenas: tables, step counts in and out, and the flag.

    `scale` is what every gradient is multiplied by, None where the norm is not clipped. `matrices`
    are the runs and the hyper-parameters of a rule that updates matrices.
    """

    table: ChunkTable
    bump: Tensor
    steps: Tensor
    next_steps: Tensor
    hyper: Tensor
    flag: Tensor
    scale: Tensor | None = None
    matrices: Sequence[tuple[Run, Any]] = ()


class Formula(NamedTuple):
    """An update of one tensor in ATen calls, for whoever compiles a whole step.

    `constants` are formed in double from the hyper-parameters and the step, counted from 1, and are
    rounded once; they are data. `branch` is what decides which calls there are. `update` takes a
    branch, a parameter, its gradient, its states and the constants, and returns the new parameter
    and the new states. A state that the update does not keep is None, before and after.
    """

    constants: Callable[[Any, int], tuple[float, ...]]
    branch: Callable[[Any], Hashable]
    update: Callable[
        [Any, Tensor, Tensor, Sequence[Any], Sequence[Tensor]], tuple[Tensor | None, ...]
    ]


class Stated(NamedTuple):
    """How one update goes: each slot's row of constants, each row's branch, and the states.

    `kept` names the states that some row keeps, and `states` are their arenas.
    """

    rule: Rule
    rows: tuple[tuple[int, int], ...]
    branches: tuple[Hashable, ...]
    constants: list[tuple[float, ...]]
    states: tuple[Arena, ...]
    kept: tuple[str, ...]


Update = Callable[[Batch, Any, Tensor | None], None]
"""Updates a batch by hyper-parameters; the last argument is 1 where it must not."""


def update_widened(update: Update, batch: Batch, hyper: Any, stop: Tensor | None) -> None:
    """Update copies of 16-bit slices in fp32, and round them once when they are copied back."""
    kept = (batch.params, *batch.states)
    params, *states = ([wide(tensor) for tensor in column] for column in kept)
    grads = [wide(grad) for grad in batch.grads]
    update(batch._replace(params=params, grads=grads, states=tuple(states)), hyper, stop)
    for column, results in zip(kept, (params, *states), strict=True):
        for narrow, result in zip(column, results, strict=True):
            narrow.copy_(result)


Groups = Sequence[Mapping[str, Any]] | None
"""Mappings with 'params' and the hyper-parameters that differ for them, and bounds of their own."""

NO_HYPERS = ("params", "max_norm", "max_value")
"""What a group may have that is no hyper-parameter: its parameters, and bounds of gradients."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One optimizer.

    `hyper` is a NamedTuple of floats with defaults; `check` refuses values that break a rule.
    `stateful` says whether an update with these hyper-parameters reads and counts state.
    `optional` names the states that only some updates have, and `keeps` says which of them one has.
    `aten` updates a batch after the step counts were raised; `triton` starts the one launch;
    `formula` is what a compiler is given, where a step is compiled whole.
    `matrices` says that every parameter is a matrix, which an update sees whole.
    `squares` names the states that are never below 0, `decoupled` says that weight decay does not
    join the gradient, and `order`, if there is one, is that of a step's arguments.
    `filled` names the states that do not start from zeros, each beside the hyper-parameter from
    which every entry starts.
    `torch` is the optimizer of torch with the same formula, if there is one. `fast.torch` offers
    the rule as the class of that name, or as one of the name in `face`.
    """

    name: str
    hyper: type[Any]
    check: Callable[[Any], None]
    states: tuple[str, ...]
    counted: bool
    stateful: Callable[[Any], bool]
    aten: Update
    triton: Callable[[Flat, Launch], None]
    formula: Formula | None = None
    matrices: bool = False
    squares: tuple[str, ...] = ()
    decoupled: bool = False
    order: tuple[str, ...] = ()
    filled: tuple[tuple[str, str], ...] = ()
    optional: tuple[str, ...] = ()
    keeps: Callable[[Any], tuple[str, ...]] | None = None
    torch: type[Optimizer] | None = None
    face: str | None = None

    def kept(self, hyper: Any) -> tuple[str, ...]:
        """Name the states that an update with these hyper-parameters reads and writes, in order."""
        if not self.stateful(hyper):
            return ()
        chosen = () if self.keeps is None else self.keeps(hyper)
        return tuple(n for n in self.states if n not in self.optional or n in chosen)

    @property
    def offered(self) -> str | None:
        """The name under which `fast.torch` offers the rule, if it does."""
        return self.face or (self.torch and self.torch.__name__)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The hyper-parameters in the order of a step's arguments."""
        fields: tuple[str, ...] = self.hyper._fields
        return self.order or fields

    @property
    def defaults(self) -> dict[str, Any]:
        """The defaults of the hyper-parameters that have one."""
        return dict(self.hyper._field_defaults)

    @property
    def required(self) -> tuple[str, ...]:
        """The hyper-parameters without a default."""
        return tuple(n for n in self.hyper._fields if n not in self.hyper._field_defaults)

    @property
    def flags(self) -> dict[str, bool]:
        """The hyper-parameters that are True or False, with their defaults."""
        return {name: value for name, value in self.defaults.items() if isinstance(value, bool)}

    def read(self, given: Mapping[str, Any], formats: Iterable[torch.dtype] = ()) -> Any:
        """Return checked hyper-parameters, or raise naming what is wrong.

        `formats` are the dtypes that compute with them: what a format rounds them to is checked
        too, such as a beta that becomes 1, or an eps that becomes 0.
        """
        if not isinstance(given, Mapping):
            raise Rejected(
                f"{self.name}: the hyper-parameters are a mapping, got {type(given).__name__}"
            )
        known = self.hyper._fields
        for name in given:
            if name not in known:
                raise Rejected(
                    f"{self.name}: there is no {name!r}; the parameters are {', '.join(known)}"
                )
        missing = [name for name in self.required if name not in given]
        if missing:
            raise Rejected(f"{self.name}: {missing[0]!r} has no default and must be given")
        values = self.hyper(**{name: self._value(name, v) for name, v in given.items()})
        self.check(values)
        for dtype in formats:
            self._check_held(values, dtype)
        return values

    def _check_held(self, values: Any, dtype: torch.dtype) -> None:
        """Refuse what breaks a rule as a format holds it."""
        # A schedule comes by here at every step: all are looked at together first.
        held = self.hyper(
            *[bridge.round_number(v, dtype) if type(v) is float else v for v in values]
        )
        if held == values:
            return
        try:
            self.check(held)
        except Rejected:
            self._name_held(values, held, dtype)

    def _name_held(self, values: Any, held: Sequence[Any], dtype: torch.dtype) -> None:
        """Refuse by the name of the one hyper-parameter that breaks a rule as it is held."""
        for name, value, rounded in zip(self.hyper._fields, values, held, strict=True):
            try:
                self.check(values._replace(**{name: rounded}))
            except Rejected as error:
                format = str(dtype).removeprefix("torch.")
                raise Rejected(
                    f"{error}, which {name}={value!r} becomes in {format}, where it is computed"
                ) from error

    def read_as(self, given: Mapping[str, Any], read: Callable[[str, Any], Any]) -> dict[str, Any]:
        """Read what comes in another form by `read`, by its name; flags are as they are.

        So are counts and words.
        """
        return {n: read(n, v) if self.kind(n) is float else v for n, v in given.items()}

    def kind(self, name: str) -> type[Any]:
        """Return whether a hyper-parameter is a float, a bool, an int, or a word: a str, or None.

        Its default says so; what has none is a float.
        """
        default = self.hyper._field_defaults.get(name, 0.0)
        return str if default is None else type(default)

    def need_matrix(self, who: str, shape: Sequence[int]) -> None:
        """Raise unless a parameter of this shape can be updated."""
        if self.matrices and len(shape) != 2:
            raise Rejected(
                f"{self.name} C8: a parameter is a matrix, {who} has the shape "
                f"{tuple(shape)}; update it by another optimizer, and hand this one None"
            )

    def _value(self, name: str, value: Any) -> Any:
        if type(value) is float and self.kind(name) is float:
            return value
        kind = self.kind(name)
        if kind is bool:
            need(self.name, isinstance(value, bool), f"{name} is True or False", repr(value))
            return bool(value)
        if kind is int:
            need(self.name, _is_count(value), f"{name} is an int", repr(value))
            return int(value)
        if kind is str:
            known = value is None or isinstance(value, str)
            need(self.name, known, f"{name} is a word or None", repr(value))
            return value
        return as_double(f"{self.name}: {name}", value)


def grouped(
    rule: Rule,
    hyper: Mapping[str, Any],
    groups: Groups,
    slots: int,
    slot_of: Callable[[Any, str], int],
    formats: Iterable[torch.dtype] = (),
) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """Read the hyper-parameters of all groups, and the group of every slot; group 0 has the rest.

    `slot_of` finds a parameter's slot, or raises in the name of the group that lists it. What is no
    list of mappings, and 'params' that are no list, are Rejected. `formats` are those of
    `Rule.read`.
    """
    hypers = [rule.read(hyper, formats)]
    group_of = [0] * slots
    for number, group in enumerate(_listed(rule.name, groups), 1):
        members = _members(rule.name, number, group)
        overrides = {name: value for name, value in group.items() if name not in NO_HYPERS}
        hypers.append(rule.read({**hyper, **overrides}, formats))
        for parameter in members:
            slot = slot_of(parameter, f"{rule.name}: group {number}")
            if group_of[slot]:
                raise Rejected(
                    f"{rule.name}: the parameter {getattr(parameter, 'name', parameter)!r} is in "
                    f"groups {group_of[slot]} and {number}; groups must not overlap"
                )
            group_of[slot] = number
    return tuple(hypers), tuple(group_of)


def _listed(rule: str, groups: Groups) -> Sequence[Any]:
    if groups is None:
        return ()
    if not is_row(groups):
        raise Rejected(f"{rule}: groups are a list of mappings, got {type(groups).__name__}")
    return groups


def _members(rule: str, number: int, group: Any) -> Iterable[Any]:
    """Return what a group lists, or refuse what is no group."""
    if not isinstance(group, Mapping):
        raise Rejected(
            f"{rule}: group {number} is a mapping with 'params', got {type(group).__name__}"
        )
    if "params" not in group:
        raise Rejected(f"{rule}: group {number} names no 'params'")
    members = group["params"]
    if not is_list(members):
        raise Rejected(
            f"{rule}: the 'params' of group {number} are a list, got {type(members).__name__}"
        )
    found: Iterable[Any] = members
    return found


def is_list(members: Any) -> bool:
    """Say whether something lists parameters: a collection or an iterator, no text, map or data."""
    others = (str, bytes, Mapping, Tensor, np.ndarray)
    return isinstance(members, Iterable) and not isinstance(members, others)


def as_double(what: str, value: Any) -> float:
    """Return a real number as a double, rounded once: also numpy's, and a tensor's one entry.

    What is none, or is beyond the doubles, is Rejected.
    """
    if type(value) is float:
        return value
    try:
        found = bridge.to_float(value)
    except Rejected as error:
        came = repr(value)
        if callable(value):
            came = (
                "a function: call a schedule with the number of the step, as in lr=schedule(step)"
            )
        raise Rejected(f"{what} must be a number, got {came}") from error
    if math.isinf(found) and isinstance(value, Rational):
        raise Rejected(f"{what} is beyond the largest double, which is 1.8e308")
    return found


def _is_count(value: Any) -> bool:
    """Say whether something is an integer, Python's or numpy's, and no flag."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def need(rule: str, holds: bool, text: str, came: object) -> None:
    """Raise naming a hyper-parameter's rule and what came, unless it holds."""
    if not holds:
        raise Rejected(f"{rule}: {text}; got {came}")


def finite_and_not_negative(value: float) -> bool:
    """Say whether a number is finite and at least 0, which NaN is not."""
    return 0.0 <= value < math.inf
