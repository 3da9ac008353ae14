"""Which numbers suit which input of which operation: the value regimes.

Each regime is there because some real defect shows only there: one-pass variance needs an offset, a
misplaced eps needs tiny numbers, a missing row maximum needs large logits, a wrong tie rule needs
ties, a division of zero by zero needs exact zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any, Literal

from equivalence.cases.fills.regimes import ENDS, NONFINITE
from equivalence.cases.fills.regimes import REGIMES as FILLS
from spec.op import AnyTensor, Op, Rejected, one_tensor
from spec.tensor import Tensor, tensor

Regimes = tuple[str, ...]

REAL: Regimes = (
    "integers",
    "normal",
    "mixed",
    "offset",
    "zeros",
    "ties",
    "kinks",
    "constant",
    "logits",
    "tiny",
)
MODERATE: Regimes = ("integers", "normal", "zeros", "ties", "kinks", "logits", "tiny")
POSITIVE: Regimes = ("positive_integers", "positive", "near_one", "positive_mixed")
PAST_MINUS_ONE: Regimes = ("positive_integers", "positive", "past_minus_one", "positive_mixed")
NONZERO: Regimes = ("nonzero_integers", "nonzero", "nonzero_mixed", "positive")
FACTORS: Regimes = ("units", "normal", "zeros", "ties", "kinks", "tiny", "near_one", "factors")
MASKS: Regimes = ("truths", "all_true", "all_false", "few_true")
INDICES: Regimes = ("indices", "repeated", "ends")
LABELS: Regimes = ("indices", "repeated", "ends", "some_ignored", "all_ignored")

COTANGENTS: Regimes = ("integers", "normal", "mixed", "mixed_zeros", "one_hot", *NONFINITE)
"""Never all ones: a dropped or permuted cotangent must show."""

GROUPS = {
    "at_an_end": ENDS,
    "not_finite": tuple(regime for regime in NONFINITE if regime not in ENDS),
}
"""Regimes that are one level of a design."""

Domain = Literal["real", "factors", "moderate", "nonzero", "past_minus_one", "positive"]
"""Where an input may lie: moderate numbers are those whose exponential is finite, and factors those
of which products of many are."""

BY_DOMAIN: dict[Domain, Regimes] = {
    "real": (*REAL, *NONFINITE),
    "factors": (*FACTORS, *NONFINITE),
    "moderate": (*MODERATE, *NONFINITE),
    "nonzero": (*NONZERO, *NONFINITE),
    "past_minus_one": (*PAST_MINUS_ONE, *NONFINITE),
    "positive": (*POSITIVE, *NONFINITE),
}
"""What is not finite suits every input: the page says by IEEE what becomes of it."""

NARROWEST: tuple[Domain, ...] = (
    *("positive", "past_minus_one", "nonzero"),
    *("moderate", "factors", "real"),
)
"""The domains, each within those after it, near enough: where one tensor is several inputs."""

FAR = 2.0**14
"""Beyond the largest number of any regime of real numbers."""

OVERFLOW = 2.0**128
"""What fp32 does not hold."""

LONG = 256
"""How many equal entries are multiplied beyond every format, and added within all of them."""


class NoFraction(ArithmeticError):
    """A step has no result that could be compared among fractions."""


def grouped(among: Sequence[str]) -> tuple[str, ...]:
    """Let the regimes of what is not finite be one level, and those at a format's ends another.

    Each regime of a group meets a few levels of every other factor, and all of them together meet
    each (`equivalence.cases.strata.turns`).
    """
    plain = tuple(regime for regime in among if regime not in NONFINITE)
    return (*plain, *(name for name, group in GROUPS.items() if group[0] in among))


def grouped_levels(levels: Mapping[str, Any]) -> dict[str, Any]:
    """Return levels of which a regime of a group is the group, as a design knows it."""
    of = {regime: name for name, group in GROUPS.items() for regime in group}
    return {n: of.get(level, level) if "regime" in n else level for n, level in levels.items()}


def usual(op: Op) -> dict[str, Any]:
    """Return the plainest of the values of each attribute that the page tries."""
    return {name: among[0] for name, among in op.tried.items()}


def domain(op: Op, k: int, attributes: Mapping[str, Any] | None = None) -> Domain:
    """Return where input k of an op may lie, which the page tells when it is tried at numbers.

    Only an op of single numbers is tried, its other inputs at 1: of softmax or matmul any do; and
    of one input, a long row of 2, of which a product is none. Of the attributes, those count that
    the page tries; without any, they are the plainest.
    """
    given = usual(op) if attributes is None else attributes
    return _domain(op, k, tuple((name, given[name]) for name in op.tried if name in given))


@cache
def _domain(op: Op, k: int, attributes: tuple[tuple[str, Any], ...]) -> Domain:
    def tame(number: float) -> bool:
        return _tame(op, k, number, dict(attributes))

    if not tame(1.0):
        return "factors" if _multiplies(op, k, dict(attributes)) else "real"
    if not tame(-1.0):
        return "past_minus_one" if tame(-0.5) else "positive"
    if not tame(0.0):
        return "nonzero"
    if _multiplies(op, k, dict(attributes)):
        return "factors"
    return "real" if tame(FAR) and tame(-FAR) else "moderate"


def _tame(op: Op, k: int, number: float, attributes: Mapping[str, Any]) -> bool:
    """Say whether value and gradient are finite where input k is a number; indices have none."""
    if op.variadic or k in op.index_inputs:
        return False
    inputs = _singles(op, attributes, k, number)
    if inputs is None:
        return False
    value = one_tensor(op.name, op.value(*inputs, **attributes))
    found = (value, *op.vjp(inputs, value.map(lambda _: 1.0), **attributes))
    return all(x is None or all(abs(z) < OVERFLOW for z in x.data) for x in found)


def _singles(
    op: Op, attributes: Mapping[str, Any], k: int, number: float
) -> list[AnyTensor] | None:
    """Return one entry for each input of a call: 1 where it may be, or true, and a number in one.

    They are single numbers, or else matrices and lines of one entry, which channels may have. None:
    the page refuses all of these.
    """
    for rank, beside in ((0, 0), (2, 1)):
        ranks = [rank, *[beside] * (len(op.inputs) - 1)]
        try:
            types = op.types_at(*((1,) * own for own in ranks))
            op.check_types(*types, **attributes)
            found: list[float | int] = [at in op.mask_inputs or 1.0 for at in range(len(types))]
            for at in op.integer_inputs:
                allowed = op.integers(at, *types, **attributes)
                found[at] = 1 if 1 in allowed else allowed.lowest
            found[k] = number
            inputs = [Tensor((1,) * own, (x,)) for own, x in zip(ranks, found, strict=True)]
            op.check(*inputs, **attributes)
        except Rejected:
            continue
        return inputs
    return None


def _multiplies(op: Op, k: int, attributes: Mapping[str, Any]) -> bool:
    """Say whether a long row of 2 is more than fp32 holds, and one of 1 is not."""
    if len(op.inputs) != 1 or op.variadic or k in op.index_inputs:
        return False
    along = {"axis": 0} if "axis" in op.attributes else {}
    sizes: list[float] = []
    for number in (1.0, 2.0):
        row = tensor([number] * LONG)
        try:
            op.check(row, **along, **attributes)
        except Rejected:
            return False
        sizes.append(max(abs(z) for z in op.value(row, **along, **attributes).data))
    return sizes[0] < OVERFLOW <= sizes[1]


def regimes(
    op: Op, inputs: int, attributes: Mapping[str, Any] | None = None
) -> tuple[Regimes, ...]:
    """Return the value regimes of each input of an operation, simplest first.

    Without attributes they are those that suit it with any of the attributes that its page tries.
    """
    return tuple(_suited(op, k, attributes) for k in range(inputs))


def _suited(op: Op, k: int, attributes: Mapping[str, Any] | None) -> Regimes:
    if k in op.mask_inputs:
        return MASKS
    if k in op.index_inputs:
        stated = op.index_ranges[op.integer_inputs.index(k)]
        return LABELS if stated.also else INDICES
    tried = (dict(zip(op.tried, levels, strict=True)) for levels in product(*op.tried.values()))
    every = tried if attributes is None else [attributes]
    suited = list(dict.fromkeys(BY_DOMAIN[domain(op, k, chosen)] for chosen in every))
    if len(suited) == 1:
        return suited[0]
    among = {regime for regimes in suited for regime in regimes}
    return tuple(regime for regime in FILLS if regime in among)
