"""Near-misses: calls that break exactly one constraint of a page, which everybody must refuse.

The reference refuses with the constraint's label; our own backends must name the same label; any
other backend must raise, whatever it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from equivalence.cases.call import TORCH, Shape, dtype_at, handed
from spec.op import Rejected, Type
from spec.ops import OPS
from spec.tensor import Tensor


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A call that breaks one constraint: shapes, attributes, and what the index input holds."""

    op: str
    label: str
    shapes: tuple[Shape, ...]
    attrs: tuple[tuple[str, Any], ...] = ()
    index: int = 0
    real_index: bool = False

    def describe(self) -> str:
        """Return the call in one line."""
        attrs = "".join(f", {name}={value!r}" for name, value in self.attrs)
        shapes = ", ".join(str(list(shape)) for shape in self.shapes)
        return f"{self.op}({shapes}{attrs}) breaking {self.label}"


Template = Callable[[int], NearMiss]


def _miss(op: str, label: str, *shapes: Shape, **attrs: Any) -> NearMiss:
    return NearMiss(op, label, shapes, tuple(sorted(attrs.items())))


def _labels(op: str, label: str, n: int, index: int = 0, real: bool = False) -> NearMiss:
    """Break a constraint on the labels of a loss."""
    return NearMiss(op, label, ((n, n + 1), (n,)), (), index, real)


def _scatter(label: str, n: int, index: int = 0, real: bool = False) -> NearMiss:
    """Break a constraint on the indices of scatter_add."""
    return NearMiss("scatter_add", label, ((n, 2), (2,), (2, 2)), (("axis", 0),), index, real)


def _pointwise(op: str) -> tuple[Template, ...]:
    return (
        lambda n: _miss(op, "C1", (n,), (n + 1,)),
        lambda n: _miss(op, "C1", (n, 2), (2,)),
        lambda n: _miss(op, "C1", (n, 1), (1, n)),
    )


def _reduction(op: str) -> tuple[Template, ...]:
    return (
        lambda n: _miss(op, "C1", (n, 2), axes=(2,)),
        lambda n: _miss(op, "C1", (n, 2), axes=(-3,)),
        lambda n: _miss(op, "C2", (n, 2), axes=(1, -1)),
    )


def _loss(op: str) -> tuple[Template, ...]:
    return (
        lambda n: _miss(op, "C1", (n,), (n,)),
        lambda n: _labels(op, "C2", n, real=True),
        lambda n: _miss(op, "C2", (n, 2), (n + 1,)),
        lambda n: _labels(op, "C3", n, index=n + 1),
        lambda n: _labels(op, "C3", n, index=-1),
        lambda n: _miss(op, "C4", (n, 2), (n,), reduction="average"),
    )


def _mask(n: int) -> NearMiss:
    return NearMiss("where", "C2", ((n, 2),) * 3, real_index=True)


def _softmax(op: str) -> tuple[Template, ...]:
    return (
        lambda n: _miss(op, "C1", (n, 2), axis=2),
        lambda n: _miss(op, "C1", (n, 2), axis=-3),
    )


def _random(op: str, *shapes: Shape, **attrs: Any) -> tuple[Template, ...]:
    """Break what every op that draws asks of its words."""
    call = {"seed": 7, "counter": 0, **attrs}
    wrong = (("C2", "seed"), ("C3", "counter"))
    return tuple(
        lambda n, label=label, name=name, word=word: _miss(
            op, label, *shapes, **{**call, name: word}
        )
        for label, name in wrong
        for word in (-1, 2**64)
    )


def _source(op: str, **attrs: Any) -> tuple[Template, ...]:
    """Break what every op without inputs asks of its shape and its words."""
    return (
        lambda n: _miss(op, "C1", shape=(n, -1), seed=7, counter=0, **attrs),
        lambda n: _miss(op, "C1", shape=(n, 2.0), seed=7, counter=0, **attrs),
        *_random(op, shape=(2,), **attrs),
    )


def _probability(op: str, label: str, *shapes: Shape, **attrs: Any) -> tuple[Template, ...]:
    """Break what is asked of the probability, which is the attribute that attrs names."""
    (name,) = (name for name, value in attrs.items() if value is None)
    return tuple(
        lambda n, wrong=wrong: _miss(
            op, label, *shapes, **{**attrs, name: wrong, "seed": 7, "counter": 0}
        )
        for wrong in (-0.1, 1 + 2.0**-52, math.nan)
    )


TEMPLATES: dict[str, tuple[Template, ...]] = {
    **{op: _pointwise(op) for op in ("add", "sub", "mul", "div", "maximum", "minimum")},
    "where": (
        lambda n: _miss("where", "C1", (n,), (n,), (n + 1,)),
        lambda n: _miss("where", "C1", (n + 1,), (n,), (n,)),
        lambda n: _miss("where", "C1", (n, 2), (2,), (n, 2)),
        lambda n: _miss("where", "C1", (1,), (n,), (n,)),
        _mask,
    ),
    "sum": _reduction("sum"),
    "mean": (
        *_reduction("mean"),
        lambda n: _miss("mean", "C3", (n, 0), axes=(1,)),
    ),
    "max": (
        *_reduction("max"),
        lambda n: _miss("max", "C3", (n, 0), axes=(1,)),
    ),
    "broadcast_to": (
        lambda n: _miss("broadcast_to", "C1", (n,), shape=(n + 1,)),
        lambda n: _miss("broadcast_to", "C1", (n, 2), shape=(2,)),
    ),
    "reshape": (
        lambda n: _miss("reshape", "C1", (n, 2), shape=(n, 3)),
        lambda n: _miss("reshape", "C2", (n, 2), shape=(-2, -n)),
    ),
    "permute": (
        lambda n: _miss("permute", "C1", (n, 2), axes=(0, 0)),
        lambda n: _miss("permute", "C1", (n, 2), axes=(0,)),
        lambda n: _miss("permute", "C1", (n, 2), axes=(0, 2)),
    ),
    "take": (
        lambda n: _miss("take", "C1", (n, 2), (2,), axis=2),
        lambda n: NearMiss("take", "C2", ((n, 2), (2,)), (("axis", 0),), real_index=True),
        lambda n: NearMiss("take", "C3", ((n, 2), (2,)), (("axis", 0),), index=n),
        lambda n: NearMiss("take", "C3", ((n, 2), (2,)), (("axis", 0),), index=-1),
    ),
    "mse_loss": (
        *_pointwise("mse_loss"),
        lambda n: _miss("mse_loss", "C2", (n, 2), (n, 2), reduction="average"),
        lambda n: _miss("mse_loss", "C3", (n, 0), (n, 0)),
    ),
    "scatter_add": (
        lambda n: _miss("scatter_add", "C1", (n, 2), (2,), (2, 2), axis=2),
        lambda n: _scatter("C2", n, real=True),
        lambda n: _scatter("C3", n, index=n),
        lambda n: _scatter("C3", n, index=-1),
        lambda n: _miss("scatter_add", "C4", (n, 2), (2,), (3, 2), axis=0),
        lambda n: _miss("scatter_add", "C4", (n, 2), (2,), (2, 1), axis=0),
    ),
    "slice": (
        lambda n: _miss("slice", "C1", (n, 2), axis=2, start=0, length=1),
        lambda n: _miss("slice", "C2", (n, 2), axis=0, start=1, length=n),
        lambda n: _miss("slice", "C2", (n, 2), axis=0, start=-1, length=1),
        lambda n: _miss("slice", "C2", (n, 2), axis=0, start=1, length=-1),
    ),
    "concat": (
        lambda n: _miss("concat", "C1", axis=0),
        lambda n: _miss("concat", "C2", (n, 2), (n, 2), axis=2),
        lambda n: _miss("concat", "C2", (), (), axis=0),
        lambda n: _miss("concat", "C3", (n, 2), (n, 3), axis=0),
        lambda n: _miss("concat", "C3", (n, 2), (n,), axis=1),
        lambda n: _miss("concat", "C3", (n, 2), (0,), axis=0),
    ),
    "nll_loss": _loss("nll_loss"),
    "matmul": (
        lambda n: _miss("matmul", "C1", (n,), (n, 2)),
        lambda n: _miss("matmul", "C1", (2, n, 2), (2, 2)),
        lambda n: _miss("matmul", "C2", (2, n), (n + 1, 2)),
    ),
    "linear": (
        lambda n: _miss("linear", "C1", (2, n), (n,), (1,)),
        lambda n: _miss("linear", "C2", (2, n), (3, n + 1), (3,)),
        lambda n: _miss("linear", "C3", (2, n), (3, n), (4,)),
        lambda n: _miss("linear", "C3", (2, n), (3, n), (1,)),
    ),
    "softmax": _softmax("softmax"),
    "log_softmax": _softmax("log_softmax"),
    "layer_norm": (
        lambda n: _miss("layer_norm", "C1", (), (1,), (1,)),
        lambda n: _miss("layer_norm", "C2", (2, n), (n + 1,), (n,)),
        lambda n: _miss("layer_norm", "C2", (2, n), (n,), (1,)),
        lambda n: _miss("layer_norm", "C3", (2, n), (n,), (n,), eps=0.0),
        lambda n: _miss("layer_norm", "C3", (2, n), (n,), (n,), eps=math.nan),
    ),
    "cross_entropy": (
        *_loss("cross_entropy"),
        lambda n: _miss("cross_entropy", "C5", (n, 2), (n,), label_smoothing=1.5),
    ),
    "rand_uniform": _source("rand_uniform"),
    "rand_normal": _source("rand_normal"),
    "bernoulli_mask": (
        *_source("bernoulli_mask", keep_prob=0.5),
        *_probability("bernoulli_mask", "C4", shape=(2,), keep_prob=None),
    ),
    "dropout": (
        *_random("dropout", (3,), p=0.5),
        *_probability("dropout", "C1", (3,), p=None),
    ),
}


def near_misses(op: str, extent: int = 3) -> list[NearMiss]:
    """Return the near-misses of an operation around one extent."""
    return [template(extent) for template in TEMPLATES.get(op, ())]


def refused_by_reference(miss: NearMiss) -> str | None:
    """Return what is wrong with the reference's refusal, or None where it names the label."""
    op = OPS[miss.op]
    types = [
        Type(shape) if miss.real_index else op.type_at(k, shape)
        for k, shape in enumerate(miss.shapes)
    ]
    tensors = [
        Tensor(shape, [miss.index if k in op.index_inputs else 1.0] * math.prod(shape))
        for k, shape in enumerate(miss.shapes)
    ]
    try:
        op.type_rule(*types, **dict(miss.attrs))
        if op.refuse_indices is not None:
            op.refuse_indices(*tensors, **dict(miss.attrs))
    except Rejected as refusal:
        return _mislabelled(miss, refusal)
    return f"the reference accepts {miss.describe()}"


def refused_by_backend(miss: NearMiss, backend: Any, dtype: str, labelled: bool) -> str | None:
    """Return what is wrong with a backend's refusal, or None where it refuses as it should."""
    op = OPS[miss.op]
    inputs = [
        torch.full(shape, miss.index).to(
            torch.float32 if miss.real_index else dtype_at(miss.op, k, dtype)
        )
        if k in op.index_inputs
        else torch.ones(shape, dtype=TORCH[dtype])
        for k, shape in enumerate(miss.shapes)
    ]
    try:
        backend.value(miss.op, inputs, handed(miss.op, dict(miss.attrs), dtype))
    except Exception as refusal:
        return _mislabelled(miss, refusal) if labelled else None
    return f"{backend.name} accepts {miss.describe()}"


def _mislabelled(miss: NearMiss, refusal: Exception) -> str | None:
    """Compare a refusal's words with the label of the constraint that was broken."""
    if str(refusal).startswith(f"{miss.op} {miss.label}:"):
        return None
    return f"{miss.describe()} was refused as {type(refusal).__name__}: {refusal}"
