"""Optimizers of another kind: entries that look at each other, and decay by another share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

from equivalence import FP32, Capabilities, Contract, Request, perform, registered
from equivalence.measure.reference import decayed
from spec.op import AnyTensor
from spec.optim import OPTIMIZERS, Optimizer
from spec.scalar import absolute, divide, lift, maximum, sum_over
from spec.tensor import zip_map


@dataclass(frozen=True)
class Hyper:
    """A rate, and a decay."""

    lr: float = 0.5
    weight_decay: float = 0.0


@dataclass(frozen=True)
class Nothing:
    """No state."""


START = Nothing()


def bounded(p: AnyTensor, g: AnyTensor, state: Nothing, h: Hyper) -> tuple[AnyTensor, Nothing]:
    """Step by the gradient over its length, if that is more than 1, and decay by a share."""
    length = sum_over(len(g.data), lambda k: absolute(g.data[k])) if g.data else Fraction(0)
    length = maximum(length, lift(length, Fraction(1)))
    lr, kept = Fraction(h.lr), 1 - Fraction(h.weight_decay)

    def moved(a: Any, b: Any) -> Any:
        return lift(a, kept) * a - lift(b, lr) * divide(b, length)

    return zip_map(moved, p, g), state


BOUNDED = Optimizer(
    "bounded",
    Hyper,
    Nothing,
    lambda p: START,
    bounded,
    tried={"lr": (0.5, 0.0, 0.125), "weight_decay": (0.0, 0.25)},
    alone=("lr",),
    refused=(),
    decoupled=True,
    elementwise=False,
)


class Bounded:
    """A backend of it; a wrong one bounds every row, or all parameters together."""

    name = "bounded"

    def __init__(self, wrong: str = "") -> None:
        self.wrong = wrong

    def capabilities(self) -> Capabilities:
        rule = Contract("bounded", FP32, FP32, freedom="stable")
        return Capabilities({}, lambda op, dtype: rule, optimizers={"bounded": ["fp32"]})

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        raise NotImplementedError(op)

    vjp: Any = value

    def optimizer(self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> Any:
        return Handle(params, hyper, self.wrong)


class Handle:
    """Parameters under it."""

    def __init__(self, params: Sequence[Tensor], hyper: Mapping[str, Any], wrong: str) -> None:
        self.held, self.hyper, self.wrong = list(params), hyper, wrong

    def step(self, grads: Sequence[Tensor | None]) -> None:
        bound = self.hyper.get("max_norm")
        known = [g for g in grads if g is not None]
        norm = torch.stack([g.norm() for g in known]).norm() if known else torch.tensor(0.0)
        scale = 1.0 if bound is None else torch.clamp(bound / (norm + 1e-6), max=1.0)
        for k, (p, g) in enumerate(zip(self.held, grads, strict=True)):
            if g is not None:
                self.held[k] = self.moved(p, g * scale, k)

    def moved(self, p: Tensor, g: Tensor, k: int) -> Tensor:
        own = {**vars(Hyper()), **self.hyper}
        for group in self.hyper.get("groups", ()):
            own |= group if k in group["params"] else {}
        rows = self.wrong == "rows" and g.dim() > 1
        length = g.abs().sum(-1, keepdim=True) if rows else g.abs().sum()
        return p - own["weight_decay"] * p - own["lr"] * (g / torch.clamp(length, min=1.0))

    def params(self) -> Sequence[Tensor]:
        return self.held

    def state(self) -> Mapping[str, Sequence[Tensor | None]]:
        return {}


@pytest.mark.parametrize(("wrong", "status"), [("", "conformant"), ("rows", "nonconformant")])
def test_entries_may_look_at_each_other(wrong: str, status: str) -> None:
    with registered(BOUNDED):
        done = perform(Request("bounded", ops=["bounded"], profile="quick"), Bounded(wrong))
    (row,) = [result for result in done.results if result.row.dtype == "fp32"]
    assert row.status == status, row.failures
    assert "untried" not in done.environment


def test_a_page_says_itself_by_which_share_it_decays() -> None:
    given = (("lr", 0.5), ("weight_decay", 0.25))
    usual = OPTIMIZERS["adamw"].defaults
    assert decayed("adamw", tuple({**usual, **dict(given)}.items())) == Fraction(1, 8)
    with registered(replace(BOUNDED)):
        assert decayed("bounded", given) == Fraction(1, 4)
    with registered(replace(BOUNDED, update=proximal)):
        assert decayed("bounded", given) is None


def proximal(p: AnyTensor, g: AnyTensor, state: Nothing, h: Hyper) -> tuple[AnyTensor, Nothing]:
    """Decay what the step leaves."""
    kept = 1 - Fraction(h.weight_decay)
    left, _ = bounded(p, g, state, replace(h, weight_decay=0.0))
    return left.map(lambda a: lift(a, kept) * a), state
