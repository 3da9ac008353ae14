"""The types of a call: what a declaration may look at, which is everything but the numbers."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from equivalence.cases.call import CaseSpec, Shape, dtype_at, dtype_of_value
from equivalence.cases.guard import place, plainest_layout
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.dtypes import DTYPES
from equivalence.registry import OPS, OPTIMIZERS

NAMES = {d.torch: name for name, d in DTYPES.items()}
"""The names of dtypes by torch's."""

OPTIONS = ("groups", "max_norm", "grad_scale", "start_step", "missing")
"""What a case may ask of an optimizer beside its hyper-parameters; missing: a gradient is None."""


@dataclass(frozen=True, slots=True)
class TensorTypes:
    """What is known of a tensor without its numbers: shape, dtype, and strides in elements.

    layout is the suite's name of how it lies in memory (docs/backends.md lists them).
    """

    shape: Shape
    dtype: str
    strides: Shape
    layout: str

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def empty(self) -> bool:
        """Whether there is no element."""
        return math.prod(self.shape) == 0

    @property
    def contiguous(self) -> bool:
        """Whether torch calls it contiguous: row-major, without gaps."""
        pitch = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != pitch and not self.empty:
                return False
            pitch *= extent
        return True

    def lies_in(self, order: Sequence[int]) -> bool:
        """Say whether its axes lie in memory in this order, the outermost first.

        Axes along which nothing steps may stand anywhere.
        """
        steps = [self.strides[k] for k in order if self.shape[k] > 1 and self.strides[k]]
        return len(order) == self.rank and all(one > other for one, other in pairwise(steps))


@dataclass(frozen=True, slots=True)
class CallTypes:
    """What is known of a call without its numbers.

    op          the operation, or the optimizer
    direction   "value", "vjp" or "jvp", and of an optimizer "update"
    dtype       that of the row, such as "fp32"
    inputs      the inputs, or the parameters of an optimizer
    seeds       the cotangents or the tangents, or the gradients of an optimizer
    attrs       the attributes or hyper-parameters, complete, as pairs
    options     what an optimizer is asked beside its hyper-parameters, of OPTIONS
    """

    op: str
    direction: str
    dtype: str
    inputs: tuple[TensorTypes, ...]
    seeds: tuple[TensorTypes, ...] = ()
    attrs: tuple[tuple[str, Any], ...] = ()
    options: tuple[str, ...] = ()

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes by name, those that the call left at their defaults among them."""
        return dict(self.attrs)

    @property
    def tensors(self) -> tuple[TensorTypes, ...]:
        """Everything that the backend is given."""
        return (*self.inputs, *self.seeds)

    @property
    def empty(self) -> bool:
        """Whether some tensor has no element."""
        return any(tensor.empty for tensor in self.tensors)

    @property
    def contiguous(self) -> bool:
        """Whether torch calls every tensor contiguous."""
        return all(tensor.contiguous for tensor in self.tensors)


@cache
def tensor_types(shape: Shape, dtype: str, layout: str = "contiguous") -> TensorTypes:
    """Return the types of a tensor that the suite places in a layout."""
    return TensorTypes(shape, dtype, place(shape, layout).strides, plainest_layout(shape, layout))


def complete(op: str, attributes: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return the attributes of a call with the defaults of those that it leaves out, as pairs."""
    known = OPS[op].attributes.items()
    defaults = {name: v for name, v in known if v is not inspect.Parameter.empty}
    return tuple((name, tupled(value)) for name, value in {**defaults, **attributes}.items())


def tupled(value: Any) -> Any:
    """Return a value with tuples for lists."""
    return tuple(map(tupled, value)) if isinstance(value, list | tuple) else value


def call_types(
    op: str,
    direction: str,
    dtype: str,
    shapes: Sequence[Shape],
    attributes: Mapping[str, Any],
    results: Sequence[Shape],
    layouts: Sequence[str],
    seed_layout: str = "contiguous",
) -> CallTypes:
    """Return the types of a call of an op, of whose results the shapes are known."""
    inputs = tuple(
        tensor_types(tuple(shape), _name(op, k, dtype), layout)
        for k, (shape, layout) in enumerate(zip(shapes, layouts, strict=True))
    )
    seeds: tuple[TensorTypes, ...] = ()
    if direction == "vjp":
        held = NAMES.get(str(dtype_of_value(op, attributes, dtype)).removeprefix("torch."), dtype)
        seeds = tuple(tensor_types(tuple(shape), held, seed_layout) for shape in results)
    if direction == "jvp":
        real = (s for k, s in enumerate(shapes) if k not in OPS[op].index_inputs)
        seeds = tuple(tensor_types(tuple(shape), dtype, seed_layout) for shape in real)
    return CallTypes(op, direction, dtype, inputs, seeds, complete(op, attributes))


def _name(op: str, k: int, dtype: str) -> str:
    """Return the name of the dtype of an input."""
    torchs = str(dtype_at(op, k, dtype)).removeprefix("torch.")
    return NAMES.get(torchs, torchs)


def types_of_case(case: CaseSpec) -> CallTypes:
    """Return the types of a case's call."""
    (seed,) = [recipe.layout for _, recipe in case.seeds()] or ["contiguous"]
    shapes = [tuple(each.shape) for each in case.results().values()]
    return call_types(
        case.op,
        case.direction,
        case.dtype,
        case.shapes,
        case.attributes(),
        shapes,
        [recipe.layout for recipe in case.recipes],
        seed,
    )


def types_of_update(case: UpdateSpec) -> tuple[CallTypes, ...]:
    """Return the types of a case's steps: one entry for each set of hyper-parameters in use."""
    parameters = tuple(tensor_types(s, case.dtype, case.parameters.layout) for s in case.shapes)
    gradients = tuple(tensor_types(s, case.dtype, case.gradients.layout) for s in case.shapes)
    told = {event.kind for event in case.events}
    used = {
        "groups": bool(case.groups),
        "max_norm": "set_max_norm" in told or any(one.max_norm for one in case.limits_at(0)),
        "grad_scale": case.grad_scale != 1.0 or "set_grad_scale" in told,
        "start_step": case.start_step > 0,
        "missing": bool(case.missing),
    }
    options = tuple(name for name in OPTIONS if used[name])
    settings = dict.fromkeys(
        tuple(sorted(case.hyper_parameters(k, step).items()))
        for k in range(len(case.shapes))
        for step in (0, case.steps)
    )
    return tuple(
        CallTypes(case.optimizer, "update", case.dtype, parameters, gradients, pairs, options)
        for pairs in settings
    )


def attributes_of(name: str) -> tuple[str, ...]:
    """Return the names of an op's attributes, or of an optimizer's hyper-parameters."""
    return tuple(OPS[name].attributes if name in OPS else OPTIMIZERS[name].arguments)
