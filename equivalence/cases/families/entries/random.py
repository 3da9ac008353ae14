"""Ops that draw: words of 64 bits, and probabilities at both ends.

Their shapes are those of every pointwise op, whose sizes lie beside a tile and are seldom
multiples of four, which is how many elements one block of random words serves.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH, WORDS
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.families.entries.elementwise import SIZED, SIZES
from equivalence.cases.families.exactly import SHAPES
from equivalence.cases.families.family import (
    Call,
    Family,
    Offer,
    Operands,
    Picks,
    Sample,
    Sampler,
    everything,
)
from equivalence.cases.families.growing import Growth, grows
from equivalence.cases.families.shapes import around, shape
from equivalence.cases.families.signatures import Draw, Shape, Signature, required
from spec.op import Op

FACTORS: Factors = {
    **SIZES,
    "seed": (7, 2**64 - 1, 2**32, 0, 2**63 + 5, 1234567890123456789, 2**32 - 1),
    "counter": (0, 2**32 + 1, 2**64 - 1, 1, 2**63),
}


def _factors(op: Op) -> Factors:
    return {**FACTORS, **op.tried}


def chances(op: Op) -> list[str]:
    """Name the attributes that are probabilities: of an op that draws, those tried at floats."""
    return [name for name, among in op.tried.items() if op.random and type(among[0]) is float]


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    return _of_shape(op, around(levels)[0], levels)


def _of_shape(op: Op, shape: Shape, levels: Levels) -> Signature:
    """Return a call of a shape, which is an attribute where there is no input."""
    known = {**levels, "shape": shape}
    return (shape,) * len(op.inputs), {name: known[name] for name in _told(op)}


def both_happen(call: Call) -> bool:
    """What drops everything shows nothing, nor does a mask of one kind."""
    if "keep_prob" in call.attributes:
        return bool(0.01 < call.attributes["keep_prob"] < 0.99)
    dropped = call.attributes.get("p", 0.0) if call.attributes.get("training", True) else 0.0
    return bool(dropped < 0.99)


def _told(op: Op) -> list[str]:
    """Name the attributes of a call, but for the world in which its numbers are wanted."""
    shaped = ("shape",) if "shape" in op.attributes else ()
    return [*WORDS, *shaped, *op.tried]


def _empty(op: Op) -> tuple[Signature, ...]:
    factors = _factors(op)
    return tuple(
        _of_shape(op, own, {name: levels[k % len(levels)] for name, levels in factors.items()})
        for k, own in enumerate(((0,), (), (3, 0, 2)))
    )


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    attrs: dict[str, Any] = {}
    if "shape" in op.attributes:
        attrs["shape"] = shape(draw, ENOUGH, 300)
    attrs |= {name: draw(st.integers(0, 64).flatmap(_word)) for name in WORDS}
    attrs |= {name: _probability(draw) for name in chances(op)}
    attrs |= _mostly_plain(draw, op, 7)
    return tuple(shape(draw, ENOUGH, 300) for _ in op.inputs), attrs


def _word(bits: int) -> st.SearchStrategy[int]:
    """Draw a number of so many bits."""
    return st.integers(0, 2**bits - 1)


def _probability(draw: Draw) -> float:
    """Draw a probability, its ends more often than others."""
    number: float = draw(st.sampled_from((0.5, 0.1, 0.0, 1.0)) | st.floats(0, 1))
    return number


def _mostly_plain(draw: Draw, op: Op, often: int) -> dict[str, Any]:
    """Draw the other attributes: the plainest value so many times as often as the last."""
    others = {name: among for name, among in op.tried.items() if name not in chances(op)}
    return {
        name: among[0] if draw(st.integers(0, often)) < often else among[-1]
        for name, among in others.items()
    }


def _small(draw: Draw, op: Op) -> Signature:
    """Draw the words of an op that draws, a probability, and its shape, which has no inputs."""
    own = draw(SHAPES)
    word = st.integers(0, 3) | st.integers(0, 2**64 - 1)
    attrs: dict[str, Any] = {name: draw(word) for name in WORDS}
    if "shape" in op.attributes:
        attrs["shape"] = own
    chance = st.sampled_from([0.5, Fraction(1, 3), 0.25, 1, 0])
    attrs |= {name: draw(chance) for name in chances(op)}
    attrs |= _mostly_plain(draw, op, 4)
    return (own,) * len(op.inputs), attrs


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    """Leave the counter to the session, and let a mask of nothing and of all be drawn too."""
    attrs: dict[str, Any] = {"seed": picks[2]}
    if "shape" in op.attributes:
        attrs["shape"] = ((3,), (2, 3), (), (0,))[picks[0] % 4]
    chance = (0.5, 0.0, 1.0, 0.25)[picks[1] % 4]
    attrs |= dict.fromkeys(chances(op), chance)
    inputs = tuple(offer.entry(picks[0], everything) for _ in op.inputs)
    return None if None in inputs else (inputs, attrs)


def _grown(op: Op, n: int) -> Signature:
    shaped = {"shape": (n,)} if "shape" in op.attributes else {}
    return ((n,),) * len(op.inputs), {"seed": 7, "counter": 2**32 + 1, **shaped, **required(op)}


def _sample(sampler: Sampler, op: Op) -> Sample:
    """Draw with one seed, and the plainest probability where one is asked for."""
    told = {"shape": (sampler.rows, sampler.columns)} if not op.inputs else {}
    words = {"seed": 0, "counter": 0}
    return [sampler.matrix() for _ in op.inputs], {**told, **words, **required(op)}


RANDOM = Family(
    name="random",
    factors=_factors,
    rules=SIZED,
    call=_call,
    empty=_empty,
    draw=_draw,
    small=_small,
    growths=grows(Growth("elements", _grown, 2**20 + 1, 24_601)),
    operands=_operands,
    sample=_sample,
    shows=(both_happen,),
)
