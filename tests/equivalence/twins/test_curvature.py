"""Hessians of random programs: those of `fast`, in fp64 and fp32, and those of the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import spec.autodiff
from equivalence.budgets.violation import Violation
from equivalence.twins.curvature import Curvature, Program
from equivalence.twins.programs import integers, numbers
from fast import autodiff
from fast.programs import forward
from tests.spec.programs import PROGRAMS, SQUARE, Step, run

LEAVES = 3
"""Two tensors that move, and one that is a constant of the vector: it has none."""


def curved(program: Sequence[Step]) -> Program:
    """A scalar that is curved in the result of a program, and weighs its entries differently."""

    def f(ops: Any, *leaves: Any) -> Any:
        z = run(program, ops, leaves)
        return ops.sum(ops.mul(ops.mul(z, z), ops.add(z, leaves[0])))

    return f


def drawn(seed: int, whole: bool) -> list[torch.Tensor]:
    """Draw the leaves: real numbers, or small integers, on which polynomials are exact."""
    if whole:
        return [(integers(seed + k, 5, *SQUARE) - 2).float() for k in range(LEAVES)]
    return [numbers(seed + k, *SQUARE) / 2 for k in range(LEAVES)]


def classifier(ops: Any, w: Any, b: Any, x: Any, labels: Any) -> Any:
    """The loss of two layers that share their weights, by labels."""
    h = ops.tanh(ops.linear(x, w, b))
    return ops.cross_entropy(ops.linear(h, w, b), labels)


def squares(ops: Any, x: Any, y: Any, z: Any) -> Any:
    """A mean squared distance, curved once more."""
    return ops.square(ops.mse_loss(ops.mul(x, y), ops.mul(y, z)))


@pytest.mark.parametrize("precision", ["fp64", "fp32"])
@pytest.mark.parametrize("whole", [False, True], ids=["reals", "integers"])
def test_a_hessian_times_a_vector_is_within_budget(precision: str, whole: bool) -> None:
    judged = unconstrained = 0

    @settings(max_examples=80)
    @given(PROGRAMS, st.integers(0, 2**16))
    def check(program: Sequence[Step], seed: int) -> None:
        nonlocal judged, unconstrained
        curvature = Curvature(curved(program), drawn(seed, whole), precision)
        *vectors, _ = drawn(seed + 100, whole)
        curvature.judge_hvp("product", [*vectors, None])
        judged += curvature.ledger.judged
        unconstrained += curvature.ledger.unconstrained

    check()
    assert judged > 10 * unconstrained


@pytest.mark.parametrize("precision", ["fp64", "fp32"])
def test_a_hessian_is_its_columns(precision: str) -> None:
    judged = unconstrained = 0

    @settings(max_examples=6)
    @given(PROGRAMS, st.integers(0, 2**16))
    def check(program: Sequence[Step], seed: int) -> None:
        nonlocal judged, unconstrained
        curvature = Curvature(curved(program[:3]), drawn(seed, False), precision)
        curvature.judge_hessian("hessian")
        judged += curvature.ledger.judged
        unconstrained += curvature.ledger.unconstrained

    check()
    assert judged > 10 * unconstrained


@pytest.mark.parametrize("precision", ["fp64", "fp32"])
def test_a_hessian_of_a_loss_by_labels_is_within_budget(precision: str) -> None:
    inputs = [numbers(k, *shape) for k, shape in enumerate([(2, 2), (2,), (3, 2)])]
    curvature = Curvature(classifier, [*inputs, torch.tensor([0, 1, 1])], precision)
    curvature.judge_hvp("product", [*inputs, None])
    curvature.judge_hessian("hessian")
    assert (curvature.ledger.judged, curvature.ledger.unconstrained) == (12 + 12 * 12, 0)


@pytest.mark.parametrize(
    "moving",
    [
        (True, True, True),
        (True, False, False),
    ],
    ids=["both sides move", "one side moves"],
)
def test_a_distance_of_what_moves(moving: Sequence[bool]) -> None:
    curvature = Curvature(squares, drawn(1, False), "fp64")
    vectors = [v if moves else None for v, moves in zip(drawn(2, False), moving, strict=True)]
    curvature.judge_hvp("product", vectors)
    assert curvature.ledger.judged == 12


SHARED: list[Step] = [("mul", 0, 2), ("tanh", 0, 0), ("matmul", 0, 1)]
"""The product of what moves and what does not, which is read twice afterwards."""


def judge_shared() -> None:
    """Judge a product with a vector that has no part at the last leaf, and then all columns."""
    curvature = Curvature(curved(SHARED), drawn(1, False), "fp64")
    *vectors, _ = drawn(2, False)
    curvature.judge_hvp("product", [*vectors, None])
    curvature.judge_hessian("hessian")


def test_a_program_that_shares_is_right() -> None:
    judge_shared()


Change = Callable[[pytest.MonkeyPatch], None]


def cotangents_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "_plus_tangent", lambda paired, more: paired)


def constant_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    run: Any = autodiff._run

    def moving(*given: Any) -> Any:
        *most, inputs, beside, chosen, vectors = given
        along = [x if v is None else v for x, v in zip(inputs, vectors, strict=True)]
        return run(*most, inputs, beside, chosen, along)

    monkeypatch.setattr(autodiff, "_run", moving)


def transposed(monkeypatch: pytest.MonkeyPatch) -> None:
    hvp: Any = autodiff.hvp
    monkeypatch.setattr(autodiff, "hvp", lambda *a, **k: tuple(t.mT for t in hvp(*a, **k)))


def columns_in_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    hessian = spec.autodiff.hessian

    def swapped(f: Any, chosen: Any) -> Any:
        def blocks(*x: Any) -> Any:
            return tuple(zip(*hessian(f, chosen)(*x), strict=True))

        return blocks

    monkeypatch.setattr(spec.autodiff, "hessian", swapped)


PLANTED: list[tuple[Change, str]] = [
    (cotangents_still, "product: by input 0"),
    (constant_moves, "product: by input 0"),
    (transposed, "product: by input 0"),
    (columns_in_rows, "hessian: column 0 of block 2, 0"),
]
"""Bugs, three of the device's and one of the reference's, and what each of them spoils first."""


@pytest.mark.parametrize(("plant", "spoils"), PLANTED, ids=[p.__name__ for p, _ in PLANTED])
def test_a_planted_bug_is_found(
    plant: Change, spoils: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(Violation, match=f"^{spoils}"):
        judge_shared()
