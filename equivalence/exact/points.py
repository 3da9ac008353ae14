"""A point: numbers that are drawn for both sides, and what comes of comparing their results there.

Two formulas that differ are quotients whose difference has a numerator of some degree d that is not
zero everywhere; at numbers drawn from a set of 2^BITS it is zero with probability d / 2^BITS at
most (Schwartz 1980, Zippel 1979), and a little more where opaque functions take many arguments.

Drawn numbers are sums of positive gaps under a drawn ordering that has 0 in it, so that where a
kernel asks which of them is larger, the same bound holds for the formula of that ordering.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Any

import torch

from equivalence.blame import is_own, place_of
from equivalence.cases.guard import Guarded, Trespass, controlled, core_shape, guard
from equivalence.exact.aten.mode import ExactFunctions
from equivalence.exact.interpreter import exact_kernels
from equivalence.exact.memory import Memory
from equivalence.exact.numbers import Inexact, Number, Trace, drawn, traced
from equivalence.exact.residues import SPAN
from equivalence.exact.standins import BITS, stood_in
from spec.tensor import Tensor
from spec.tensor import tensor as of_entries

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """A tensor that is wanted: its shape, how it lies in memory, and whether it is above 0."""

    shape: Shape
    layout: str = "contiguous"
    positive: bool = False


@dataclass(frozen=True, slots=True)
class Drawn:
    """One tensor twice: in memory, for a kernel, and as a page takes it."""

    guarded: Guarded
    numbers: Any

    @property
    def memory(self) -> torch.Tensor:
        """The tensor of fp32 whose bits stand for the numbers."""
        return self.guarded.view.view(torch.float32)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found at one point, or at several.

    differences are what is not equal, unread is what could not be compared at all, with why, and
    refused are the calls that a backend says it does not take, by NotImplementedError.
    bound is the probability that a formula which is wrong passed, None where none can be proved;
    degree is that of the identity that was tested; orderings are those that were visited, and
    kernels those that were started.
    """

    elements: int = 0
    degree: int = 0
    bound: Fraction | None = Fraction(0)
    orderings: frozenset[int] = frozenset()
    kernels: frozenset[str] = frozenset()
    differences: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    def __or__(self, other: Verdict) -> Verdict:
        """Join two verdicts: the worst bound counts, since each point tests its own formula."""
        bounds = (self.bound, other.bound)
        return Verdict(
            self.elements + other.elements,
            max(self.degree, other.degree),
            None if None in bounds else max(bound for bound in bounds if bound is not None),
            self.orderings | other.orderings,
            self.kernels | other.kernels,
            (*self.differences, *other.differences),
            (*self.unread, *other.unread),
            (*self.refused, *other.refused),
        )


class Point:
    """One point of comparison; `standing` makes one, and lets kernels and pages run on it."""

    def __init__(self, seed: str, homomorphism: bool, memory: Memory, trace: Trace) -> None:
        """Draw from a seed."""
        self.memory = memory
        self._source = random.Random(seed)
        self._span = SPAN if homomorphism else 2**BITS
        self._trace = trace
        self._orderings: list[tuple[int, ...]] = []
        self._given: list[Drawn] = []
        self._elements = 0
        self._degree = 0
        self._differences: list[str] = []

    def draw(self, *forms: Form | Shape) -> list[Drawn]:
        """Draw tensors of numbers, all of them under one ordering but those that are positive."""
        wanted = [form if isinstance(form, Form) else Form(form) for form in forms]
        counts = [prod(core_shape(form.shape, form.layout)) for form in wanted]
        either = [n for n, form in zip(counts, wanted, strict=True) if not form.positive]
        free = iter(self._ordered(sum(either), positive=False))
        found = []
        for count, form in zip(counts, wanted, strict=True):
            numbers = (
                self._ordered(count, positive=True)
                if form.positive
                else [next(free) for _ in range(count)]
            )
            found.append(self._placed(numbers, form))
        return found

    def _ordered(self, count: int, positive: bool) -> list[Number]:
        """Draw numbers by their gaps from 0 on, upwards and, unless positive, downwards."""
        order = list(range(count))
        self._source.shuffle(order)
        cut = 0 if positive else self._source.randrange(count + 1)
        self._orderings.append((cut, *order))
        values = [0] * count
        for places, sign in ((order[cut:], 1), (order[:cut][::-1], -1)):
            reached = 0
            for place in places:
                reached += self._source.randrange(self._span) + 1
                values[place] = sign * reached
        return [drawn(value) for value in values]

    def _placed(self, numbers: Sequence[Number], form: Form) -> Drawn:
        """Put numbers into an arena, as the layout says, and read them as a page does."""
        held = guard(self.memory.words(numbers), form.shape, torch.int32, form.layout)
        entries = self.memory.read(held.view.view(torch.float32))
        found = Drawn(held, Tensor(form.shape, entries))
        self._given.append(found)
        return found

    def same(self, name: str, result: torch.Tensor, expected: Any, positions: bool = False) -> None:
        """Compare a kernel's result, of numbers or of positions, with a page's by ==."""
        if tuple(result.shape) != tuple(expected.shape):
            shapes = f"{list(expected.shape)}, got {list(result.shape)}"
            self._differences.append(f"{name}: expected shape {shapes}")
            return
        wanted = torch.int64 if positions else torch.float32
        if result.dtype is not wanted:
            self._differences.append(f"{name}: expected {wanted}, got {result.dtype}")
            return
        read = result.reshape(-1).tolist() if positions else self.memory.read(result)
        pairs = list(zip(read, expected.data, strict=True))
        self._elements += len(pairs)
        for here, there in pairs:
            (top, bottom), (above, below) = (
                (x.top, x.bottom) if isinstance(x, Number) else (0, 0) for x in (here, there)
            )
            self._degree = max(self._degree, top + below, above + bottom)
        wrong = [k for k, (here, there) in enumerate(pairs) if here != there]
        if wrong:
            here, there = told_apart(*pairs[wrong[0]])
            self._differences.append(
                f"{name}: {len(wrong)} of {len(pairs)} entries differ; "
                f"entry {wrong[0]} is {here}, and the page says {there}"
            )

    def differs(self, how: str) -> None:
        """Note a difference."""
        self._differences.append(how)

    def verdict(self) -> Verdict:
        """Return what was found; a write outside of what was handed out is a difference, too."""
        differences = list(self._differences)
        for number, given in enumerate(self._given):
            try:
                given.guarded.check(f"tensor {number}")
            except Trespass as error:
                differences.append(str(error))
        asked = {hash(tuple(self._orderings))} if self._trace.ordered else set[int]()
        return Verdict(
            self._elements,
            self._degree,
            self._bound(),
            frozenset(asked),
            frozenset(self._trace.kernels),
            tuple(differences),
        )

    def _bound(self) -> Fraction | None:
        """Return the probability that a wrong formula passed.

        None where it is not known: where nothing was drawn, and where comparisons of computed
        numbers decided.
        """
        if self._trace.decided or not self._given:
            return None
        arguments = len(self._trace.opaque)
        meetings = arguments * (arguments - 1) // 2
        return Fraction(self._degree + meetings * 2 * self._trace.degree, 2**BITS)


def told_apart(here: Any, there: Any) -> tuple[str, str]:
    """Show two numbers that differ, each by a float near it, with digits until they differ."""
    for digits in (6, 9, 17):
        one, other = _short(here, digits), _short(there, digits)
        if one != other:
            return one, other
    difference = _value(here) - _value(there)
    return f"{other} + {_short(difference, 3)}", other


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Number) else x


def _short(x: Any, digits: int) -> str:
    """Show a number by a float near it."""
    value = _value(x)
    return f"{float(value):.{digits}g}" if isinstance(value, (int, Fraction)) else str(value)


def _said(error: BaseException) -> str:
    """Say what was raised, in the words of what was raised first, which Triton wraps in its own."""
    kind, first = type(error).__name__, error
    while first.__cause__ is not None:
        first = first.__cause__
    place = place_of(error)
    return f"{kind}: {' '.join(str(first).split())}" + (f" (at {place})" if place else "")


def _refuses(error: BaseException) -> bool:
    """Say whether a backend itself raised NotImplementedError: neither our stand-ins nor torch."""
    if isinstance(error, Inexact) or not isinstance(error, NotImplementedError):
        return False
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and is_own(trace.tb_frame.f_code.co_filename)


@contextmanager
def standing(seed: object = 0, homomorphism: bool = False) -> Iterator[Point]:
    """Let kernels, torch and pages run on the numbers of one point while the block runs."""
    memory = Memory()
    with (
        stood_in(homomorphism) as rules,
        traced() as trace,
        controlled(),
        exact_kernels(memory, rules),
        ExactFunctions(memory, rules),
    ):
        yield Point(str(seed), homomorphism, memory, trace)


def compared(
    named: str, seed: object, compare: Callable[[Point], None], homomorphism: bool = False
) -> Verdict:
    """Let a comparison of both sides run at one point; what raises could not be read.

    named says in every line what was compared.
    """
    with standing(seed, homomorphism) as point:
        try:
            compare(point)
        except Exception as error:
            said = (f"{named}: {_said(error)}",)
            return Verdict(refused=said) if _refuses(error) else Verdict(unread=said)
        found = point.verdict()
    differences = tuple(f"{named}: {difference}" for difference in found.differences)
    return replace(found, differences=differences)


def integers(tensor: torch.Tensor) -> Any:
    """Return indices or truth values as a page takes them."""
    return of_entries(tensor.tolist()) if tensor.numel() else Tensor(tuple(tensor.shape), [])
