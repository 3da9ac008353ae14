"""Rows see what becomes of NaN, infinities and the ends of a format: planted mistakes fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from equivalence.backends import Capabilities, declared, load
from equivalence.backends.libraries import shipped
from equivalence.runs.results import Row, RowResult
from equivalence.runs.runner import PROFILES, STRENGTHS, run_row

Change = Callable[..., Any]


class Planted:
    """Our provider, but for one direction of one op."""

    name = "planted"

    def __init__(self, row: Row, change: Change) -> None:
        self.inner, self.row, self.change = load("fast-aten"), row, change

    def capabilities(self) -> Any:
        return self.inner.capabilities()

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        if self.row.direction == "value":
            found: Tensor = self.change(*inputs, **attrs)
            return found
        return self.inner.value(op, inputs, attrs)

    def vjp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        cotangents: Sequence[Tensor],
    ) -> Sequence[Tensor | None]:
        if self.row.direction == "vjp":
            return [self.change(*inputs, *cotangents, **attrs)]
        return self.inner.vjp(op, inputs, attrs, cotangents)


def without_edges(row: Row, change: Change, monkeypatch: pytest.MonkeyPatch) -> RowResult:
    """Run a row at `ci`, its edge rows left out: they alone must not be what sees it."""
    monkeypatch.setattr("equivalence.runs.row.edges.edges", lambda *_: [])
    return run_row(
        Planted(row, change),
        row,
        counted=PROFILES["ci"],
        strength=STRENGTHS["ci"],
        seed=0,
        findings=shipped(),
    )


def max_dropping_nan(x: Tensor, axes: Any = None, keepdims: bool = False) -> Tensor:
    """Forget NaN beyond the eighth entry of the last axis."""
    if x.dim() and x.shape[-1] > 8:
        tail = x[..., 8:]
        x = torch.cat([x[..., :8], torch.where(tail.isnan(), -math.inf, tail)], -1)
    if axes == ():
        return x.clone()
    return torch.amax(x, axes or tuple(range(x.dim())), keepdim=keepdims)


def online_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Scale a running sum by e^(old - new), which is NaN while nothing but -inf was seen."""
    rows = x.movedim(axis, -1)
    most = torch.full(rows.shape[:-1], -math.inf)
    total = torch.zeros(rows.shape[:-1])
    for block in rows.split(16, -1) if rows.shape[-1] else ():
        larger = torch.maximum(most, block.amax(-1))
        total = total * torch.exp(most - larger) + torch.exp(block - larger[..., None]).sum(-1)
        most = larger
    return (torch.exp(rows - most[..., None]) / total[..., None]).movedim(-1, axis)


def nll_by_product(
    x: Tensor,
    labels: Tensor,
    ignore_index: int = -100,
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
) -> Tensor:
    """Multiply by a one-hot matrix: 0 times infinity."""
    kept = labels != ignore_index
    beside = (-1, *(1 for _ in x.shape[2:]))
    weights = torch.ones(x.shape[1]) if weight is None else torch.tensor(weight)
    hot = (torch.arange(x.shape[1]).view(beside) == labels.unsqueeze(1)) & kept.unsqueeze(1)
    shares = hot * weights.view(beside)
    losses, over = -(x * shares).sum(1), shares.sum()
    if reduction == "none":
        return losses
    return losses.sum() / over.where(over != 0, 1) if reduction == "mean" else losses.sum()


def flushed(function: Change) -> Change:
    """Take subnormal numbers for 0."""
    return lambda x: function(torch.where(x.abs() < 2.0**-126, 0.0, x))


PLANTED: Mapping[str, tuple[Row, Change]] = {
    "max drops NaN": (Row("max", "value", "fp32"), max_dropping_nan),
    "online softmax": (Row("softmax", "value", "fp32"), online_softmax),
    "nll by a product": (Row("nll_loss", "value", "fp32"), nll_by_product),
    "relu by a product": (Row("relu", "value", "fp32"), lambda x: x * (x > 0)),
    "relu's gradient by a product": (Row("relu", "vjp", "fp32"), lambda x, g: g * (x > 0)),
    "flushed sqrt": (Row("sqrt", "value", "fp32"), flushed(torch.sqrt)),
    "flushed log": (Row("log", "value", "fp32"), flushed(torch.log)),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row, change = PLANTED[name]
    assert without_edges(row, change, monkeypatch).status == "nonconformant"


@pytest.mark.parametrize("row", [row for row, _ in PLANTED.values()], ids=str)
def test_the_right_one_passes(row: Row) -> None:
    counted = PROFILES["ci"]
    result = run_row(load("fast-aten"), row, counted=counted, seed=0, findings=shipped())
    assert result.status == "conformant", result.failures


class Forward(Planted):
    """Our provider, with the tangent of one op, by a contract that is stable."""

    def capabilities(self) -> Capabilities:
        return Capabilities({self.row.op: ("fp32",)}, declared("torch"))

    def jvp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        tangents: Sequence[Tensor | None],
    ) -> Tensor:
        (x,), (t,) = inputs, tangents
        assert t is not None, "what moves has a tangent"
        found: Tensor = self.change(torch.tanh(x), t)
        return found


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda z, t: t * (1 - z * z), "conformant"),
        (lambda z, t: t - t * z * z, "conformant"),
        (lambda z, t: t.where(t.isfinite(), 0.0) * (1 - z * z), "nonconformant"),
        (lambda z, t: (t + 0 * t.sum()) * (1 - z * z), "nonconformant"),
    ],
    ids=["by the rate", "less its share", "infinite ones to zero", "spoiled by another's"],
)
def test_formulas_of_a_tangent_differ_where_it_is_infinite(change: Change, status: str) -> None:
    row = Row("tanh", "jvp", "fp32")
    result = run_row(Forward(row, change), row, counted=8, seed=0, findings=())
    assert result.status == status, result.failures
