"""Who wins a tie is a choice of the backend's, and so is the sign of a zero; nothing else is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from equivalence.backends.protocol import Capabilities
from equivalence.cases.call import CaseSpec, Recipe, attribute_pairs
from equivalence.conventions import OURS, UNSAID, Conventions
from equivalence.measure.call import measure
from equivalence.runs.results import Row, RowResult
from equivalence.runs.runner import run_row
from spec.ops import tanh
from tests.equivalence.budgets.others import TORCH, One, axes_of


def shared(tie: Tensor) -> Tensor:
    return tie / tie.sum(-1, keepdim=True)


def first(tie: Tensor) -> Tensor:
    return tie * (tie.cumsum(-1) == 1)


def last(tie: Tensor) -> Tensor:
    return first(tie.flip(-1)).flip(-1)


def whole(tie: Tensor) -> Tensor:
    return tie


class Max(One):
    """The largest entry, whose gradient goes where a function of the ties says."""

    def __init__(
        self,
        share: Callable[[Tensor], Tensor],
        conventions: Conventions = UNSAID,
        as_named: bool = False,
    ) -> None:
        super().__init__("max", largest, self.pulled)
        self.share, self.conventions, self.as_named = share, conventions, as_named

    def capabilities(self) -> Capabilities:
        return Capabilities({"max": ("fp32",)}, TORCH, conventions=self.conventions)

    def pulled(
        self,
        inputs: Sequence[Tensor],
        g: Tensor,
        axes: tuple[int, ...] | None = None,
        keepdims: bool = False,
    ) -> Sequence[Tensor]:
        (x,) = inputs
        reduced = axes_of(x, axes) if self.as_named else sorted(axes_of(x, axes))
        if not reduced or not x.numel():
            return [g.clone().reshape(x.shape)]
        order = (*(a for a in range(x.dim()) if a not in reduced), *reduced)
        moved = x.permute(order)
        rows = moved.flatten(x.dim() - len(reduced))
        tie = (rows == rows.amax(-1, keepdim=True)) | rows.isnan()
        seed = g.reshape(rows.shape[:-1])[..., None]
        share = self.share(tie.float())
        back = torch.where(share > 0, share * seed, 0.0).reshape(moved.shape)
        return [back.permute([order.index(a) for a in range(x.dim())]).contiguous()]


def largest(x: Tensor, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
    if axes == ():
        return x.clone()
    return torch.amax(x, dim=axes_of(x, axes), keepdim=keepdims)


def run(backend: object, row: Row) -> RowResult:
    return run_row(backend, row, counted=12, seed=0, findings=())


@pytest.mark.parametrize(
    ("share", "conventions", "status"),
    [
        (shared, UNSAID, "conformant"),
        (first, UNSAID, "conformant"),
        (last, UNSAID, "conformant"),
        (whole, UNSAID, "nonconformant"),
        (first, Conventions(ties="first"), "conformant"),
        (last, Conventions(ties="first"), "nonconformant"),
        (first, OURS, "nonconformant"),
        (shared, OURS, "conformant"),
    ],
)
def test_a_tie_goes_where_the_backend_says(
    share: Callable[[Tensor], Tensor], conventions: Conventions, status: str
) -> None:
    result = run(Max(share, conventions), Row("max", "vjp", "fp32"))
    assert result.status == status, result.failures


@pytest.mark.parametrize("as_named", [False, True])
@pytest.mark.parametrize("share", [first, last])
def test_the_first_of_several_axes_may_be_that_by_their_names(
    share: Callable[[Tensor], Tensor], as_named: bool
) -> None:
    axes = attribute_pairs({"axes": (-1, -3)})
    numbers = (Recipe("ties", 1),)
    case = CaseSpec("max", "vjp", "fp32", ((3, 4, 5),), numbers, axes, Recipe("normal", 2))
    backend = Max(share, as_named=as_named)
    outcome = measure(backend, case, backend.capabilities().contract("max", "fp32"))
    assert outcome.judged == 60 and not outcome.failed, outcome.detail


class Zeros(One):
    """Products that have lost the sign of zero."""

    def __init__(self, conventions: Conventions) -> None:
        super().__init__(tanh.op.name, lambda x: torch.tanh(x) + 0.0)
        self.conventions = conventions

    def capabilities(self) -> Capabilities:
        return Capabilities({tanh.op.name: ("fp32",)}, TORCH, conventions=self.conventions)


@pytest.mark.parametrize(("conventions", "failures"), [(UNSAID, 0), (OURS, 1)])
def test_the_sign_of_a_zero_is_judged_where_it_is_declared(
    conventions: Conventions, failures: int
) -> None:
    assert len(run(Zeros(conventions), Row(tanh.op.name, "value", "fp32")).failures) == failures


@pytest.mark.parametrize("op", ["maximum", "minimum"])
@pytest.mark.parametrize("side", [0, 1])
def test_one_side_may_have_all_of_a_tie(op: str, side: int) -> None:
    def pulled(inputs: Sequence[Tensor], g: Tensor) -> Sequence[Tensor]:
        x, y = inputs
        wins = (x > y if op == "maximum" else x < y) | x.isnan()
        other = (y > x if op == "maximum" else y < x) | y.isnan()
        tie = x == y
        both = wins | (x.isnan() | y.isnan()), other | (x.isnan() | y.isnan())
        one, two = (w | tie if k == side else w for k, w in enumerate(both))
        return [torch.where(one, g, 0.0), torch.where(two, g, 0.0)]

    backend = One(op, getattr(torch, op), pulled)
    result = run(backend, Row(op, "vjp", "fp32"))
    assert result.status == "conformant", result.failures
