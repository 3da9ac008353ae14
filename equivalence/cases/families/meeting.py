"""What may meet in a call of any family, and what a call needs to show anything.

The rules are asked of calls that a design has chosen in part: of a level that is not there yet,
nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from equivalence.cases.call import counts
from equivalence.cases.domains import GROUPS, regimes
from equivalence.cases.families.family import Call
from equivalence.cases.guard import core_shape, is_own
from spec.op import Op

SEEDS = {"vjp": "cotangent", "jvp": "tangent"}
"""What a direction is given beside the inputs."""

VANISHING = ("integers", "mixed_zeros")
"""Regimes of cotangents in which a lone number may be 0."""


def layouts_are_their_own(call: Call) -> bool:
    """A layout that a shape is too short for is another one, which has its own turn."""
    return all(
        is_own(shape, layout)
        for k, shape in enumerate(call.shapes)
        if (layout := _level(call, "layout", k)) is not None
    )


def the_seeds_layout_is_its_own(call: Call) -> bool:
    """So it is with the layout of a cotangent or of the tangent."""
    seed = call.levels.get("seed_layout")
    return seed is None or any(is_own(shape, seed) for shape in call.results)


def a_lone_cotangent_is_not_zero(call: Call) -> bool:
    """Every gradient would be 0."""
    lone = all(math.prod(shape) == 1 for shape in call.results)
    return not lone or call.levels.get("seed_regime") not in VANISHING


def a_lone_input_has_no_second(call: Call) -> bool:
    """Where one of many tensors is passed, what would be the second's is the first's."""
    if not is_variadic(call.op) or len(call.shapes) > 1:
        return True
    pairs = ((f"{name}_0", f"{name}_1") for name in ("regime", "layout"))
    return all(
        call.levels[first] == call.levels[second]
        for first, second in pairs
        if first in call.levels and second in call.levels
    )


def tensors_can_be_one(call: Call) -> bool:
    """One memory for several tensors of real numbers needs several, and of one shape if shared."""
    real = [shape for k, shape in enumerate(call.shapes) if k not in call.op.index_inputs]
    seeds = {"vjp": () if call.op.converts else call.results, "jvp": real}.get(call.direction, ())
    return {
        "shared": len({*real, *seeds}) < len(real) + len(seeds),
        "overlapping": len(real) + len(seeds) > 1,
    }.get(call.levels.get("calling", ""), True)


def regimes_suit_the_attributes(call: Call) -> bool:
    """With some attributes an input may lie where with others nothing is to be seen."""
    if not call.op.tried:
        return True
    suited = regimes(call.op, len(call.shapes), call.attributes)
    return all(
        level in GROUPS or level in among
        for k, among in enumerate(suited)
        if (level := _level(call, "regime", k)) is not None
    )


RULES: tuple[Callable[[Call], bool], ...] = (
    layouts_are_their_own,
    the_seeds_layout_is_its_own,
    a_lone_cotangent_is_not_zero,
    a_lone_input_has_no_second,
    tensors_can_be_one,
    regimes_suit_the_attributes,
)
"""Which levels may meet, beside those that a page refuses and those that a family names."""


def enough_is_judged(call: Call) -> bool:
    """Few elements do not count."""
    return counts(call.judged())


def numbers_differ(call: Call) -> bool:
    """Where every tensor is one number throughout, the results are, too.

    The gradients of a linear op depend on the cotangent alone, and on where it is sent.
    """
    linear = call.op.kind == "linear" and call.direction in SEEDS and not call.op.index_inputs
    if linear and all(math.prod(shape) == 1 for shape in call.results):
        return False
    seed = call.levels.get("seed_layout")
    if seed is not None and any(math.prod(core_shape(own, seed)) > 1 for own in call.results):
        return True
    spread = [
        layout is None or math.prod(core_shape(shape, layout)) > 1
        for k, shape in enumerate(call.shapes)
        for layout in [_level(call, "layout", k)]
    ]
    undecided = seed is None and call.direction in SEEDS
    return undecided or (not linear and (not spread or any(spread)))


def tensors_have_numbers_of_their_own(call: Call) -> bool:
    """Tensors that are one, or nearly, have the numbers of one of them, whatever was chosen."""
    return call.levels.get("calling") not in ("shared", "overlapping")


SIGHT: tuple[Callable[[Call], bool], ...] = (
    enough_is_judged,
    numbers_differ,
    tensors_have_numbers_of_their_own,
)
"""What a call needs to show anything, beside what its family names."""


def _level(call: Call, name: str, k: int) -> Any:
    """Return the level of an input's factor, None while it is not chosen."""
    return call.levels.get(f"{name}_{column(call.op, k)}")


def column(op: Op, k: int) -> int:
    """Return whose factors an input has: of many tensors, every second one has the same."""
    return k % 2 if is_variadic(op) else k


@cache
def is_variadic(op: Op) -> bool:
    """Say whether an op takes any number of tensors, which a record reads off a signature."""
    return op.variadic
