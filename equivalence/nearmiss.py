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

from equivalence.cases import DTYPES, Shape
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


def _softmax(op: str) -> tuple[Template, ...]:
    return (
        lambda n: _miss(op, "C1", (n, 2), axis=2),
        lambda n: _miss(op, "C1", (n, 2), axis=-3),
    )


TEMPLATES: dict[str, tuple[Template, ...]] = {
    **{op: _pointwise(op) for op in ("add", "sub", "mul", "div")},
    "sum": _reduction("sum"),
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
}


def near_misses(op: str, extent: int = 3) -> list[NearMiss]:
    """Return the near-misses of an operation around one extent."""
    return [template(extent) for template in TEMPLATES.get(op, ())]


def refused_by_reference(miss: NearMiss) -> str | None:
    """Return what is wrong with the reference's refusal, or None where it names the label."""
    op = OPS[miss.op]
    types = [
        Type(shape, index=k in op.index_inputs and not miss.real_index)
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
        torch.full(shape, miss.index, dtype=torch.float32 if miss.real_index else torch.int64)
        if k in op.index_inputs
        else torch.ones(shape, dtype=DTYPES[dtype])
        for k, shape in enumerate(miss.shapes)
    ]
    try:
        backend.value(miss.op, inputs, dict(miss.attrs))
    except Exception as refusal:
        return _mislabelled(miss, refusal) if labelled else None
    return f"{backend.name} accepts {miss.describe()}"


def _mislabelled(miss: NearMiss, refusal: Exception) -> str | None:
    """Compare a refusal's words with the label of the constraint that was broken."""
    if str(refusal).startswith(f"{miss.op} {miss.label}:"):
        return None
    return f"{miss.describe()} was refused as {type(refusal).__name__}: {refusal}"
