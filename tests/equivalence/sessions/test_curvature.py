"""Second derivatives: planted bugs, the device's and the reference's, are found.

`python -m equivalence curvature` judges drawn programs; test_examined runs a few rows of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import spec.autodiff
from equivalence.budgets.violation import Violation
from equivalence.sessions.curvature.judge import Curvature
from equivalence.sessions.curvature.programs import (
    by_labels,
    curved,
    distance,
    leaves_of,
)
from equivalence.sessions.texts import Step
from fast import autodiff
from fast.programs import forward


@pytest.mark.parametrize("precision", ["fp64", "fp32"])
def test_every_element_by_labels_has_a_budget(precision: str) -> None:
    ledger = by_labels(0, precision)
    assert (ledger.judged, ledger.unconstrained) == (12 + 12 * 12, 0)


@pytest.mark.parametrize("moving", [(True, True, True), (True, False, False)])
def test_every_element_of_a_distance_is_judged(moving: tuple[bool, ...]) -> None:
    assert distance(1, moving, "fp64").judged == 12


SHARED: list[Step] = [("mul", 0, 2), ("sqrt", 0, 0), ("matmul", 0, 1)]
"""The product of what moves and what does not, which is read twice afterwards."""


def judge_shared() -> None:
    """Judge a product with a vector that has no part at the last leaf, and then all columns."""
    curvature = Curvature(curved(SHARED), leaves_of(1, False), "fp64")
    *vectors, _ = leaves_of(2, False)
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


@pytest.mark.holds("Higher derivatives, and the functions of programs")
@pytest.mark.parametrize(("plant", "spoils"), PLANTED, ids=[p.__name__ for p, _ in PLANTED])
def test_a_planted_bug_is_found(
    plant: Change, spoils: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(Violation, match=f"^{spoils}"):
        judge_shared()
