"""batch_norm, both providers, on channels that are a mean plus or minus one distance.

An eps that completes a square makes every step exact.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from fast.errors import Rejected
from fast.kernels.rows import batchwise
from fast.ops import OPS
from tests.support import same_where_it_fits
from tests.turns import in_turns

pytestmark = pytest.mark.slow

PROVIDERS = ("triton", "aten")
DTYPES = (torch.float32, torch.bfloat16)
SHAPES = ((4, 3), (128, 40), (4, 2, 8), (2, 6, 4, 4), (16, 5, 33), (4, 2, 1024), (2, 3, 2048))
GIVEN = (True,) * 3 + (False,) * 2


def integers(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-2, 3, shape, generator=generator).float()


def balanced(shape: tuple[int, ...], mean: float, distance: float) -> Tensor:
    """Return entries above and below the mean by turns of samples, as many of each in a channel."""
    signs = torch.ones(shape)
    signs[::2] = -1
    return mean + distance * signs


def truth(
    inputs: tuple[Tensor, ...], g: Tensor, training: bool, momentum: float
) -> tuple[Tensor, ...]:
    """Return what the definition gives in double: value, new statistics, gradients."""
    x, gamma, beta, *held = (t.double().requires_grad_() for t in inputs)
    axes, column = (0, *range(2, x.dim())), (-1, *(1 for _ in x.shape[2:]))
    mean, var = (h.detach() for h in held)
    new = mean, var
    if training:
        mean = x.mean(axes)
        var = (x - mean.view(column)).square().mean(axes)
        n = x.shape[0] * x.shape[2:].numel()
        batch = mean.detach(), var.detach() * n / (n - 1)
        pairs = zip(new, batch, strict=True)
        new = tuple(h * (1 - momentum) + b * momentum for h, b in pairs)  # type: ignore[assignment]
    normal = (x - mean.view(column)) / (var.view(column) + 0.75).sqrt()
    z = normal * gamma.view(column) + beta.view(column)
    return z.detach(), *new, *torch.autograd.grad(z, (x, gamma, beta), g.double())


@pytest.mark.parametrize(
    ("shape", "training", "dtype", "provider"),
    in_turns(product(SHAPES, (True, False), DTYPES, PROVIDERS), 4),
)
def test_the_value_and_the_gradients(
    shape: tuple[int, ...], training: bool, dtype: torch.dtype, provider: str
) -> None:
    value, vjp = OPS["batch_norm"].hosts(provider)
    x, g = balanced(shape, 12.0, 0.5).to(dtype), integers(*shape).to(dtype)
    gamma, beta = integers(shape[1]).to(dtype), integers(shape[1]).flip(0).to(dtype)
    held = 11.5 + 0 * gamma.float(), 0.25 + 0 * gamma.float()
    wanted = truth((x, gamma, beta, *held), g, training, 1.0)
    spread = torch.stack([gamma, gamma], -1)[:, 0]
    told: Any = {"training": training, "momentum": 1.0, "eps": 0.75}
    for xs, line, gs in ((x, gamma, g), (x.mT.contiguous().mT, spread, g.mT.contiguous().mT)):
        OPS["batch_norm"].check(xs, line, beta, *held, **told)
        (z, *new), saved = value(xs, line, beta, *held, **told)
        assert all(n is None for n in new) != training
        kept = [h if n is None else n for h, n in zip(held, new, strict=True)]
        *gradients, none, neither = vjp(saved, gs, GIVEN)
        assert none is None and neither is None
        assert all(line.dtype is torch.float32 for line in kept)
        for found, due in zip(kept, wanted[1:3], strict=True):
            assert torch.equal(found, due.float())
        for found, due in zip((z, *gradients), (wanted[0], *wanted[3:]), strict=True):
            assert found.dtype is dtype
            assert same_where_it_fits(found, due)
    assert vjp(saved, g, (False,) * 5) == (None,) * 5


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("shape", [(64, 3), (4, 2, 64), (2, 1, 2048)])
def test_a_large_offset_keeps_the_digits_of_its_spread(
    shape: tuple[int, ...], provider: str
) -> None:
    """The mean of squares less the square of the mean would leave none of them."""
    value, vjp = OPS["batch_norm"].hosts(provider)
    x, g, line = balanced(shape, 1e4, 0.5), integers(*shape), torch.ones(shape[1])
    zero = 0 * line
    (z, mean, var), saved = value(x, line, zero, zero, zero, momentum=1.0, eps=0.75)
    n = shape[0] * torch.Size(shape[2:]).numel()
    assert torch.equal(z, x - 1e4) and torch.equal(mean, 1e4 * line)
    assert torch.equal(var, torch.full_like(line, 0.25 * n) / (n - 1))
    due = truth((x, line, zero, zero, zero), g, True, 1.0)
    for found, wanted in zip(vjp(saved, g, GIVEN), due[3:], strict=False):
        assert same_where_it_fits(found, wanted)


def test_how_a_batch_is_cut_follows_from_its_shape() -> None:
    """As many chunks on every machine, so that their sums are added in one order."""
    for shape in ((128, 64), (10_000, 3), (64, 8, 49), (2, 3, 100_000)):
        x = torch.empty(*shape[:2], *(shape[2:] or (1,)))
        meta, (chunks, blocks), sizes = batchwise.plan(x)
        rows, channels, inner, tiles, each, told = sizes
        assert (rows, channels, inner, told) == (*x.shape, chunks)
        assert chunks <= batchwise.MOST_CHUNKS and (chunks - 1) * each < tiles <= chunks * each
        assert blocks * meta["BLOCK_CHANNELS"] >= channels


@pytest.mark.parametrize("shape", [(4096, 2), (32, 3, 64), (32, 2, 512)])
def test_chunks_add_up_to_what_one_tile_gives(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batchwise, "MOST_CHUNKS", 3)
    value, vjp = OPS["batch_norm"].hosts("triton")
    x, g, line = balanced(shape, 3.0, 0.5), integers(*shape), torch.ones(shape[1])
    n = shape[0] * torch.Size(shape[2:]).numel()
    (z, _, var), saved = value(x, line, line, line, line, momentum=1.0, eps=0.75)
    assert torch.equal(z, x - 2.0)
    assert torch.equal(var, torch.full_like(line, 0.25 * n) / (n - 1))
    due = truth((x, line, line, line, line), g, True, 1.0)
    for found, wanted in zip(vjp(saved, g, GIVEN), due[3:], strict=False):
        assert same_where_it_fits(found, wanted)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("shape", [(0, 4), (2, 0), (2, 4, 0)])
def test_nothing_stays_nothing(shape: tuple[int, ...], provider: str) -> None:
    value, vjp = OPS["batch_norm"].hosts(provider)
    x, line = torch.ones(shape), torch.ones(shape[1])
    (z, *new), saved = value(x, line, line, line, line, training=False)
    dx, dgamma, dbeta, *_ = vjp(saved, torch.ones(shape), GIVEN)
    assert z.shape == shape and new == [None, None] and dx is not None and dx.shape == shape
    assert torch.equal(dgamma, 0 * line) and torch.equal(dbeta, 0 * line)


def test_running_statistics_have_the_dtype_of_parameters() -> None:
    x, line = torch.ones(2, 3, dtype=torch.bfloat16), torch.ones(3, dtype=torch.bfloat16)
    check = OPS["batch_norm"].check
    check(x, line, line, line.float(), line.float())
    with pytest.raises(Rejected, match=r"running_var is torch.bfloat16 or torch.float32.*float64"):
        check(x, line, line, line, line.double())
