"""The oracle and the judge of large results: the pages of `spec`, run on arrays of scalars.

The rule per element is that of `equivalence.budgets.outcome`: fraction = |got - value| / bound. The
value is float64's and the bound holds what that misses, too, so a verdict is never stricter than
that of single scalars.
A bound that is wider than `WIDEST` of its result's scale says little about the numbers that are
usual there: its element is judged, and counted as wide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from equivalence.budgets.outcome import (
    WIDEST,
    Outcome,
    Wrong,
    classes_of,
    detail_of,
    grouped,
    over_budget,
    position,
)
from equivalence.budgets.reading import TorchTensor, numbers
from equivalence.registry import OPS, OPTIMIZERS
from equivalence.worlds.contract import Contract, of_result, programs_of
from equivalence.worlds.vectorized.arrays import at, held
from equivalence.worlds.vectorized.extents import Extent, entered
from equivalence.worlds.vectorized.numbers import Many, constant, working
from equivalence.worlds.vectorized.terms import VectorExtent
from equivalence.worlds.vectorized.widths import Bound, Doubles, Widths
from spec.op import AnyTensor, Type
from spec.several import lone, unpacked

CHUNK = 2**19
"""How many entries are asked for at once, so that what they need fits into memory."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a contract allows as a result: values, and how far from them; a bound of nan: anything.

    dtype is the name of the result's dtype.
    """

    v: Doubles
    b: Doubles
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return self.v.shape


@dataclass(frozen=True)
class Call:
    """One call of an op: inputs as arrays, attributes, a cotangent or tangents or neither.

    program is what computes it where that is not the page's own: of a value or of gradients.
    """

    op: str
    inputs: Sequence[npt.NDArray[Any]]
    attributes: Mapping[str, Any]
    cotangent: npt.NDArray[Any] | None = None
    tangents: Sequence[npt.NDArray[Any] | None] | None = None
    program: Callable[..., Any] | None = None

    @property
    def axes(self) -> int:
        """The most axes that any tensor of the call has."""
        results = (len(each.shape) for each in self.types().values())
        return max(*results, *(x.ndim for x in self.inputs), 0)

    def types(self) -> Mapping[str, Type]:
        """Return the types of the op's results by name."""
        page = OPS[self.op]
        types = page.types_at(*(x.shape for x in self.inputs))
        return page.types_of_results(*types, **self.attributes)

    def results(
        self, kind: type[Extent], lift: Callable[[npt.NDArray[Any]], AnyTensor], like: Any
    ) -> list[AnyTensor | None]:
        """Run the page on extents of a kind; entries are computed when somebody asks for them.

        lift takes arrays into the world of the scalar `like`. Each of several results is run alone,
        so that its entries are asked for by its own axes, along which they share what they need.
        """
        page = OPS[self.op]
        attributes = entered(page, self.attributes, kind)
        inputs = tuple(map(lift, self.inputs))
        if self.cotangent is not None:
            gradients = self.program or page.vjp
            return list(gradients(inputs, lift(self.cotangent), **attributes))
        types = self.types()
        each = [page] if page.results is None else [lone(page, k) for k in range(len(types))]
        if self.tangents is not None:
            tangents = [None if t is None else lift(t) for t in self.tangents]
            return [one.jvp(inputs, tangents, **attributes) for one in each]
        world = {"like": like} if page.kind == "source" else {}
        if self.program is None:
            return [one.value(*inputs, **attributes, **world) for one in each]
        found = self.program(*inputs, **attributes, **world)
        if page.results is None:
            return [found]
        grown = {name: Type(tuple(map(kind, one.shape))) for name, one in types.items()}
        return list(unpacked(found, grown).values())

    def in_forms(self, contract: Contract) -> list[Call]:
        """Return the call by the page's own program, and by those of the contract's forms."""
        if self.tangents is not None:
            return [self]
        programs = programs_of(contract, "value" if self.cotangent is None else "vjp")
        return [self, *(replace(self, program=program) for program in programs)]

    def vectorized(self) -> list[AnyTensor | None]:
        """Run the page on arrays of scalars, in the contract that is at work."""
        return self.results(VectorExtent, held, constant(0))


def allowed(
    call: Call, contract: Contract, *, settled: bool = False, balanced: bool = False
) -> list[Allowed | None]:
    """Say what a contract allows as the results of a call; None where there is no result."""
    back = call.cotangent is not None
    contract = of_result(contract, OPS[call.op], call.attributes, back)
    widths = Widths(contract, settled, balanced)
    programs = [(program, _shapes(program, widths)) for program in call.in_forms(contract)]
    return [
        None
        if shape is None
        else _hull([_whole(p, k, shape, widths) for p, own in programs if own[k] is not None])
        for k, shape in enumerate(programs[0][1])
    ]


def _hull(programs: Sequence[Allowed]) -> Allowed:
    """Allow what several programs of one page may give; the first is the page's own.

    That they are programs of one page, the oracle of single scalars sees in smaller cases.
    """
    page, *forms = programs
    b = page.b
    for form in forms:
        with np.errstate(invalid="ignore"):  # Two infinities are equal, and nothing lies between.
            apart = np.where(form.v == page.v, 0.0, np.abs(form.v - page.v))
        b = np.maximum(b, apart + form.b)
    return replace(page, b=b)


def _shapes(call: Call, widths: Widths) -> list[tuple[int, ...] | None]:
    """Return the shapes of a call's results; nothing is computed for them."""
    with working(widths, call.axes):
        return [None if t is None else tuple(map(int, t.shape)) for t in call.vectorized()]


def _whole(call: Call, k: int, shape: tuple[int, ...], widths: Widths) -> Allowed:
    """Ask for all entries of one result, some slices along its first axis at a time."""
    rest = [np.arange(n) for n in shape[1:]]
    step = max(1, CHUNK // max(math.prod(shape[1:]), 1))
    parts: list[tuple[Doubles, Doubles]] = []
    for start in range(0, shape[0] if shape else 1, step):
        first = [np.arange(start, min(start + step, shape[0]))] if shape else []
        with working(widths, call.axes):
            tensor = call.vectorized()[k]
            assert tensor is not None
            parts.append(last(at(tensor, [*first, *rest]), widths))
    v, b = (
        np.concatenate([np.atleast_1d(p) for p in column]) for column in zip(*parts, strict=True)
    )
    return Allowed(v.reshape(shape), b.reshape(shape), widths.contract.dtype.name)


def untied(
    call: Call, contract: Contract, expected: Sequence[Allowed | None]
) -> list[Allowed | None]:
    """Leave open what a tie shares out: those gradients that receive a part of a cotangent."""
    if call.cotangent is None:
        return list(expected)
    ones = replace(call, cotangent=np.ones_like(call.cotangent))
    return [
        None
        if due is None or share is None
        else replace(due, b=np.where(_part(share), np.nan, due.b))
        for due, share in zip(expected, allowed(ones, contract), strict=True)
    ]


def _part(share: Allowed) -> npt.NDArray[np.bool_]:
    """Say where a share is neither nothing nor the whole."""
    return (share.v > 0.0) & (share.v < 1.0)


def settles(call: Call, contract: Contract) -> bool:
    """Say whether no step of a call rounds its integers, and something comes of them."""
    widths = Widths(contract, settled=True)
    shapes = _shapes(call, widths)
    found = [_whole(call, k, shape, widths) for k, shape in enumerate(shapes) if shape is not None]
    exact = not any(np.any(result.b != 0) for result in found)
    return exact and any(np.any(result.v != 0) for result in found)


def stepped(
    optimizer: str,
    advance: Callable[..., tuple[Any, Any]],
    before: tuple[TorchTensor, TorchTensor, Mapping[str, TorchTensor | None]],
    count: int,
    hyper: Mapping[str, Any],
    contract: Contract,
) -> tuple[dict[str, Allowed | None], int | None]:
    """Say what a contract allows after one step of an optimizer, of one parameter and its state.

    advance takes that step on tensors of any world; before are parameter, gradient and moments.
    """
    widths = Widths(contract)
    parameter, gradient, moments = before
    with working(widths, parameter.ndim):
        known = {field: None if t is None else held(numbers(t)) for field, t in moments.items()}
        lifted = (held(numbers(parameter)), held(numbers(gradient)))
        left, state = advance(optimizer, *lifted, known, count, hyper)
        found = {"parameter": left}
        found |= {field: getattr(state, field) for field in OPTIMIZERS[optimizer].moments}
        places = [np.arange(n) for n in parameter.shape]
        tensors = {
            field: None if t is None else Allowed(*last(at(t, places), widths), contract.dtype.name)
            for field, t in found.items()
        }
    return tensors, getattr(state, "step", None)


def last(x: Many, widths: Widths) -> tuple[Doubles, Doubles]:
    """Round a result to storage, the last step; what is exact has one right result, often."""
    if x.b is None:
        return widths.storage.settled(x.v)
    b: Bound = widths.kept(x.v, x.b)
    return x.v, np.zeros_like(x.v) if b is None else b


def fractions(got: Doubles, expected: Allowed) -> tuple[Doubles, npt.NDArray[np.bool_]]:
    """Return the fraction of its bound that each element takes, and which elements have none."""
    with np.errstate(all="ignore"):
        error = np.abs(got - expected.v)
        found = np.where(error == 0, 0.0, error / expected.b)
        found = np.where(np.isfinite(got), found, np.inf)
    return found, ~np.isfinite(expected.b)


def wide(expected: Allowed) -> int:
    """Count the bounds that are wider than `WIDEST` of the largest value, open ones apart."""
    scale = np.max(np.abs(expected.v), initial=0.0)
    return int(np.count_nonzero((expected.b > WIDEST * scale) & np.isfinite(expected.b)))


def judge_arrays(got: TorchTensor, expected: Allowed) -> Outcome:
    """Judge every element of a result; the detail is about the worst of them."""
    values = numbers(got)
    found, free = fractions(values, expected)
    judged = int(found.size - np.count_nonzero(free))
    open_ = int(np.count_nonzero(free))
    if not judged:
        return Outcome(unconstrained=open_)
    flat = np.where(free, -1.0, found).reshape(-1)
    place = int(np.argmax(np.where(np.isnan(flat), np.inf, flat)))
    worst = float(flat[place])
    differing = bool(np.ptp(expected.v[~free]) > 0)
    outcome = Outcome(worst, judged, open_, differing=differing, wide=wide(expected))
    if worst <= 1.0:
        return outcome

    def element(k: int) -> tuple[str, str, str]:
        got, exact, budget = (
            str(float(a.reshape(-1)[k])) for a in (values, expected.v, expected.b)
        )
        return got, exact, budget

    where = position(place, expected.v.shape)
    detail = detail_of(where, element(place), worst, expected.dtype)
    wrong = Wrong("", ~free, ~free & ~(found <= 1.0))
    over = grouped(
        replace(over_budget(element(k), float(flat[k]), expected.dtype), count=count)
        for k, count in _worst_of_each_kind(values, expected, flat)
    )
    return replace(outcome, detail=detail, over=over, wrong=(wrong,))


def _worst_of_each_kind(
    values: Doubles, expected: Allowed, fraction: Doubles
) -> Iterator[tuple[int, int]]:
    """Yield the worst element of each kind of those over budget, and how many are of its kind.

    Millions may be, so none of them is looked at alone.
    """
    wrong = np.flatnonzero(~(fraction <= 1.0))
    got, exact, part = values.reshape(-1)[wrong], expected.v.reshape(-1)[wrong], fraction[wrong]
    scale = np.where(exact == 0, 1.0, np.abs(exact))
    with np.errstate(all="ignore"):
        size = np.where(np.isfinite(part), part, np.abs(got - exact) / scale)
    kinds = [*(classes_of(x, expected.dtype) for x in (got, exact)), np.isfinite(part)]
    for kind in np.unique(np.stack(kinds), axis=1).T:
        alike = np.flatnonzero(np.all([a == b for a, b in zip(kinds, kind, strict=True)], axis=0))
        yield int(wrong[alike[np.argmax(np.nan_to_num(size[alike], nan=np.inf))]]), len(alike)
