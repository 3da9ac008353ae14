"""Programs of a scalar whose Hessians, or products of them with vectors, are judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from equivalence.budgets.ledger import Ledger
from equivalence.sessions.curvature.judge import Curvature, Program
from equivalence.sessions.numbers import integers, normal
from equivalence.sessions.texts import SQUARE, Step, run

LEAVES = 3
"""Two tensors that move, and one that is a constant of the vector: it has none."""


def curved(program: Sequence[Step]) -> Program:
    """A scalar that is curved in the result of a program, and weighs its entries differently."""

    def f(ops: Any, *leaves: Any) -> Any:
        z = run(program, ops, leaves)
        return ops.sum(ops.mul(ops.mul(z, z), ops.add(z, leaves[0])))

    return f


def leaves_of(seed: int, whole: bool) -> list[torch.Tensor]:
    """Draw the leaves: real numbers, or small integers, on which polynomials are exact."""
    if whole:
        return [(integers(seed + k, 5, *SQUARE) - 2).float() for k in range(LEAVES)]
    return [normal(seed + k, *SQUARE) / 2 for k in range(LEAVES)]


def classifier(ops: Any, w: Any, b: Any, x: Any, labels: Any) -> Any:
    """The loss of two layers that share their weights, by labels."""
    h = ops.tanh(ops.linear(x, w, b))
    return ops.cross_entropy(ops.linear(h, w, b), labels)


def squares(ops: Any, x: Any, y: Any, z: Any) -> Any:
    """A mean squared distance, curved once more."""
    return ops.square(ops.mse_loss(ops.mul(x, y), ops.mul(y, z)))


def product(program: Sequence[Step], seed: int, precision: str, whole: bool) -> Ledger:
    """Judge the Hessian of a program times a vector, on real numbers or on small integers."""
    curvature = Curvature(curved(program), leaves_of(seed, whole), precision)
    *vectors, _ = leaves_of(seed + 100, whole)
    curvature.judge_hvp("product", [*vectors, None])
    return curvature.ledger


def columns(program: Sequence[Step], seed: int, precision: str) -> Ledger:
    """Judge all columns of the Hessian of a short program."""
    curvature = Curvature(curved(program[:3]), leaves_of(seed, False), precision)
    curvature.judge_hessian("hessian")
    return curvature.ledger


def by_labels(seed: int, precision: str) -> Ledger:
    """Judge a product and all columns of the Hessian of a loss by labels."""
    shapes = [(2, 2), (2,), (3, 2)]
    inputs = [normal(seed + k, *shape) for k, shape in enumerate(shapes)]
    curvature = Curvature(classifier, [*inputs, integers(seed, 2, 3)], precision)
    curvature.judge_hvp("product", [*inputs, None])
    curvature.judge_hessian("hessian")
    return curvature.ledger


def distance(seed: int, moving: Sequence[bool], precision: str) -> Ledger:
    """Judge a mean squared distance of what moves and what does not."""
    curvature = Curvature(squares, leaves_of(seed, False), precision)
    along = leaves_of(seed + 100, False)
    curvature.judge_hvp(
        "product", [v if moves else None for v, moves in zip(along, moving, strict=True)]
    )
    return curvature.ledger


KINDS = ("product", "exact-product", "hessian", "labels", "distance")
"""What is judged, by name."""

WHOLE = ("hessian", "labels")
"""The kinds that ask for all columns of a Hessian."""
