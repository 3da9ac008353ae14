"""Small exact calls, and probes of them: what the laws of a page are tried on.

Entries are small integers and fractions; extents run from 0 to 3, seldom 0, so that a failing call
shrinks in seconds. The family of an op draws shapes and attributes. A draw that the page refuses,
or that leaves the world of fractions, is discarded and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn

from hypothesis import reject
from hypothesis import strategies as st

from equivalence.cases.call import integers_at
from equivalence.cases.domains import NoFraction, domain
from equivalence.cases.families.signatures import Draw, Shape, Signature, refusal
from equivalence.cases.families.table import family_of
from spec.op import AnyTensor, Op, Type, one_tensor
from spec.shape import size
from spec.tensor import Tensor

NUMBERS = st.integers(-3, 3).map(Fraction)
POSITIVE = st.sampled_from([Fraction(1), Fraction(4), Fraction(9, 4), Fraction(1, 4), Fraction(9)])
"""Squares: a page may use that the square of a root is what it was taken of."""

PAST_MINUS_ONE = st.sampled_from([Fraction(0), Fraction(1), Fraction(-1, 2), Fraction(3)])
NONZERO = st.sampled_from([Fraction(1), Fraction(2), Fraction(3), Fraction(-1), Fraction(-2)])

TYING = st.sampled_from([Fraction(0), Fraction(1)])
"""Few numbers, so that many are equal."""


@dataclass(frozen=True)
class Call:
    """An op with inputs and attributes that it accepts."""

    op: Op
    inputs: tuple[AnyTensor, ...]
    attributes: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Show the call as one would write it."""
        attributes = "".join(f", {name}={value!r}" for name, value in self.attributes.items())
        return f"{self.op.name}({', '.join(map(repr, self.inputs))}{attributes})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Let Hypothesis show a failing call in one line, too."""
        printer.text(repr(self))

    @property
    def value(self) -> AnyTensor:
        """The result."""
        return one_tensor(self.op.name, self.op.value(*self.inputs, **self.attributes))

    def type(self) -> Type:
        """The type of the result, as the type rule says."""
        return self.op.check(*self.inputs, **self.attributes)


@dataclass(frozen=True)
class Probe:
    """A call with directions to differentiate it along, and numbers to mix cotangents by."""

    call: Call
    tangents: tuple[AnyTensor | None, ...]
    cotangents: tuple[AnyTensor, AnyTensor]
    factors: tuple[Fraction, Fraction]

    def with_op(self, op: Op) -> Probe:
        """The same probe of another op, such as a mutant."""
        call = Call(op, self.call.inputs, self.call.attributes)
        return Probe(call, self.tangents, self.cotangents, self.factors)


def filled(shape: Shape, entries: st.SearchStrategy[Any]) -> st.SearchStrategy[AnyTensor]:
    """Draw a tensor of a shape."""
    count = size(shape)
    lists = st.lists(entries, min_size=count, max_size=count)
    return lists.map(lambda data: Tensor(shape, data))


def like(x: AnyTensor) -> st.SearchStrategy[AnyTensor]:
    """Draw a direction of a tensor's space: a tangent, or a cotangent."""
    return filled(tuple(x.shape), NUMBERS)


@st.composite
def calls(draw: Draw, op: Op, refused: Counter[str] | None = None) -> Call:
    """Draw a valid call of an op; what its page says of the others is counted."""
    shapes, attributes = signature = family_of(op).small(draw, op)
    if (said := refusal(op, signature)) is not None:
        _discard(said, refused)
    if "like" in op.attributes:
        attributes = {**attributes, "like": Fraction(0)}
    entries = _entries(draw, op, attributes)
    inputs = [
        draw(filled(shape, _indices(op, k, signature) if k in op.index_inputs else entries(k)))
        for k, shape in enumerate(shapes)
    ]
    return Call(op, tuple(inputs), attributes)


@st.composite
def carried(draw: Draw, op: Op, refused: Counter[str] | None = None) -> Call:
    """Draw a valid call whose value the world of fractions carries."""
    call: Call = draw(calls(op, refused))
    try:
        _ = call.value
    except NoFraction as error:
        _discard(str(error), refused)
    return call


@st.composite
def probes(draw: Draw, op: Op, refused: Counter[str] | None = None) -> Probe:
    """Draw a call and a direction for every input: None, for zero, now and then.

    A law says little of tensors without entries, so that most such calls are discarded.
    """
    call: Call = draw(carried(op, refused))
    if not all(x.data for x in (*call.inputs, call.value)) and draw(st.integers(0, 7)) != 7:
        reject()
    tangents: list[AnyTensor | None] = []
    for k, x in enumerate(call.inputs):
        absent = k in call.op.index_inputs or draw(st.integers(0, 7)) == 7
        tangents.append(None if absent else draw(like(x)))
    value = call.value
    cotangents = draw(like(value)), draw(like(value))
    return Probe(call, tuple(tangents), cotangents, (draw(NUMBERS), draw(NUMBERS)))


def _discard(why: str, refused: Counter[str] | None) -> NoReturn:
    """Count a draw, and let Hypothesis go on to the next."""
    if refused is not None:
        refused[why] += 1
    reject()


def _entries(
    draw: Draw, op: Op, attributes: dict[str, Any]
) -> Callable[[int], st.SearchStrategy[Fraction]]:
    """Return what the inputs of a call hold: numbers in their domains, or nothing but ties."""
    anything = TYING if draw(st.integers(0, 2)) == 2 else NUMBERS
    by = {"positive": POSITIVE, "past_minus_one": PAST_MINUS_ONE, "nonzero": NONZERO}
    return lambda k: by.get(domain(op, k, attributes), anything)


def _indices(op: Op, k: int, signature: Signature) -> st.SearchStrategy[int]:
    """Draw what an index input of an op may hold."""
    if k in op.mask_inputs:
        return st.booleans()
    allowed = integers_at(op, k, *signature)
    kept = st.integers(allowed.lowest, max(allowed.highest, allowed.lowest))
    if not allowed.also:
        return kept
    others = st.sampled_from(allowed.also)
    return others if allowed.highest < allowed.lowest else st.one_of(kept, kept, others)
