"""Valid small calls of every op, drawn so that a failing one shrinks in seconds.

Entries are small integers wrapped in `Fraction`; extents run from 0 to 3, seldom 0.
One function per family of type rules draws shapes and attributes; `calls` fills in the entries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from spec.op import AnyTensor, Op, Type
from spec.ops import OPS
from spec.shape import size
from spec.tensor import Tensor

Draw = Callable[[st.SearchStrategy[Any]], Any]
Shape = tuple[int, ...]

EXTENTS = st.sampled_from([2, 3, 1, 2, 3, 0])
SHAPES = st.integers(0, 3).flatmap(lambda rank: st.tuples(*[EXTENTS] * rank))
NUMBERS = st.integers(-3, 3).map(Fraction)
POSITIVE = st.sampled_from([Fraction(1), Fraction(2), Fraction(3), Fraction(4), Fraction(9, 4)])
NONZERO = st.sampled_from([Fraction(1), Fraction(2), Fraction(3), Fraction(-1), Fraction(-2)])

PROBABILITIES = st.sampled_from([0.5, Fraction(1, 3), 0.25, 1, 0])

TYING = st.sampled_from([Fraction(0), Fraction(1)])

DOMAINS = {
    ("log", 0): POSITIVE,
    ("sqrt", 0): POSITIVE,
    ("div", 1): NONZERO,
    ("maximum", 0): TYING,
    ("maximum", 1): TYING,
    ("minimum", 0): TYING,
    ("minimum", 1): TYING,
    ("max", 0): TYING,
    ("softmax", 0): TYING,
}
"""Entries that an input may not hold, or that deserve to be drawn more often: by op and slot."""


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


def _reduction(draw: Draw, least: int) -> Signature:
    shape = draw(SHAPES)
    axes = _axes(draw, len(shape))
    gone = range(len(shape)) if axes is None else [axis % len(shape) for axis in axes]
    shape = tuple(max(n, least) if k in gone else n for k, n in enumerate(shape))
    return [shape], {"axes": axes, "keepdims": draw(st.booleans())}


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


def _layer_norm(draw: Draw) -> Signature:
    shape = draw(SHAPES.filter(lambda shape: len(shape) > 0))
    eps = draw(st.sampled_from([1, 0.25, Fraction(1, 3)]))
    return [shape, shape[-1:], shape[-1:]], {"eps": eps}


def _distance(draw: Draw) -> Signature:
    reduction = draw(st.sampled_from(["mean", "sum", "none"]))
    shape = draw(SHAPES.filter(lambda shape: size(shape) > 0 or reduction != "mean"))
    return [shape, shape], {"reduction": reduction}


def _loss(draw: Draw, smooth: bool) -> Signature:
    rows, classes = draw(EXTENTS), draw(EXTENTS)
    attributes: dict[str, Any] = {"ignore_index": draw(st.sampled_from([-100, -1, 1]))}
    attributes["reduction"] = draw(st.sampled_from(["mean", "mean", "sum", "none"]))
    if smooth:
        attributes["label_smoothing"] = draw(st.sampled_from([0.0, 0.25, 1, Fraction(1, 3)]))
    return [(rows, classes), (rows,)], attributes


def _call(draw: Draw) -> dict[str, Any]:
    word = st.integers(0, 3) | st.integers(0, 2**64 - 1)
    return {"seed": draw(word), "counter": draw(word)}


def _draws(draw: Draw) -> Signature:
    return [], {"shape": draw(SHAPES), **_call(draw), "like": Fraction(0)}


def _masks(draw: Draw) -> Signature:
    _, attributes = _draws(draw)
    return [], {**attributes, "keep_prob": draw(PROBABILITIES)}


def _dropout(draw: Draw) -> Signature:
    attributes = {**_call(draw), "p": draw(PROBABILITIES), "training": draw(st.integers(0, 4)) < 4}
    return [draw(SHAPES)], attributes


FAMILIES: dict[str, Callable[[Draw], Signature]] = {
    **{name: lambda draw: _same(draw, 2) for name in ("add", "sub", "mul", "div")},
    **{name: lambda draw: _same(draw, 2) for name in ("maximum", "minimum")},
    "where": lambda draw: _same(draw, 3),
    **{name: lambda draw: _same(draw, 1) for name in ("square", "sqrt", "exp", "log", "tanh")},
    **{name: lambda draw: _same(draw, 1) for name in ("relu", "detach")},
    "sum": lambda draw: _reduction(draw, 0),
    "mean": lambda draw: _reduction(draw, 1),
    "max": lambda draw: _reduction(draw, 1),
    "broadcast_to": _broadcast,
    "reshape": _reshape,
    "permute": _permute,
    "take": _take,
    "scatter_add": _scatter_add,
    "slice": _slice,
    "concat": _concat,
    "matmul": _matmul,
    "linear": _linear,
    "softmax": _softmax,
    "log_softmax": _softmax,
    "layer_norm": _layer_norm,
    "mse_loss": _distance,
    "nll_loss": lambda draw: _loss(draw, smooth=False),
    "cross_entropy": lambda draw: _loss(draw, smooth=True),
    "rand_uniform": _draws,
    "rand_normal": _draws,
    "bernoulli_mask": _masks,
    "dropout": _dropout,
}
"""How the shapes and attributes of each op are drawn."""


def _indices(name: str, shapes: list[Shape], attributes: dict[str, Any]) -> st.SearchStrategy[int]:
    """Draw what the index input of an op may hold."""
    if name == "where":
        return st.booleans()
    if name in ("take", "scatter_add"):
        return st.integers(0, max(shapes[0][attributes["axis"]] - 1, 0))
    ignored = st.just(attributes["ignore_index"])
    classes = shapes[0][1]
    kept = st.integers(0, max(classes - 1, 0))
    return ignored if classes == 0 else st.one_of(kept, kept, ignored)


@st.composite
def calls(draw: Draw, name: str) -> Call:
    """Draw a valid call of an op."""
    op = OPS[name]
    shapes, attributes = FAMILIES[name](draw)
    inputs: list[AnyTensor] = []
    for k, shape in enumerate(shapes):
        if k in op.index_inputs:
            inputs.append(draw(filled(shape, _indices(name, shapes, attributes))))
        else:
            inputs.append(draw(filled(shape, DOMAINS.get((name, k), NUMBERS))))
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
