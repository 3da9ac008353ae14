"""A part of an op: what of it a backend takes, as data or as a predicate on the types of a call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from equivalence.cases.declared.calls import CallTypes, TensorTypes, tupled

Predicate = Callable[[CallTypes], bool]
"""Says whether a backend takes a call, by the types of the call alone."""

ORDERS: Mapping[str, Callable[[int], Sequence[int]]] = {
    "row-major": range,
    "column-major": lambda rank: range(rank)[::-1],
    "channels-last": lambda rank: (*range(min(rank, 1)), *range(2, rank), *range(1, min(rank, 2))),
}
"""The named orders of axes in memory, the outermost first, by rank."""


@dataclass(frozen=True)
class Part:
    """What of an op a backend takes. What is not said is not narrowed.

    attributes   by the name of an attribute, or of a hyper-parameter: the values that it may have
    ranks        the ranks of the first input; of an optimizer, those of every parameter
    axes         what the attribute `axis` or `axes` may name: a number stands for one axis alone,
                 -1 for the last and 0 for the first, and a tuple for several axes together, in any
                 order, or for none
    layouts      the names of the layouts in which every tensor may come
    orders       the orders in memory of every tensor's axes: "row-major", "column-major",
                 "channels-last", or a tuple of axes, the outermost first, for tensors of its rank
    empty        whether tensors without elements may come
    directions   of "value", "vjp" and "jvp"; rows of the others are unsupported
    options      of an optimizer, those of "groups", "max_norm", "grad_scale", "start_step" and
                 "missing" (a gradient is None) that it takes
    """

    attributes: Mapping[str, Collection[Any]] = field(default_factory=dict[str, Collection[Any]])
    ranks: Collection[int] | None = None
    axes: Collection[int | tuple[int, ...]] | None = None
    layouts: Collection[str] | None = None
    orders: Collection[str | tuple[int, ...]] | None = None
    empty: bool = True
    directions: Collection[str] | None = None
    options: Collection[str] | None = None

    def takes(self, call: CallTypes) -> bool:
        """Say whether a call is inside."""
        return self.takes_structure(call) and all(map(self.takes_tensor, call.tensors))

    def takes_structure(self, call: CallTypes) -> bool:
        """Say whether a call may be inside, however its tensors lie in memory."""
        ranked = call.inputs if call.direction == "update" else call.inputs[:1]
        return (
            (self.directions is None or call.direction in self.directions)
            and (self.empty or not call.empty)
            and (self.ranks is None or all(x.rank in self.ranks for x in ranked))
            and (self.options is None or all(name in self.options for name in call.options))
            and self._takes_attributes(call.attributes)
            and (self.axes is None or self._takes_axes(call))
        )

    def takes_tensor(self, tensor: TensorTypes) -> bool:
        """Say whether a tensor may lie in memory as it does."""
        if self.layouts is not None and tensor.layout not in self.layouts:
            return False
        return self.orders is None or any(
            tensor.lies_in(tuple(ORDERS[order](tensor.rank)) if isinstance(order, str) else order)
            for order in self.orders
        )

    def _takes_attributes(self, given: Mapping[str, Any]) -> bool:
        return all(
            any(_same(given[name], tupled(value)) for value in values)
            for name, values in self.attributes.items()
            if name in given
        )

    def _takes_axes(self, call: CallTypes) -> bool:
        """Say whether the axes that a call names together are among those taken."""
        assert self.axes is not None
        rank = max((x.rank for x in (*call.inputs[:1], *call.seeds)), default=0)
        named = {*named_axes(call.attributes, rank)}
        among = ((axes,) if isinstance(axes, int) else axes for axes in self.axes)
        return any(named == {k + rank if k < 0 else k for k in axes} for axes in among)


def named_axes(attributes: Mapping[str, Any], rank: int) -> tuple[int, ...]:
    """Return the axes that a call names, counted from the first; none named means all of them."""
    given = attributes["axis"] if "axis" in attributes else attributes.get("axes", ())
    if given is None:
        return tuple(range(rank))
    axes = (given,) if isinstance(given, int) else tuple(given)
    return tuple(axis + rank if axis < 0 else axis for axis in axes)


def _same(given: Any, value: Any) -> bool:
    """Compare values of attributes; True is not 1."""
    return bool(given == value) and isinstance(given, bool) == isinstance(value, bool)
