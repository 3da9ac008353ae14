"""group_norm, both providers, on groups that are a mean plus or minus one distance.

An eps that completes a square makes every step exact.
"""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from fast.errors import Rejected
from fast.ops import OPS
from tests.support import same_where_it_fits
from tests.turns import in_turns

pytestmark = pytest.mark.slow

PROVIDERS = ("triton", "aten")
DTYPES = (torch.float32, torch.bfloat16)
CALLS = (((2, 4), 2), ((3, 2, 8), 1), ((2, 6, 4, 4), 3), ((2, 4, 1024), 2), ((1, 128, 32), 2),
         ((33, 8, 2), 8), ((1, 8, 2048), 2))  # fmt: skip


def integers(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-2, 3, shape, generator=generator).float()


def balanced(shape: tuple[int, ...], mean: float, distance: float) -> Tensor:
    """Return entries above and below the mean in turn, as many of each in every group."""
    signs = torch.ones(shape).flatten()
    signs[::2] = -1
    return mean + distance * signs.view(shape)


def truth(x: Tensor, gamma: Tensor, beta: Tensor, g: Tensor, groups: int) -> tuple[Tensor, ...]:
    """Return what the definition gives in double: the value and the gradients."""
    doubles = [t.double().requires_grad_() for t in (x, gamma, beta)]
    row = doubles[0].reshape(x.shape[0], groups, -1)
    centred = row - row.mean(-1, keepdim=True)
    normal = centred / (centred.square().mean(-1, keepdim=True) + 0.75).sqrt()
    column = (-1, *(1 for _ in x.shape[2:]))
    z = normal.reshape(x.shape) * doubles[1].view(column) + doubles[2].view(column)
    return z.detach(), *torch.autograd.grad(z, doubles, g.double())


@pytest.mark.parametrize(
    ("called", "dtype", "provider"), in_turns(product(CALLS, DTYPES, PROVIDERS), 4)
)
def test_the_value_and_the_gradients(
    called: tuple[tuple[int, ...], int], dtype: torch.dtype, provider: str
) -> None:
    shape, groups = called
    value, vjp = OPS["group_norm"].hosts(provider)
    x, g = balanced(shape, 12.0, 0.5).to(dtype), integers(*shape).to(dtype)
    gamma, beta = integers(shape[1]).to(dtype), integers(shape[1]).flip(0).to(dtype)
    wanted = truth(x, gamma, beta, g, groups)
    spread = torch.stack([gamma, gamma], -1)[:, 0]
    for xs, line, gs in ((x, gamma, g), (x.mT.contiguous().mT, spread, g.mT.contiguous().mT)):
        OPS["group_norm"].check(xs, line, beta, groups=groups, eps=0.75)
        z, saved = value(xs, line, beta, groups=groups, eps=0.75)
        for found, due in zip((z, *vjp(saved, gs, (True,) * 3)), wanted, strict=True):
            assert found.dtype is dtype
            assert same_where_it_fits(found, due)
    assert vjp(saved, g, (False,) * 3) == (None,) * 3


@pytest.mark.parametrize("provider", PROVIDERS)
def test_groups_of_one_entry_are_beta(provider: str) -> None:
    value, vjp = OPS["group_norm"].hosts(provider)
    x, gamma, beta = torch.randn(5, 3) * 1e3, torch.randn(3), torch.randn(3)
    z, saved = value(x, gamma, beta, groups=3)
    dx, dgamma, dbeta = vjp(saved, torch.ones(5, 3), (True,) * 3)
    assert torch.equal(z, beta.expand(5, 3))
    assert torch.equal(dx, torch.zeros(5, 3)) and torch.equal(dgamma, torch.zeros(3))
    assert torch.equal(dbeta, torch.full((3,), 5.0))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("shape", [(2, 4, 64), (3, 8), (1, 2, 2048)])
def test_a_large_offset_keeps_the_digits_of_its_spread(
    shape: tuple[int, ...], provider: str
) -> None:
    """The mean of squares less the square of the mean would leave none of them."""
    value, vjp = OPS["group_norm"].hosts(provider)
    x, g, line = balanced(shape, 1e4, 0.5), integers(*shape), torch.ones(shape[1])
    z, saved = value(x, line, 0 * line, groups=2, eps=0.75)
    assert torch.equal(z, x - 1e4)
    due = truth(x, line, 0 * line, g, 2)
    for found, wanted in zip(vjp(saved, g, (True,) * 3), due[1:], strict=True):
        assert same_where_it_fits(found, wanted)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("shape", [(0, 4), (2, 0), (2, 4, 0)])
def test_nothing_stays_nothing(shape: tuple[int, ...], provider: str) -> None:
    value, vjp = OPS["group_norm"].hosts(provider)
    line = torch.ones(shape[1])
    z, saved = value(torch.empty(shape), line, line, groups=2)
    dx, dgamma, dbeta = vjp(saved, torch.empty(shape), (True,) * 3)
    assert z.shape == dx.shape == shape
    assert torch.equal(dgamma, 0 * line) and torch.equal(dbeta, 0 * line)


def test_what_does_not_fit_is_refused() -> None:
    x, line = torch.ones(2, 6, 3), torch.ones(6)
    for groups in (4, 0, True):
        with pytest.raises(Rejected, match="group_norm C2: groups is an integer >= 1"):
            OPS["group_norm"].check(x, line, line, groups=groups)
    with pytest.raises(Rejected, match=r"group_norm C3: .* \(6,\), got \(3,\) and \(6,\)"):
        OPS["group_norm"].check(x, torch.ones(3), line, groups=2)
