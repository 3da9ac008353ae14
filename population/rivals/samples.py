"""Calls as people test with them: normal numbers, the last axis, defaults.

This is what other people's checks are given; the suite draws its own cases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Generator, Tensor

from equivalence.cases.domains import domain, usual
from equivalence.cases.families.gathers import CLASSES, LOOKUPS, PICKS, SCATTERS, TAKES
from equivalence.cases.families.losses import SCORES
from equivalence.cases.families.moves import BROADCASTS, FLIPS, PERMUTES, RESHAPES
from equivalence.cases.families.parts import CONCATS, PADS, SLICES, STACKS
from equivalence.cases.families.products import LINEAR, PRODUCTS
from equivalence.cases.families.random import PROBABILITIES, RANDOM
from equivalence.cases.families.reductions import POSITIONS, REDUCTIONS
from equivalence.cases.families.rows import NORMS, ROWS
from equivalence.cases.families.table import family_of
from spec.op import Op
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
        page = OPS[op]
        alike = BY_FAMILY.get(family_of(page).name)
        return self.elementwise(page) if alike is None else alike(self, page)

    def cotangent(self, result: Tensor) -> Tensor:
        """Draw a cotangent of a result."""
        return self.normal(*result.shape)

    def matrix(self) -> Tensor:
        """Draw a matrix of normal numbers."""
        return self.normal(self.rows, self.columns)

    def elementwise(self, op: Op) -> Call:
        """Take matrices of one shape, and away from the edge of a domain."""
        return [self.entries(op, k) for k in range(len(op.inputs))], usual(op)

    def entries(self, op: Op, k: int) -> Tensor:
        """Draw the matrix of one input."""
        if k in op.mask_inputs:
            return self.below(2, self.rows, self.columns).bool()
        x = self.matrix()
        return x.abs() + 1 if domain(op, k) in ("positive", "past_minus_one") else x

    def random(self, op: Op) -> Call:
        """Draw with one seed, and one half where a probability is asked for."""
        given = {"shape": (self.rows, self.columns), "dtype": self.dtype} if not op.inputs else {}
        chances = dict.fromkeys(PROBABILITIES & op.attributes.keys(), 0.5)
        return [self.matrix() for _ in op.inputs], {**given, "seed": 0, "counter": 0, **chances}


def _along(s: Sampler, op: Op) -> Call:
    return [s.entries(op, k) for k in range(len(op.inputs))], {"axis": -1, **usual(op)}


def _layer(s: Sampler, op: Op) -> Call:
    return [s.matrix(), s.normal(5, s.columns), s.normal(5)], {}


def _scattered(s: Sampler, op: Op) -> Call:
    return [s.matrix(), s.below(s.rows, 6), s.normal(6, s.columns)], {"axis": 0}


def _normed(s: Sampler, op: Op) -> Call:
    return [s.matrix(), *(s.normal(s.columns) for _ in op.inputs[1:])], {}


BY_FAMILY: Mapping[str, Callable[[Sampler, Op], Call]] = {
    RANDOM.name: Sampler.random,
    REDUCTIONS.name: lambda s, op: ([s.matrix()], {"axes": (1,)}),
    POSITIONS.name: lambda s, op: ([s.matrix()], {"axis": 1}),
    ROWS.name: _along,
    NORMS.name: _normed,
    BROADCASTS.name: lambda s, op: ([s.normal(1, s.columns)], {"shape": (s.rows, s.columns)}),
    RESHAPES.name: lambda s, op: ([s.matrix()], {"shape": (s.columns, s.rows)}),
    FLIPS.name: lambda s, op: ([s.matrix()], {"axes": (1,)}),
    PADS.name: lambda s, op: ([s.matrix()], {"before": (1, 1), "after": (1, 1)}),
    PERMUTES.name: lambda s, op: ([s.matrix()], {"axes": (1, 0)}),
    SLICES.name: lambda s, op: ([s.matrix()], {"axis": 1, "start": 0, "length": s.columns}),
    CONCATS.name: lambda s, op: ([s.matrix(), s.matrix()], {"axis": 1}),
    STACKS.name: lambda s, op: ([s.matrix(), s.matrix()], {"axis": 0}),
    TAKES.name: lambda s, op: ([s.matrix(), s.below(s.rows, 6)], {"axis": 0}),
    PICKS.name: lambda s, op: ([s.matrix(), s.below(s.rows, 6, s.columns)], {"axis": 0}),
    LOOKUPS.name: lambda s, op: ([s.below(s.rows, 6), s.matrix()], {}),
    CLASSES.name: lambda s, op: (
        [s.below(s.columns, s.rows)],
        {"classes": s.columns, "dtype": s.dtype},
    ),
    SCATTERS.name: _scattered,
    PRODUCTS.name: lambda s, op: ([s.matrix(), s.normal(s.columns, s.rows)], {}),
    LINEAR.name: _layer,
    SCORES.name: lambda s, op: ([s.matrix(), s.below(s.columns, s.rows)], {}),
}
"""How the ops of a family are called; the others take matrices of one shape alone."""


def hyper(optimizer: str) -> dict[str, Any]:
    """Return the settings that people test an optimizer with: its defaults, and a rate."""
    return {"lr": 0.1} if "lr" in OPTIMIZERS[optimizer].required else {}
