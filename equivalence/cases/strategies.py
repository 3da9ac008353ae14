"""Hypothesis strategies that draw cases from the pages' type rules.

What is drawn is always a compact `CaseSpec`, never a tensor: it shrinks on structure, prints in one
line, and the same strategies serve anyone who tests a kernel.  One family per kind of type rule
draws shapes and attributes; the page's own `type_rule` has the last word on every draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH, WORDS, CaseSpec, Recipe, Shape, attribute_pairs
from equivalence.cases.domains import COTANGENTS, regimes
from equivalence.cases.guard import LAYOUTS
from spec.ops import OPS

Signature = tuple[tuple[Shape, ...], dict[str, Any]]
"""The shapes of the inputs, and the attributes."""

Draw = Callable[[st.SearchStrategy[Any]], Any]
Family = Callable[[Draw, str], Signature]

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257)
"""Small numbers, primes, and the neighbours of every likely tile."""

MOST_SMOOTHED = 10
"""Smoothing scores every class as a label, so the reference's cost grows with the square."""


def extent(draw: Draw, most: int, least: int = 1) -> int:
    """Draw one extent between bounds, preferring the neighbours of tiles."""
    choices = [n for n in EXTENTS if least <= n <= most]
    number: int = draw(st.sampled_from(choices or [least]))
    return number


def shape(draw: Draw, least: int, most: int, min_rank: int = 0, max_rank: int = 4) -> Shape:
    """Draw a shape with between least and most elements (least is met by the last axis)."""
    rank: int = draw(st.integers(max(min_rank, 1 if least > 1 else 0), max_rank))
    extents: list[int] = []
    for position in range(rank):
        size = math.prod(extents)
        last = position == rank - 1
        extents.append(extent(draw, max(most // size, 1), -(-least // size) if last else 1))
    order: list[int] = draw(st.permutations(range(rank)))
    return tuple(extents[k] for k in order)


def _axis(draw: Draw, axis: int, rank: int) -> int:
    """Draw one of the two names of an axis: from the front, or negative from the back."""
    return axis - rank if draw(st.booleans()) else axis


def _unary(draw: Draw, direction: str) -> Signature:
    return (shape(draw, ENOUGH, 300),), {}


def _binary(draw: Draw, direction: str) -> Signature:
    drawn = shape(draw, ENOUGH, 300)
    return (drawn, drawn), {}


def _choice(draw: Draw, direction: str) -> Signature:
    drawn = shape(draw, ENOUGH, 300)
    return (drawn, drawn, drawn), {}


def _reduction(draw: Draw, direction: str) -> Signature:
    """Draw the axes that stay, then insert the ones that are reduced away."""
    kept = [(n, False) for n in shape(draw, ENOUGH, 24, max_rank=2)]
    lost = [(n, True) for n in shape(draw, 1, 64, max_rank=2)]
    mixed: list[tuple[int, bool]] = draw(st.permutations(kept + lost))
    rank = len(mixed)
    axes = tuple(_axis(draw, k, rank) for k, (_, reduced) in enumerate(mixed) if reduced)
    attrs: dict[str, Any] = {"axes": axes, "keepdims": draw(st.booleans())}
    if direction == "vjp" and draw(st.integers(0, 4)) == 4:
        attrs["axes"] = None
    return (tuple(n for n, _ in mixed),), attrs


def _broadcast_to(draw: Draw, direction: str) -> Signature:
    own = list(shape(draw, ENOUGH, 32, max_rank=2))
    own.insert(draw(st.integers(0, len(own))), 1)
    target = [extent(draw, 9) if n == 1 else n for n in own]
    lead = shape(draw, 1, 4, max_rank=1)
    return (tuple(own),), {"shape": (*lead, *target)}


def _divisor(draw: Draw, number: int) -> int:
    found: int = draw(st.sampled_from([d for d in range(1, number + 1) if number % d == 0]))
    return found


def _reshape(draw: Draw, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 300)
    size = math.prod(own)
    first = _divisor(draw, size)
    second = _divisor(draw, size // first)
    target = (first, second, size // first // second)
    kept = tuple(n for n in target if n > 1) if draw(st.booleans()) else target
    return (own,), {"shape": kept}


def _permute(draw: Draw, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 300)
    order: list[int] = draw(st.permutations(range(len(own))))
    return (own,), {"axes": tuple(_axis(draw, k, len(own)) for k in order)}


def _take(draw: Draw, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 128, max_rank=3)
    axis: int = draw(st.integers(0, len(own) - 1))
    rest = math.prod(own) // own[axis]
    indices = shape(draw, -(-ENOUGH // rest), 24, max_rank=2)
    return (own, indices), {"axis": _axis(draw, axis, len(own))}


def _scatter_add(draw: Draw, direction: str) -> Signature:
    (own, indices), attrs = _take(draw, direction)
    at = attrs["axis"] % len(own)
    return (own, indices, (*own[:at], *indices, *own[at + 1 :])), attrs


def _slice(draw: Draw, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 300)
    axis: int = draw(st.integers(0, len(own) - 1))
    rest = math.prod(own) // own[axis]
    least = 0 if direction == "vjp" else -(-ENOUGH // rest)
    start: int = draw(st.integers(0, own[axis] - least))
    length: int = draw(st.integers(least, own[axis] - start))
    return (own,), {"axis": _axis(draw, axis, len(own)), "start": start, "length": length}


def _concat(draw: Draw, direction: str) -> Signature:
    """Draw an input that counts, and up to two others, which may be empty along the axis."""
    own = shape(draw, ENOUGH, 128, max_rank=3)
    axis: int = draw(st.integers(0, len(own) - 1))
    others = draw(st.lists(st.sampled_from((own[axis], 1, 0, 2, 3)), max_size=2))
    shapes = [(*own[:axis], n, *own[axis + 1 :]) for n in (own[axis], *others)]
    mixed: list[Shape] = draw(st.permutations(shapes))
    return tuple(mixed), {"axis": _axis(draw, axis, len(own))}


def _matmul(draw: Draw, direction: str) -> Signature:
    rows, columns = shape(draw, ENOUGH, 200, min_rank=2, max_rank=2)
    inner = extent(draw, max(4000 // (rows * columns), 1))
    return ((rows, inner), (inner, columns)), {}


def _linear(draw: Draw, direction: str) -> Signature:
    lead = shape(draw, 1, 9, max_rank=2)
    out = extent(draw, 33, -(-ENOUGH // math.prod(lead)))
    inner = extent(draw, max(3000 // (out * math.prod(lead)), 1))
    return ((*lead, inner), (out, inner), (out,)), {}


def _softmax(draw: Draw, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 200, max_rank=3)
    axis: int = draw(st.integers(0, len(own) - 1))
    return (own,), {"axis": _axis(draw, axis, len(own))}


def _layer_norm(draw: Draw, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 160, max_rank=3)
    eps: float = draw(st.sampled_from((1e-5, 1e-3, 1.0, 1e-8)))
    return (own, own[-1:], own[-1:]), {"eps": eps}


def _loss(draw: Draw, direction: str) -> Signature:
    classes = extent(draw, 33)
    rows = extent(draw, 17, -(-ENOUGH // classes) if direction == "vjp" else ENOUGH)
    reductions = (
        ("none", "mean", "none", "sum") if direction == "value" else ("mean", "none", "sum")
    )
    attrs: dict[str, Any] = {
        "ignore_index": draw(st.sampled_from((-100, 0, -1))),
        "reduction": draw(st.sampled_from(reductions)),
    }
    return ((rows, classes), (rows,)), attrs


def _distance(draw: Draw, direction: str) -> Signature:
    """Draw losses per entry more often: a value that is reduced has one element to judge."""
    drawn = shape(draw, ENOUGH, 300)
    among = ("none", "none", "mean", "sum") if direction == "value" else ("mean", "none", "sum")
    return (drawn, drawn), {"reduction": draw(st.sampled_from(among))}


def _cross_entropy(draw: Draw, direction: str) -> Signature:
    shapes, attrs = _loss(draw, direction)
    amounts = (0.0, 0.1, 1.0) if shapes[0][1] <= MOST_SMOOTHED else (0.0,)
    return shapes, {**attrs, "label_smoothing": draw(st.sampled_from(amounts))}


def _call(draw: Draw) -> dict[str, Any]:
    """Draw a seed and a call counter, of any number of bits up to 64."""
    return {name: draw(st.integers(0, 64).flatmap(_word)) for name in WORDS}


def _word(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, 2**bits - 1)


def _probability(draw: Draw) -> float:
    """Draw a probability, its ends more often than others."""
    number: float = draw(st.sampled_from((0.5, 0.1, 0.0, 1.0)) | st.floats(0, 1))
    return number


def _draws(draw: Draw, direction: str) -> Signature:
    return (), {"shape": shape(draw, ENOUGH, 300), **_call(draw)}


def _mask(draw: Draw, direction: str) -> Signature:
    _, attrs = _draws(draw, direction)
    return (), {**attrs, "keep_prob": _probability(draw)}


def _dropout(draw: Draw, direction: str) -> Signature:
    attrs = {**_call(draw), "p": _probability(draw), "training": draw(st.integers(0, 7)) < 7}
    return (shape(draw, ENOUGH, 300),), attrs


FAMILIES: dict[str, Family] = {
    **dict.fromkeys(("add", "sub", "mul", "div", "maximum", "minimum"), _binary),
    "where": _choice,
    "mse_loss": _distance,
    **dict.fromkeys(("square", "sqrt", "exp", "log", "tanh", "relu", "detach"), _unary),
    **dict.fromkeys(("sum", "mean", "max"), _reduction),
    **dict.fromkeys(("softmax", "log_softmax"), _softmax),
    "broadcast_to": _broadcast_to,
    "reshape": _reshape,
    "permute": _permute,
    "take": _take,
    "scatter_add": _scatter_add,
    "slice": _slice,
    "concat": _concat,
    "nll_loss": _loss,
    "matmul": _matmul,
    "linear": _linear,
    "layer_norm": _layer_norm,
    "cross_entropy": _cross_entropy,
    **dict.fromkeys(("rand_uniform", "rand_normal"), _draws),
    "bernoulli_mask": _mask,
    "dropout": _dropout,
}


def recipes(among: tuple[str, ...]) -> st.SearchStrategy[Recipe]:
    """Draw a recipe for one tensor from the regimes that suit it."""
    return st.builds(
        Recipe, st.sampled_from(among), st.integers(0, 2**16 - 1), st.sampled_from(LAYOUTS)
    )


@st.composite
def case_specs(draw: Any, op: str, direction: str, dtype: str) -> CaseSpec:
    """Draw a case of one operation that its page's type rule accepts."""
    shapes, attrs = FAMILIES[op](draw, direction)
    suited = regimes(op, len(shapes))
    case = CaseSpec(
        op=op,
        direction=direction,
        dtype=dtype,
        shapes=shapes,
        recipes=tuple(draw(recipes(among)) for among in suited),
        attrs=attribute_pairs(attrs),
        cotangent=draw(recipes(COTANGENTS)) if direction == "vjp" else None,
        tangent=draw(recipes(COTANGENTS)) if direction == "jvp" else None,
    )
    OPS[op].type_rule(*case.types(), **attrs)
    return case


def quiet(examples: int, *phases: Phase) -> settings:
    """Return settings under which nothing is stored, timed or printed."""
    return settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )


def draw_many(strategy: st.SearchStrategy[Any], number: int, seed_: int) -> list[Any]:
    """Draw a list of distinct examples; the same seed always draws the same list."""
    drawn: dict[Any, None] = {}

    @seed(seed_)
    @quiet(number, Phase.generate)
    @given(strategy)
    def collect(example: Any) -> None:
        drawn.setdefault(example)

    collect()
    return list(drawn)
