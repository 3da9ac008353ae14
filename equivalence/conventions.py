"""Conventions: where a page had to choose, and others choose otherwise.

A page says who receives the cotangent where entries tie for the largest, and what sign a zero has.
Neither is a matter of arithmetic, so a backend that chooses otherwise is not wrong; it says so, or
it says nothing and may be either.

>>> [page is OPS["max"] for page in pages("max", Conventions(ties="shared"))]
[True]
>>> len(pages("max", Conventions())), len(pages("exp", Conventions()))
(5, 1)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

from equivalence.registry import OPS
from spec.axes import reduction, split_axes
from spec.kinds import chosen, pointwise
from spec.op import AnyTensor, Edge, Op
from spec.scalar import equal, is_nan, less, select, sum_over
from spec.tensor import tabulate, tensor

Ties = Literal["shared", "first", "last", "any"]
"""Who receives the cotangent of a largest entry: all that tie, equally, or one of them, whole."""


@dataclass(frozen=True, slots=True)
class Conventions:
    """What a backend has chosen; the defaults are for those who never said.

    ties          "shared" equally, as the pages do, the "first" or the "last" of those that tie, or
                  "any" of these, the same for all of a result
    signed_zeros  whether an edge that promises a sign of zero is judged by that sign
    """

    ties: Ties = "any"
    signed_zeros: bool = False


OURS = Conventions(ties="shared", signed_zeros=True)
"""What the pages choose."""

UNSAID = Conventions()
"""What a backend may do that never said."""


def pages(op: str, conventions: Conventions) -> tuple[Op, ...]:
    """Return the records by one of which a backend is judged; the first is the one to show."""
    page = OPS[op]
    others = TIED.get(op)
    if others is None or conventions.ties == "shared":
        return (page,)
    if conventions.ties == "any":
        return (page, *others["first"], *others["last"])
    return others[conventions.ties]


def rows_of(op: str, edge: Edge, conventions: Conventions) -> list[Any]:
    """Return the results that an edge row allows under some conventions, a tuple each."""
    if edge.cotangent is None:
        return [(row,) for row in edge.allowed]
    rows: list[Any] = []
    for page in pages(op, conventions):
        if page is OPS[op]:
            rows.extend(edge.allowed)
            continue
        inputs = tuple(map(tensor, edge.inputs))
        found = page.vjp(inputs, tensor(edge.cotangent), **edge.attributes)
        rows.append(tuple(None if g is None else _nested(g) for g in found))
    return rows


def _nested(x: AnyTensor) -> Any:
    """Return the entries of a tensor as nested lists."""

    def level(at: tuple[int, ...]) -> Any:
        if len(at) == x.rank:
            return float(x[at])
        return [level((*at, k)) for k in range(x.shape[len(at)])]

    return level(())


def _of_sides(op: str, first: bool) -> Op:
    """Let one side of maximum or minimum have all of a tie."""
    page = OPS[op]

    def taken(x: Any, y: Any, at_tie: int) -> Any:
        loses = less(x, y) if op == "maximum" else less(y, x)
        return select(loses, 0, select(equal(x, y), at_tie, 1))

    def partials(x: Any, y: Any) -> tuple[Any, Any]:
        return taken(x, y, int(first)), taken(y, x, int(not first))

    return pointwise(op, page.type_rule, page.value, partials, choosing=True)


def _of_entries(op: str, order: Callable[[range], Any], named: bool) -> Op:
    """Let one entry have all of a tie for an extreme: the first in an order of each axis.

    The slowest of the axes is the first of the tensor, or, if named, the first that the call names.
    """
    page = OPS[op]

    def shared(x: AnyTensor, axes: Any) -> tuple[AnyTensor, Sequence[int]]:
        kept, reduced = split_axes(x.rank, axes)
        walk = [axis % x.rank for axis in axes] if named and axes is not None else reduced
        extreme = page.value(x, axes=axes)
        free: dict[Any, Any] = {}
        shares: dict[Any, Any] = {}
        for steps in product(*(order(range(x.shape[k])) for k in (*kept, *walk))):
            place = dict(zip((*kept, *walk), steps, strict=True))
            i = tuple(place[k] for k in range(x.rank))
            at = steps[: len(kept)]
            tie = select(is_nan(x[i]), 1, select(equal(x[i], extreme[at]), 1, 0))
            left = free.get(at, 1)
            shares[i], free[at] = tie * left, left * (1 - tie)
        return tabulate(x.shape, lambda *i: shares[i]), kept

    def jvp(inputs: Any, tangents: Any, *, axes: Any = None, keepdims: bool = False) -> AnyTensor:
        (x,), (tangent,) = inputs, tangents
        if tangent is None:
            return page.jvp(inputs, tangents, axes=axes, keepdims=keepdims)
        share, _ = shared(x, axes)
        moved: AnyTensor = tabulate(x.shape, lambda *i: chosen(tangent[i], share[i]))
        result: AnyTensor = reduction(sum_over, moved, axes, keepdims)
        return result

    def vjp(
        inputs: Any, cotangent: AnyTensor, *, axes: Any = None, keepdims: bool = False
    ) -> tuple[AnyTensor | None, ...]:
        (x,) = inputs
        share, kept = shared(x, axes)

        def seed(i: tuple[int, ...]) -> Any:
            at = tuple(i[k] if k in kept else 0 for k in range(x.rank))
            return cotangent[at if keepdims else tuple(i[k] for k in kept)]

        return (tabulate(x.shape, lambda *i: chosen(seed(i), share[i])),)

    return replace(page, jvp=jvp, vjp=vjp)


TIED: Mapping[str, Mapping[str, tuple[Op, ...]]] = {
    **{
        op: {
            side: tuple(_of_entries(op, order, named) for named in (False, True))
            for side, order in (("first", iter), ("last", reversed))
        }
        for op in ("max", "min")
    },
    **{
        op: {"first": (_of_sides(op, True),), "last": (_of_sides(op, False),)}
        for op in ("maximum", "minimum")
    },
}
"""The pages whose derivative depends on who wins a tie, under the other choices."""
