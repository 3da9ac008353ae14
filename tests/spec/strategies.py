"""Valid small calls of every op, drawn so that a failing one shrinks in seconds.

Entries are small integers wrapped in `Fraction`; extents run from 0 to 3, seldom 0.
One function per family of type rules draws shapes and attributes; `calls` fills in the entries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

from hypothesis import strategies as st

from equivalence.cases.domains import domain, usual
from spec.op import AnyTensor, Op, Rejected, Type
from spec.ops import OPS
from spec.ops.pow import LONGEST
from spec.shape import size
from spec.tensor import Tensor

Draw = Callable[[st.SearchStrategy[Any]], Any]
Shape = tuple[int, ...]

EXTENTS = st.sampled_from([2, 3, 1, 2, 3, 0])
SHAPES = st.integers(0, 3).flatmap(lambda rank: st.tuples(*[EXTENTS] * rank))
NUMBERS = st.integers(-3, 3).map(Fraction)
POSITIVE = st.sampled_from([Fraction(1), Fraction(4), Fraction(9, 4), Fraction(1, 4), Fraction(9)])
"""Squares: a page may use that the square of a root is what it was taken of."""

PAST_MINUS_ONE = st.sampled_from([Fraction(0), Fraction(1), Fraction(-1, 2), Fraction(3)])
NONZERO = st.sampled_from([Fraction(1), Fraction(2), Fraction(3), Fraction(-1), Fraction(-2)])

PROBABILITIES = st.sampled_from([0.5, Fraction(1, 3), 0.25, 1, 0])

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
        result: AnyTensor = self.op.value(*self.inputs, **self.attributes)
        return result

    def type(self) -> Type:
        """The type of the result, as the type rule says."""
        return self.op.check(*self.inputs, **self.attributes)


def filled(shape: Shape, entries: st.SearchStrategy[Any]) -> st.SearchStrategy[AnyTensor]:
    """Draw a tensor of a shape."""
    count = size(shape)
    lists = st.lists(entries, min_size=count, max_size=count)
    return lists.map(lambda data: Tensor(shape, data))


def like(x: AnyTensor) -> st.SearchStrategy[AnyTensor]:
    """Draw a direction of a tensor's space: a tangent, or a cotangent."""
    return filled(tuple(x.shape), NUMBERS)


def _axis(draw: Draw, rank: int) -> int:
    return int(draw(st.integers(-rank, rank - 1)))


def _axes(draw: Draw, rank: int) -> tuple[int, ...] | None:
    if draw(st.integers(0, 3)) == 0:
        return None
    chosen: list[int] = draw(st.lists(st.integers(0, max(rank - 1, 0)), unique=True, max_size=rank))
    return tuple(axis - rank if draw(st.booleans()) else axis for axis in chosen)


Signature = tuple[list[Shape], dict[str, Any]]


def _same(draw: Draw, count: int) -> Signature:
    return [draw(SHAPES)] * count, {}


def _reduction(draw: Draw, op: Op, least: int) -> Signature:
    shape = draw(SHAPES)
    axes = _axes(draw, len(shape))
    gone = range(len(shape)) if axes is None else [axis % len(shape) for axis in axes]
    shape = tuple(max(n, least) if k in gone else n for k, n in enumerate(shape))
    chosen = {name: draw(st.sampled_from(among)) for name, among in op.tried.items()}
    return [shape], {"axes": axes, "keepdims": draw(st.booleans()), **chosen}


def _broadcast(draw: Draw) -> Signature:
    target = draw(SHAPES)
    kept = target[draw(st.integers(0, len(target))) :]
    source = tuple(1 if draw(st.booleans()) else n for n in kept)
    return [source], {"shape": target}


def _reshape(draw: Draw) -> Signature:
    source = draw(SHAPES)
    total = size(source)
    targets: list[Shape] = [(total,), (1, total), tuple(reversed(source)), (*source, 1)]
    targets += [(n, total // n) for n in (2, 3) if total % n == 0]
    targets += [()] if total == 1 else []
    return [source], {"shape": draw(st.sampled_from(targets))}


def _permute(draw: Draw) -> Signature:
    source = draw(SHAPES)
    rank = len(source)
    order: list[int] = draw(st.permutations(range(rank)))
    return [source], {"axes": tuple(k - rank if draw(st.booleans()) else k for k in order)}


def _take(draw: Draw) -> Signature:
    source = draw(SHAPES.filter(lambda shape: len(shape) > 0))
    axis = _axis(draw, len(source))
    least = 1 if source[axis] == 0 else 0
    picked = draw(st.lists(st.integers(0, 3 - least), max_size=2).map(tuple))
    return [source, picked if source[axis] else (0,)], {"axis": axis}


def _scatter_add(draw: Draw) -> Signature:
    (source, picked), attributes = _take(draw)
    at = attributes["axis"] % len(source)
    return [source, picked, (*source[:at], *picked, *source[at + 1 :])], attributes


def _slice(draw: Draw) -> Signature:
    source = draw(SHAPES.filter(lambda shape: len(shape) > 0))
    axis = _axis(draw, len(source))
    start: int = draw(st.integers(0, source[axis]))
    length: int = draw(st.integers(0, source[axis] - start))
    return [source], {"axis": axis, "start": start, "length": length}


def _concat(draw: Draw) -> Signature:
    first = draw(SHAPES.filter(lambda shape: len(shape) > 0))
    axis = _axis(draw, len(first))
    at = axis % len(first)
    others: list[int] = draw(st.lists(EXTENTS, max_size=2))
    return [first, *((*first[:at], n, *first[at + 1 :]) for n in others)], {"axis": axis}


def _flip(draw: Draw) -> Signature:
    source = draw(SHAPES)
    every = range(len(source))
    axes: set[int] = draw(st.sets(st.sampled_from(every))) if source else set()
    return [source], {"axes": draw(st.sampled_from([None, tuple(axes)]))}


def _flatten(draw: Draw) -> Signature:
    source = draw(SHAPES)
    rank = max(len(source), 1)
    start, end = sorted(draw(st.integers(0, rank - 1)) for _ in range(2))
    return [source], {"start": start, "end": end - rank if draw(st.booleans()) else end}


def _stack(draw: Draw) -> Signature:
    source = draw(SHAPES)
    return [source] * draw(st.integers(1, 3)), {"axis": _axis(draw, len(source) + 1)}


def _pad(draw: Draw) -> Signature:
    source = draw(SHAPES)
    before, after = (tuple(draw(st.integers(0, 2)) for _ in source) for _ in range(2))
    fill = draw(st.sampled_from([0.0, 1.5, Fraction(1, 3)]))
    return [source], {"before": before, "after": after, "value": fill}


def _triangle(draw: Draw) -> Signature:
    lead = draw(st.lists(st.integers(0, 2), max_size=1).map(tuple))
    return [(*lead, draw(EXTENTS), draw(EXTENTS))], {"diagonal": draw(st.integers(-4, 4))}


def _gather(draw: Draw) -> Signature:
    source = draw(SHAPES.filter(lambda shape: len(shape) > 0))
    axis = _axis(draw, len(source))
    at = axis % len(source)
    length: int = draw(EXTENTS) if source[at] else 0
    return [source, (*source[:at], length, *source[at + 1 :])], {"axis": axis}


def _embedding(draw: Draw) -> Signature:
    rows, columns = draw(EXTENTS), draw(EXTENTS)
    picked: Shape = draw(st.lists(st.integers(0, 2), max_size=2).map(tuple))
    return [picked if rows else (0,), (rows, columns)], {}


def _one_hot(draw: Draw) -> Signature:
    return [draw(SHAPES)], {"classes": draw(st.integers(1, 3)), "like": Fraction(0)}


def _matmul(draw: Draw) -> Signature:
    m, k, n = (draw(EXTENTS) for _ in range(3))
    return [(m, k), (k, n)], {}


def _linear(draw: Draw) -> Signature:
    deep, wide = draw(EXTENTS), draw(EXTENTS)
    lead = draw(st.lists(st.integers(0, 2), max_size=2).map(tuple))
    return [(*lead, deep), (wide, deep), (wide,)], {}


def _softmax(draw: Draw) -> Signature:
    shape = draw(SHAPES.filter(lambda shape: len(shape) > 0))
    return [shape], {"axis": _axis(draw, len(shape))}


def _placed(draw: Draw) -> Signature:
    shape = draw(SHAPES.filter(lambda shape: size(shape) > 0))
    axes = range(-len(shape), len(shape))
    return [shape], {"axis": draw(st.sampled_from([None, *axes])), "keepdims": draw(st.booleans())}


def _masked(draw: Draw) -> Signature:
    shapes, attributes = _softmax(draw)
    return shapes * 2, attributes


def _running(draw: Draw) -> Signature:
    shapes, attributes = _softmax(draw)
    return shapes, {
        **attributes,
        "reverse": draw(st.booleans()),
        "exclusive": draw(st.booleans()),
    }


def _layer_norm(draw: Draw) -> Signature:
    shape = draw(SHAPES.filter(lambda shape: len(shape) > 0))
    eps = draw(st.sampled_from([1, 0.25, Fraction(1, 3)]))
    return [shape, shape[-1:], shape[-1:]], {"eps": eps}


def _distance(draw: Draw, op: Op) -> Signature:
    reduction = draw(st.sampled_from(["mean", "sum", "none"]))
    shape = draw(SHAPES.filter(lambda shape: size(shape) > 0 or reduction != "mean"))
    tried = {name: draw(st.sampled_from(among)) for name, among in op.tried.items()}
    return [shape, shape], {**tried, "reduction": reduction}


def _rows_apart(draw: Draw, op: Op) -> Signature:
    shapes, attributes = _distance(draw, op)
    return [(*shapes[0], draw(EXTENTS))] * len(op.inputs), attributes


def _loss(draw: Draw, smooth: bool) -> Signature:
    rows, classes = draw(EXTENTS), draw(EXTENTS)
    rest = draw(st.sampled_from([(), (), (2,), (1, 2), (0,)]))
    attributes: dict[str, Any] = {"ignore_index": draw(st.sampled_from([-100, -1, 1]))}
    weights = st.tuples(*[st.sampled_from([1, 0, 0.5, 3])] * classes)
    attributes["weight"] = draw(st.none() | weights)
    attributes["reduction"] = draw(st.sampled_from(["mean", "mean", "sum", "none"]))
    if smooth:
        attributes["label_smoothing"] = draw(st.sampled_from([0.0, 0.25, 1, Fraction(1, 3)]))
    return [(rows, classes, *rest), (rows, *rest)], attributes


def _random(draw: Draw, op: Op) -> Signature:
    """Draw the words of an op that draws, a probability, and its shape, which has no inputs."""
    word = st.integers(0, 3) | st.integers(0, 2**64 - 1)
    attributes: dict[str, Any] = {"seed": draw(word), "counter": draw(word)}
    shape = draw(SHAPES)
    if not op.inputs:
        attributes |= {"shape": shape, "like": Fraction(0)}
    attributes |= {
        name: draw(PROBABILITIES) for name in ("p", "keep_prob") if name in op.attributes
    }
    if "training" in op.attributes:
        attributes["training"] = draw(st.integers(0, 4)) < 4
    return [shape] * len(op.inputs), attributes


def _tried(draw: Draw, op: Op) -> Signature:
    """Draw one shape for all inputs, and the attributes among those that the page tries."""
    shapes, attributes = _same(draw, len(op.inputs))
    among = [dict(zip(op.tried, chosen, strict=True)) for chosen in product(*op.tried.values())]
    permitted = [one for one in among if accepts(op, shapes, **one) and rational(op, one)]
    return shapes, {**attributes, **draw(st.sampled_from(permitted))}


def rational(op: Op, attributes: dict[str, Any]) -> bool:
    """Say whether an op obeys its laws among fractions with these attributes.

    A power that is e^(c ln x) does so among balls alone: it asks that e^(x + y) is e^x e^y.
    """
    c = Fraction(attributes.get("c", 0))
    return op.name != "pow" or (abs(c) <= LONGEST and (2 * c).denominator == 1)


CALLED: dict[tuple[int, frozenset[str]], Callable[[Draw], Signature]] = {
    (1, frozenset({"axis"})): _softmax,
    (1, frozenset({"axis", "keepdims"})): _placed,
    (1, frozenset({"start", "end"})): _flatten,
    (1, frozenset({"before", "after", "value"})): _pad,
    (1, frozenset({"diagonal"})): _triangle,
    (1, frozenset({"classes", "like"})): _one_hot,
    (1, frozenset({"axis", "reverse", "exclusive"})): _running,
    (1, frozenset({"axis", "start", "length"})): _slice,
    (2, frozenset({"axis"})): _take,
    (3, frozenset({"axis"})): _scatter_add,
    (3, frozenset({"eps"})): _layer_norm,
    (2, frozenset()): _matmul,
    (3, frozenset()): _linear,
    (2, frozenset({"ignore_index", "reduction", "weight"})): lambda draw: _loss(draw, smooth=False),
    (2, frozenset({"ignore_index", "reduction", "label_smoothing", "weight"})): lambda draw: _loss(
        draw, smooth=True
    ),
}
"""How the shapes and attributes of a call are drawn, by the number of inputs and the attributes."""


def drawing(op: Op) -> Callable[[Draw], Signature]:
    """Return how the shapes and attributes of an op are drawn, which its record tells."""
    names = frozenset(op.attributes)
    if op.random:
        return lambda draw: _random(draw, op)
    if op.variadic:
        return _concat if accepts(op, [(1,), (2,)], axis=0) else _stack
    if names == set(op.tried) and accepts(op, [()] * len(op.inputs), **usual(op)):
        return lambda draw: _tried(draw, op)
    if names == {"axes", "keepdims", *op.tried}:
        return lambda draw: _reduction(draw, op, 0 if accepts(op, [(0,)]) else 1)
    if names == {*op.tried, "reduction"} and accepts(op, [(), ()], **usual(op)):
        return lambda draw: _distance(draw, op)
    if names == {*op.tried, "reduction"}:
        return lambda draw: _rows_apart(draw, op)
    if names == {"shape"}:
        return _broadcast if accepts(op, [(1,)], shape=(2,)) else _reshape
    if op.mask_inputs:
        return _masked
    if names == {"axes"}:
        return _flip if accepts(op, [(1, 1)], axes=(0,)) else _permute
    if op.index_inputs == (0,) and not names:
        return _embedding
    if names == {"axis"} and len(op.inputs) == 2 and not accepts(op, [(1,), ()], axis=0):
        return _gather
    return CALLED[len(op.inputs), names]


def accepts(op: Op, shapes: list[Shape], **attributes: Any) -> bool:
    """Say whether a page accepts a call."""
    try:
        op.check_types(*(op.type_at(k, shape) for k, shape in enumerate(shapes)), **attributes)
    except Rejected:
        return False
    return True


def _indices(
    op: Op, k: int, shapes: list[Shape], attributes: dict[str, Any]
) -> st.SearchStrategy[int]:
    """Draw what an index input of an op may hold."""
    if k in op.mask_inputs:
        return st.booleans()
    if "classes" in attributes:
        return st.integers(0, max(attributes["classes"] - 1, 0))
    if op.index_inputs == (0,):
        return st.integers(0, max(shapes[1][0] - 1, 0))
    if "axis" in attributes:
        return st.integers(0, max(shapes[0][attributes["axis"]] - 1, 0))
    ignored = st.just(attributes["ignore_index"])
    classes = shapes[0][1]
    kept = st.integers(0, max(classes - 1, 0))
    return ignored if classes == 0 else st.one_of(kept, kept, ignored)


def _entries(
    draw: Draw, op: Op, attributes: dict[str, Any]
) -> Callable[[int], st.SearchStrategy[Fraction]]:
    """Return what the inputs of a call hold: numbers in their domains, or nothing but ties."""
    anything = TYING if draw(st.integers(0, 2)) == 2 else NUMBERS
    by = {"positive": POSITIVE, "past_minus_one": PAST_MINUS_ONE, "nonzero": NONZERO}
    return lambda k: by.get(domain(op, k, attributes), anything)


@st.composite
def calls(draw: Draw, name: str) -> Call:
    """Draw a valid call of an op."""
    op = OPS[name]
    shapes, attributes = drawing(op)(draw)
    entries = _entries(draw, op, attributes)
    inputs = [
        draw(
            filled(
                shape, _indices(op, k, shapes, attributes) if k in op.index_inputs else entries(k)
            )
        )
        for k, shape in enumerate(shapes)
    ]
    return Call(op, tuple(inputs), attributes)


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


@st.composite
def probes(draw: Draw, name: str) -> Probe:
    """Draw a call and a direction for every input: None, for zero, now and then."""
    call = draw(calls(name))
    tangents: list[AnyTensor | None] = []
    for k, x in enumerate(call.inputs):
        absent = k in call.op.index_inputs or draw(st.integers(0, 7)) == 7
        tangents.append(None if absent else draw(like(x)))
    value = call.value
    cotangents = draw(like(value)), draw(like(value))
    return Probe(call, tuple(tangents), cotangents, (draw(NUMBERS), draw(NUMBERS)))
