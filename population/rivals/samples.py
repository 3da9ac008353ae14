"""Calls as people test with them: normal numbers, the last axis, defaults.

This is what other people's checks are given; the suite draws its own cases.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from equivalence.cases.domains import domain
from equivalence.cases.families.family import Sample
from equivalence.cases.families.table import family_of
from spec.op import Op
from spec.ops import OPS
from spec.optim import OPTIMIZERS

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

    def call(self, op: str) -> Sample:
        """Return a call of an op; what makes numbers is told in which dtype."""
        page = OPS[op]
        inputs, attributes = family_of(page).sample(self, page)
        told = {"dtype": self.dtype} if page.kind == "source" else {}
        return inputs, {**attributes, **told}

    def cotangent(self, result: Tensor) -> Tensor:
        """Draw a cotangent of a result."""
        return self.normal(*result.shape)

    def matrix(self) -> Tensor:
        """Draw a matrix of normal numbers."""
        return self.normal(self.rows, self.columns)

    def parameters(self, optimizer: str) -> list[Tensor]:
        """Draw a matrix and a vector, or two matrices where an optimizer takes nothing else."""
        tall = (self.rows,) if OPTIMIZERS[optimizer].matrices else ()
        return [self.normal(*SIZES), self.normal(self.columns, *tall)]

    def entries(self, op: Op, k: int) -> Tensor:
        """Draw the matrix of one input."""
        if k in op.mask_inputs:
            return self.below(2, self.rows, self.columns).bool()
        x = self.matrix()
        return x.abs() + 1 if domain(op, k) in ("positive", "past_minus_one") else x


def hyper(optimizer: str) -> dict[str, Any]:
    """Return the settings that people test an optimizer with: its defaults, and a rate."""
    return {"lr": 0.1} if "lr" in OPTIMIZERS[optimizer].required else {}
