"""Calls as people test with them: normal numbers, the last axis, defaults.

This is what other people's checks are given; the suite draws its own cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor

from spec.ops import OPS
from spec.optim import OPTIMIZERS

Call = tuple[list[Tensor], dict[str, Any]]
"""Inputs and attributes."""

SIZES = (8, 16)
"""The rows and columns of a test's matrix."""

FUZZED = (1, 130)
"""Between which extents shapes are fuzzed."""


class Sampler:
    """Draws the tensors of one call in a dtype, from a seed."""

    def __init__(
        self, seed: int, dtype: torch.dtype, sizes: tuple[int, int] | None = SIZES
    ) -> None:
        """Take rows and columns as given, or fuzz them."""
        self.generator = Generator().manual_seed(seed)
        self.dtype = dtype
        fuzzed: list[int] = torch.randint(*FUZZED, (2,), generator=self.generator).tolist()
        self.rows: int
        self.columns: int
        self.rows, self.columns = fuzzed if sizes is None else sizes

    def normal(self, *shape: int) -> Tensor:
        """Draw normal numbers, the same ones in every dtype but for rounding."""
        return torch.randn(shape, generator=self.generator).to(self.dtype)

    def below(self, bound: int, *shape: int) -> Tensor:
        """Draw indices."""
        return torch.randint(bound, shape, generator=self.generator)

    def call(self, op: str) -> Call:
        """Return a call of an op."""
        if op in SPECIAL:
            return SPECIAL[op](self)
        return [self.normal(self.rows, self.columns) for _ in OPS[op].inputs], {}

    def cotangent(self, result: Tensor) -> Tensor:
        """Draw a cotangent of a result."""
        return self.normal(*result.shape)

    def positive(self) -> Call:
        """Keep away from the edge of a domain."""
        return [self.normal(self.rows, self.columns).abs() + 1], {}

    def reduction(self) -> Call:
        """Reduce the last axis."""
        return [self.normal(self.rows, self.columns)], {"axes": (1,)}

    def rows_with(self, **attributes: Any) -> Call:
        """Take a matrix, with attributes."""
        return [self.normal(self.rows, self.columns)], attributes

    def loss(self) -> Call:
        """Take logits and labels."""
        return [self.normal(self.rows, self.columns), self.below(self.columns, self.rows)], {}

    def drawn(self, **attributes: Any) -> Call:
        """Take nothing but a shape, a seed and a counter."""
        shape = (self.rows, self.columns)
        return [], {"shape": shape, "seed": 0, "counter": 0, "dtype": self.dtype, **attributes}


def _layer_norm(s: Sampler) -> Call:
    return [s.normal(s.rows, s.columns), s.normal(s.columns), s.normal(s.columns)], {}


def _product(s: Sampler) -> Call:
    return [s.normal(s.rows, s.columns), s.normal(s.columns, s.rows)], {}


def _linear(s: Sampler) -> Call:
    return [s.normal(s.rows, s.columns), s.normal(5, s.columns), s.normal(5)], {}


def _take(s: Sampler) -> Call:
    return [s.normal(s.rows, s.columns), s.below(s.rows, 6)], {"axis": 0}


def _scatter(s: Sampler) -> Call:
    inputs = [s.normal(s.rows, s.columns), s.below(s.rows, 6), s.normal(6, s.columns)]
    return inputs, {"axis": 0}


def _where(s: Sampler) -> Call:
    mask = s.below(2, s.rows, s.columns).bool()
    return [mask, s.normal(s.rows, s.columns), s.normal(s.rows, s.columns)], {}


def _concat(s: Sampler) -> Call:
    return [s.normal(s.rows, s.columns), s.normal(s.rows, s.columns)], {"axis": 1}


def _broadcast(s: Sampler) -> Call:
    return [s.normal(1, s.columns)], {"shape": (s.rows, s.columns)}


SPECIAL: dict[str, Callable[[Sampler], Call]] = {
    "log": Sampler.positive,
    "sqrt": Sampler.positive,
    "sum": Sampler.reduction,
    "mean": Sampler.reduction,
    "max": Sampler.reduction,
    "layer_norm": _layer_norm,
    "matmul": _product,
    "linear": _linear,
    "take": _take,
    "scatter_add": _scatter,
    "where": _where,
    "concat": _concat,
    "broadcast_to": _broadcast,
    "reshape": lambda s: s.rows_with(shape=(s.columns, s.rows)),
    "permute": lambda s: s.rows_with(axes=(1, 0)),
    "slice": lambda s: s.rows_with(axis=1, start=0, length=s.columns),
    "dropout": lambda s: s.rows_with(p=0.5, seed=0, counter=0),
    "nll_loss": Sampler.loss,
    "cross_entropy": Sampler.loss,
    "rand_uniform": Sampler.drawn,
    "rand_normal": Sampler.drawn,
    "bernoulli_mask": lambda s: s.drawn(keep_prob=0.5),
}
"""The ops that are not called with matrices of one shape alone."""


def hyper(optimizer: str) -> dict[str, Any]:
    """Return the settings that people test an optimizer with: its defaults, and a rate."""
    return {"lr": 0.1} if "lr" in OPTIMIZERS[optimizer].required else {}
