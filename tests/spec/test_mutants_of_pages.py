"""The laws have power: each planted wrong derivative breaks exactly the laws that it should.

Which law catches which mutant is part of the claim.  A doubled partial keeps the transpose law, and
a dropped term of a transpose keeps the law of duals: no anchor holds alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from equivalence.cases.probes import Probe, probes
from equivalence.trials.laws import broken
from equivalence.worlds.opaque import opaque
from spec.axes import kept_index, split_axes
from spec.kinds import linear, pointwise
from spec.op import AnyTensor, Op, zeros_like
from spec.ops import OPS, maximum
from spec.ops.scatter_add import op as scatter_add
from spec.scalar import divide, equal, exp, kronecker, less, select, square, tanh, zero_like
from spec.shape import indices
from spec.tensor import tabulate
from tests.turns import in_turns


@pytest.fixture(autouse=True, scope="module")
def exact_world() -> Iterator[None]:
    """Let exp, log, tanh and roots be opaque while this module runs."""
    with opaque():
        yield


def caught_by(mutant: Op) -> set[str]:
    """Return the laws that refute a mutant within as many examples as the pages get."""
    caught: set[str] = set()

    @settings(max_examples=60, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(probe=probes(OPS[mutant.name]))
    def check(probe: Probe) -> None:
        caught.update(broken(probe.with_op(mutant)))

    check()
    return caught


@dataclass(frozen=True)
class Mutant:
    """A page with one planted mistake, and the laws that must refute it."""

    why: str
    op: Op
    caught: set[str]


def _pointwise(name: str, partials: Callable[..., tuple[Any, ...]]) -> Op:
    page = OPS[name]
    return pointwise(name, page.type_rule, page.value, partials)


def _linear(name: str, transpose: Callable[..., AnyTensor]) -> Op:
    page = OPS[name]
    return linear(
        name,
        page.type_rule,
        page.value,
        transpose,
        index_inputs=page.index_inputs,
        index_ranges=page.index_ranges,
    )


def _first_of_widened(cotangent: AnyTensor, source: Any, *, shape: Any) -> AnyTensor:
    new = len(shape) - len(source)
    total: AnyTensor = OPS["sum"].value(cotangent, axes=tuple(range(new)))

    def entry(*i: Any) -> Any:
        return total[tuple(0 if n == 1 else k for k, n in zip(i, source, strict=True))]

    return tabulate(source, entry if total.data else lambda *_: 0)


def _last_of_repeated(cotangent: AnyTensor, shape: Any, picked: AnyTensor, *, axis: int) -> Any:
    at = axis % len(shape)
    last = {picked[j]: j for j in indices(picked.shape)}

    def entry(*i: Any) -> Any:
        return cotangent[(*i[:at], *last[i[at]], *i[at + 1 :])] if i[at] in last else 0

    return tabulate(shape, entry)


def _padded_in_front(
    cotangent: AnyTensor, shape: Any, *, axis: int, start: int, length: int
) -> Any:
    moved = min(start + 1, shape[axis] - length)
    x = tabulate(shape, lambda *_: 0)
    return OPS["slice"].vjp((x,), cotangent, axis=axis, start=moved, length=length)[0]


def _parts_from_the_front(inputs: Any, cotangent: AnyTensor, *, axis: int) -> Any:
    cut = OPS["slice"].value
    return tuple(cut(cotangent, axis=axis, start=0, length=x.shape[axis]) for x in inputs)


def _nothing_where_added(inputs: Any, cotangent: AnyTensor, *, axis: int) -> Any:
    x, picked, _ = inputs
    at = axis % x.rank

    def kept(*i: Any) -> Any:
        return 0 if i[at] in picked.data else cotangent[i]

    _, _, source = scatter_add.vjp(inputs, cotangent, axis=axis)
    return tabulate(x.shape, kept), None, source


def _undivided(cotangent: AnyTensor, shape: Any, labels: Any, **attributes: Any) -> AnyTensor:
    none = attributes["reduction"] == "none"

    weight = attributes["weight"] or (1,) * shape[1]

    def entry(i: int, c: int, *k: int) -> Any:
        share, label = cotangent[i, *k] if none else cotangent[()], labels[i, *k]
        kept = label != attributes["ignore_index"]
        own = Fraction(weight[c])
        return -own * kronecker(label, c) * share if kept else zero_like(share)

    return tabulate(shape, entry)


def _whole_to_each_tie(inputs: Any, cotangent: AnyTensor, **attributes: Any) -> Any:
    (x,) = inputs
    largest = OPS["max"].value(x, **attributes)
    kept, _ = split_axes(x.rank, attributes["axes"])

    def entry(*i: Any) -> Any:
        above = kept_index(i, kept, attributes["keepdims"])
        return select(equal(x[i], largest[above]), cotangent[above], 0)

    return (tabulate(x.shape, entry),)


def _larger_sum_of_ties(inputs: Any, directions: Any, **attributes: Any) -> AnyTensor:
    (x,), (tangent,) = inputs, directions
    tangent = zeros_like(x) if tangent is None else tangent
    largest = OPS["max"].value(x, **attributes)
    kept, _ = split_axes(x.rank, attributes["axes"])

    def moved(*i: Any) -> Any:
        above = kept_index(i, kept, attributes["keepdims"])
        return select(equal(x[i], largest[above]), tangent[i], 0)

    return OPS["sum"].value(tabulate(x.shape, moved), **attributes)


def _unweighted_right(inputs: Any, cotangent: AnyTensor) -> Any:
    x, y = inputs
    ones = OPS["matmul"].vjp((x.map(lambda _: 1), y), cotangent)
    return OPS["matmul"].vjp(inputs, cotangent)[0], ones[1]


def _softmax_without_the_row_term(inputs: Any, cotangent: AnyTensor, **attributes: Any) -> Any:
    return (OPS["mul"].value(OPS["softmax"].value(*inputs, **attributes), cotangent),)


def _sqrt_of_its_own_value(x: Any) -> tuple[Any]:
    return (divide(1, 2 * x),)


def _without_keepdims(x: Any, *, axes: Any = None, keepdims: bool = False) -> Any:
    del keepdims
    return OPS["sum"].type_rule(x, axes=axes)


def _clipped(inputs: Any, cotangent: AnyTensor) -> Any:
    clipped = cotangent.map(lambda g: select(g > 1, 1, g))
    return OPS["mul"].vjp(inputs, clipped)


def _first_slot_only(inputs: Any, directions: Any) -> AnyTensor:
    return OPS["mul"].jvp(inputs, (directions[0], None))


def _by_another_draw(inputs: Any, cotangent: AnyTensor, *, counter: int, **attributes: Any) -> Any:
    return OPS["dropout"].vjp(inputs, cotangent, counter=counter ^ 1, **attributes)


def _unscaled(inputs: Any, directions: Any, *, p: float, **attributes: Any) -> AnyTensor:
    moved = OPS["dropout"].jvp(inputs, directions, p=p, **attributes)
    return moved.map(lambda t: (1 - Fraction(p)) * t)


def _whole_to_first(x: Any, y: Any) -> tuple[Any, Any]:
    return select(less(x, y), 0, 1), select(less(x, y), 1, 0)


def _to_both_sides(inputs: Any, cotangent: AnyTensor) -> Any:
    return None, cotangent, cotangent


def _same_sign(inputs: Any, cotangent: AnyTensor, **attributes: Any) -> Any:
    dx, _ = OPS["mse_loss"].vjp(inputs, cotangent, **attributes)
    return dx, dx


BOTH = {"pushforward", "transpose"}
COMPOSITE = {"transpose", "through_tape"}

MUTANTS = [
    Mutant("doubled partial", _pointwise("square", lambda x: (4 * x,)), {"pushforward"}),
    Mutant("swapped partials", _pointwise("mul", lambda x, y: (x, y)), {"pushforward"}),
    Mutant("lost sign", _pointwise("sub", lambda x, y: (1, 1)), {"pushforward"}),
    Mutant(
        "quotient not divided twice",
        _pointwise("div", lambda x, y: (divide(1, y), -divide(x, y))),
        {"pushforward"},
    ),
    Mutant("exp off by one", _pointwise("exp", lambda x: (exp(x) + 1,)), {"pushforward"}),
    Mutant("tanh not squared", _pointwise(tanh.name, lambda x: (1 - tanh(x),)), {"pushforward"}),
    Mutant(
        "log as its square", _pointwise("log", lambda x: (divide(1, square(x)),)), {"pushforward"}
    ),
    Mutant("root not taken", _pointwise("sqrt", _sqrt_of_its_own_value), {"pushforward"}),
    Mutant(
        "rate 1 at the kink", _pointwise("relu", lambda x: (select(x < 0, 0, 1),)), {"pushforward"}
    ),
    Mutant("tie to one side", _pointwise("maximum", _whole_to_first), {"pushforward"}),
    Mutant("rates of maximum", _pointwise("minimum", maximum.partials), {"pushforward"}),
    Mutant("both sides receive", replace(OPS["where"], vjp=_to_both_sides), {"transpose"}),
    Mutant("the mean of a sum", replace(OPS["mean"], vjp=OPS["sum"].vjp), COMPOSITE),
    Mutant("target moves along", replace(OPS["mse_loss"], vjp=_same_sign), COMPOSITE),
    Mutant("a slot without tangent", replace(OPS["mul"], jvp=_first_slot_only), BOTH),
    Mutant("cotangent clipped", replace(OPS["mul"], vjp=_clipped), {"transpose", "linearity"}),
    Mutant("widened axes not summed", _linear("broadcast_to", _first_of_widened), {"transpose"}),
    Mutant("scatter overwrites", _linear("take", _last_of_repeated), {"transpose"}),
    Mutant("interval moved by one", _linear("slice", _padded_in_front), {"transpose"}),
    Mutant(
        "parts cut from the front",
        replace(OPS["concat"], vjp=_parts_from_the_front),
        {"transpose"},
    ),
    Mutant(
        "what was added to is overwritten",
        replace(scatter_add, vjp=_nothing_where_added),
        {"transpose"},
    ),
    Mutant("mean not divided", _linear("nll_loss", _undivided), {"transpose"}),
    Mutant("whole to each tie", replace(OPS["max"], vjp=_whole_to_each_tie), {"transpose"}),
    Mutant(
        "whole from each tie",
        replace(OPS["max"], vjp=_whole_to_each_tie, jvp=_larger_sum_of_ties),
        {"pushforward"},
    ),
    Mutant("a product unweighted", replace(OPS["matmul"], vjp=_unweighted_right), {"transpose"}),
    Mutant(
        "row term dropped",
        replace(OPS["softmax"], vjp=_softmax_without_the_row_term),
        {"transpose", "through_tape"},
    ),
    Mutant("another draw", replace(OPS["dropout"], vjp=_by_another_draw), {"transpose"}),
    Mutant("not scaled", replace(OPS["dropout"], jvp=_unscaled), BOTH),
    Mutant("keepdims forgotten", replace(OPS["sum"], type_rule=_without_keepdims), {"types"}),
]


@pytest.mark.parametrize("mutant", in_turns(MUTANTS, 3), ids=lambda m: f"{m.op.name}: {m.why}")
def test_the_laws_catch(mutant: Mutant) -> None:
    assert caught_by(mutant.op) == mutant.caught
