"""rms_norm, both providers, on rows of one magnitude: every step is exact.

An eps that completes a square makes the root a power of two.
"""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from fast.errors import Rejected, Unavailable
from fast.kernels.rows import lines
from fast.ops import OPS, rms_norm
from tests.support import same_where_it_fits
from tests.turns import in_turns

pytestmark = pytest.mark.slow

PROVIDERS = ("triton", "aten")
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
SHAPES = (((1, 2), 1), ((5, 8), 1), ((9, 512), 1), ((2, 1024), 1), ((64, 1024), 1))
TWO_AXES = (((3, 2, 128), 2), ((2, 4, 2, 8), 3), ((8,), 1))


def integers(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-2, 3, shape, generator=generator).float()


def signs(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(len(shape))
    return torch.randint(0, 2, shape, generator=generator).float() * 2 - 1


def gradients(x: Tensor, gamma: Tensor, g: Tensor, eps: float) -> tuple[Tensor, ...]:
    """Return what the definition gives in double: the value and both gradients."""
    doubles = [t.double().requires_grad_() for t in (x, gamma)]
    axes = tuple(range(-gamma.dim(), 0))
    root = (doubles[0].square().mean(axes, keepdim=True) + eps).sqrt()
    truth = doubles[0] / root * doubles[1]
    return truth.detach(), *torch.autograd.grad(truth, doubles, g.double())


@pytest.mark.parametrize(
    ("called", "dtype", "provider"), in_turns(product(SHAPES + TWO_AXES, DTYPES, PROVIDERS), 4)
)
def test_the_value_and_the_gradients(
    called: tuple[tuple[int, ...], int], dtype: torch.dtype, provider: str
) -> None:
    shape, span = called
    value, vjp = OPS["rms_norm"].hosts(provider)
    x, g = (3 * signs(*shape)).to(dtype), integers(*shape).to(dtype)
    gamma = integers(*shape[-span:]).to(dtype)
    truth = gradients(x, gamma, g, 7.0)
    scattered = (t.mT.contiguous().mT if t.dim() > 1 else t for t in (x, gamma, g))
    for xs, line, gs in ((x, gamma, g), tuple(scattered)):
        OPS["rms_norm"].check(xs, line, eps=7.0)
        z, saved = value(xs, line, eps=7.0)
        for found, wanted in zip((z, *vjp(saved, gs, (True, True))), truth, strict=True):
            assert found.dtype is dtype
            assert same_where_it_fits(found, wanted)
    assert vjp(saved, g, (False, False)) == (None, None)


def test_partials_of_several_tiles_and_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each program adds up its tiles, in registers for the first block and in memory beyond."""
    x, g = 3 * signs(21, 512), integers(21, 512)
    for programs in (1, 2):
        monkeypatch.setattr(lines, "PROGRAMS", programs)
        _, saved = rms_norm.value(x, torch.ones(512), eps=7.0)
        _, dgamma = rms_norm.vjp(saved, g, (True, True))
        assert dgamma is not None and torch.equal(dgamma, (g * x / 4).sum(0))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_nothing_stays_nothing(shape: tuple[int, ...], provider: str) -> None:
    value, vjp = OPS["rms_norm"].hosts(provider)
    gamma = torch.ones(shape[-1])
    z, saved = value(torch.empty(shape), gamma)
    dx, dgamma = vjp(saved, torch.empty(shape), (True, True))
    assert z.shape == dx.shape == shape
    assert torch.equal(dgamma, 0 * gamma)


def test_what_does_not_fit_is_refused() -> None:
    x, check = torch.ones(2, 3), OPS["rms_norm"].check
    with pytest.raises(Rejected, match=r"rms_norm C2: .* got \(2, 3\) and \(2,\)"):
        check(x, torch.ones(2))
    with pytest.raises(Rejected, match="rms_norm: inputs have one dtype"):
        check(x, torch.ones(3).bfloat16())
    with pytest.raises(Unavailable, match="float64"):
        rms_norm.value(x.double(), torch.ones(3).double())
