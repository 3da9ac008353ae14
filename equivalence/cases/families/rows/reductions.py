"""Ops that reduce axes of one input."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.domains import domain
from equivalence.cases.families.exactly import SHAPES, some_axes
from equivalence.cases.families.family import (
    FEW,
    TERM,
    Call,
    Family,
    Offer,
    Operands,
    Picks,
    Sample,
    Sampler,
    has_elements,
)
from equivalence.cases.families.growing import (
    MANY_ROWS,
    SPREAD,
    WHOLE,
    Bearing,
    Growth,
    at_whole_numbers,
    fixed,
)
from equivalence.cases.families.shapes import (
    BESIDE,
    NAMES,
    PLACES,
    RANKS,
    around,
    many_lie_beside_short_ones,
    named_axis,
    one_entry_leads_where_the_other_axis_does_not,
    place_is_its_own,
    shape,
)
from equivalence.cases.families.signatures import (
    Draw,
    Shape,
    Signature,
    always,
    chosen,
    required,
    results,
)
from spec.op import Op

FACTORS: Factors = {
    "rank": RANKS,
    "place": PLACES,
    "extent": (33, 1, 2, 8, 31, 64, 65, 128, 257, 513, 1025),
    "rows": BESIDE,
    "reduced": ("long", "others", "pair", "all", "default", "none"),
    "order": ("ascending", "descending"),
    "name": (*NAMES, "mixed"),
    "keepdims": (False, True),
}
"""The axes that go: the long one, all but it, it and another, all by their names or by default."""


def _factors(op: Op) -> Factors:
    return {**FACTORS, **op.tried}


def _count(rank: int, reduced: str) -> int:
    """Return how many axes are named."""
    return {"long": 1, "others": rank - 1, "pair": 2, "all": rank}.get(reduced, 0)


def so_many_axes_are_another_set(rank: int, reduced: str) -> bool:
    """One, a pair and the others are sets of their own only where there are enough axes."""
    return rank >= {"long": 2, "others": 2, "pair": 3}.get(reduced, 1)


def one_axis_has_no_order(rank: int, reduced: str, order: str) -> bool:
    """An order needs two axes to be named."""
    return order == "ascending" or _count(rank, reduced) > 1


def so_few_axes_have_no_such_names(rank: int, reduced: str, name: str) -> bool:
    """A name needs an axis, and mixed names need two."""
    return _count(rank, reduced) >= {"negative": 1, "mixed": 2}.get(name, 0)


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    """Reduce some axes; a value is counted by the entries that stay."""
    own, axis = around(levels, *((2100, ENOUGH) if direction == "value" else ()))
    rank, reduced = len(own), levels["reduced"]
    named: dict[str, list[int]] = {
        "long": [axis],
        "others": [k for k in range(rank) if k != axis],
        "pair": sorted({axis, (axis + 1) % rank}),
        "all": list(range(rank)),
    }
    attrs: dict[str, Any] = {"keepdims": levels["keepdims"]}
    attrs |= {name: levels[name] for name in op.tried}
    if reduced == "default":
        return (own,), attrs
    axes = named.get(reduced, [])[:: -1 if levels["order"] == "descending" else 1]
    backwards = {"positive": (), "negative": axes, "mixed": axes[::2]}[levels["name"]]
    attrs["axes"] = tuple(k - rank if k in backwards else k for k in axes)
    return (own,), attrs


NOTHING: tuple[Signature, ...] = (
    (((2, 0),), {"axes": (1,)}),
    (((0, 3),), {"axes": None}),
    (((0, 3),), {"axes": (1,)}),
    (((),), {}),
)


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    """Draw the axes that stay, then insert the ones that are reduced away."""
    kept = [(n, False) for n in shape(draw, ENOUGH, 24, max_rank=2)]
    lost = [(n, True) for n in shape(draw, 1, 64, max_rank=2)]
    mixed: list[tuple[int, bool]] = draw(st.permutations(kept + lost))
    rank = len(mixed)
    order: list[int] = draw(st.permutations([k for k, (_, goes) in enumerate(mixed) if goes]))
    axes = tuple(named_axis(draw, k, rank) for k in order)
    attrs: dict[str, Any] = {"axes": axes, "keepdims": draw(st.booleans())}
    attrs |= chosen(draw, op)
    if direction == "vjp" and draw(st.integers(0, 4)) == 4:
        attrs["axes"] = None
    return (tuple(n for n, _ in mixed),), attrs


def _small(draw: Draw, op: Op) -> Signature:
    """Reduce axes with entries, where the op asks for some."""
    own = draw(SHAPES)
    axes = some_axes(draw, len(own))
    least = 0 if results(op, (((0,),), required(op))) is not None else 1
    gone = range(len(own)) if axes is None else [axis % len(own) for axis in axes]
    shape = tuple(max(n, least) if k in gone else n for k, n in enumerate(own))
    return (shape,), {"axes": axes, "keepdims": draw(st.booleans()), **chosen(draw, op)}


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    where = domain(op, 0)
    x = offer.entry(picks[0], has_elements, FEW if where == "factors" else TERM, where)
    if x is None:
        return None
    axis = axis_of(offer.shapes[x], picks)
    axes = None if axis is None else (axis,)
    return (x,), {"axes": axes, "keepdims": bool(picks[2] % 2)}


def axis_of(found: Shape, picks: Picks) -> int | None:
    """Pick one axis, or none, which means all."""
    rank = len(found)
    return None if not rank or picks[1] % 3 == 0 else picks[1] % rank


def _sample(sampler: Sampler, op: Op) -> Sample:
    return [sampler.matrix()], {**required(op), "axes": (1,)}


EVEN = ("sum", "mean")
"""The ops that give the same share of a cotangent to each entry."""


def gradients_of_one_result_differ(call: Call) -> bool:
    """What is spread evenly over all entries is the same everywhere."""
    lone = call.direction == "vjp" and all(math.prod(shape) == 1 for shape in call.results)
    return not lone or call.op.name not in EVEN


SUMS = (
    Growth("columns", fixed(lambda n: ((8, n),), axes=(1,)), 2**17, 2**13, WHOLE),
    Growth("rows", fixed(lambda n: ((n, 16),), axes=(1,)), MANY_ROWS, 2_731),
    Growth("outer", fixed(lambda n: ((n, 8),), axes=(0,)), 2**17, 2**12, WHOLE),
    Growth("inner", fixed(lambda n: ((8, n),), axes=(0,)), 2**17, 2**12 + 5, WHOLE),
    Growth("elements", fixed(lambda n: ((n,),), axes=None), 2**22, 2**15, WHOLE),
    Growth("both", fixed(lambda n: ((n, 4, n + 2),), axes=(1,)), 259, 131),
)
"""Where a mean is judged to the bit it has a power of two of terms."""

CURVED = (
    Growth("columns", fixed(lambda n: ((8, n),), axes=(1,)), 2**17, 8_201, SPREAD),
    Growth("rows", fixed(lambda n: ((n, 16),), axes=(1,)), MANY_ROWS, 2_731, SPREAD),
    Growth("outer", fixed(lambda n: ((n, 8),), axes=(0,)), 2**14, 2**12, SPREAD),
    Growth("elements", fixed(lambda n: ((n,),), axes=None), 2**20, 2**13, SPREAD),
    Growth("both", fixed(lambda n: ((n, 4, n + 2),), axes=(1,)), 259, 131, SPREAD),
)
"""Of a reduction that takes exponentials or logarithms no integers are exact."""


def _growths(op: Op) -> tuple[Growth, ...]:
    # 3 and 4 have a whole norm.
    return CURVED if at_whole_numbers(op, 3, 4) is None else SUMS


def _side(op: Op) -> int:
    """Return the side of 0 on which a 0 would be the extreme that the op takes.

    So it shows where a block that is not full was filled with zeros.
    """
    taken = at_whole_numbers(op, 5, 7, 6)
    return (taken == 5) - (taken == 7)


def _most(op: Op, k: int, exponent: int) -> int | None:
    # Where an extreme is taken, nothing is added, and few entries tie.
    return None if _side(op) else 3


REDUCTIONS = Family(
    name="reductions",
    factors=_factors,
    rules=(
        place_is_its_own,
        many_lie_beside_short_ones,
        one_entry_leads_where_the_other_axis_does_not,
        so_many_axes_are_another_set,
        one_axis_has_no_order,
        so_few_axes_have_no_such_names,
    ),
    call=_call,
    empty=always(*NOTHING),
    draw=_draw,
    small=_small,
    growths=_growths,
    bearing=Bearing(most=_most, side=_side),
    operands=_operands,
    sample=_sample,
    shows=(gradients_of_one_result_differ,),
)
