"""softmax, log_softmax and layer_norm, both providers, on inputs for which every step is exact.

Scores are 0 and -1000, with a power of two of zeros in each row: the exponentials are 0 and 1.
Rows for layer_norm are a mean plus or minus one distance, with an eps that completes a square.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product

import pytest
import torch
from torch import Tensor

from fast.errors import Rejected, Unavailable
from fast.kernels.rows import lines, rowwise
from fast.ops import OPS, layer_norm
from tests.support import same_where_it_fits
from tests.turns import in_turns

pytestmark = pytest.mark.slow

PROVIDERS = ("triton", "aten")
DTYPES = (torch.float32, torch.bfloat16)
LENGTHS = [1, 2, 7, 255, 256, 257, 600]
INF, NAN = math.inf, math.nan


def integers(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-2, 3, shape, generator=generator).float()


def scores(rows: int, n: int) -> Tensor:
    """Return rows of -1000 with 1, 2, 4 or 8 zeros in each."""
    x = torch.full((rows, n), -1000.0)
    generator = torch.Generator().manual_seed(n)
    for i in range(rows):
        zeros = min(2 ** (i % 4), 2 ** int(math.log2(n)))
        x[i, torch.randperm(n, generator=generator)[:zeros]] = 0
    return x


def layouts(x: Tensor) -> Iterator[Tensor]:
    """Yield one matrix as it is, transposed in memory, spread out, and at an odd offset."""
    yield x
    yield x.t().contiguous().t()
    yield torch.stack([x, torch.full_like(x, NAN)], -1)[..., 0]
    yield torch.cat([x.new_full((1,), NAN), x.reshape(-1)])[1:].view(x.shape)


def softmax_gradient(x: Tensor, g: Tensor) -> Tensor:
    z = x.double().softmax(-1)
    return z * (g - (g * z).sum(-1, keepdim=True))


def log_softmax_gradient(x: Tensor, g: Tensor) -> Tensor:
    return g - x.double().softmax(-1) * g.sum(-1, keepdim=True)


GRADIENTS = {"softmax": softmax_gradient, "log_softmax": log_softmax_gradient}


@pytest.mark.parametrize(
    ("n", "dtype", "provider"), in_turns(product(LENGTHS, DTYPES, PROVIDERS), 3)
)
def test_softmax_and_both_vjps(n: int, provider: str, dtype: torch.dtype) -> None:
    x, g = scores(5, n).to(dtype), integers(5, n).to(dtype)
    one = torch.ones((), dtype=dtype).expand(5, n)
    for axis in (-1, 0):
        for xs, gs in zip(layouts(x), (g, *list(layouts(g))[1:3], one), strict=True):
            xa, ga = (xs, gs) if axis else (xs.t(), gs.t())
            for op, gradient in (
                ("softmax", softmax_gradient),
                ("log_softmax", log_softmax_gradient),
            ):
                value, vjp = OPS[op].hosts(provider)
                z, saved = value(xa, axis=axis)
                (dx,) = vjp(saved, ga, (True,))
                assert dx.dtype is z.dtype is dtype
                assert same_where_it_fits(dx if axis else dx.t(), gradient(xs, gs.double()))
                if op == "softmax":
                    assert same_where_it_fits(z if axis else z.t(), xs.double().softmax(-1))
    assert vjp(saved, ga, (False,)) == (None,)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("n", [1, 2, 3, 49, 255, 257, 4097])
def test_equal_scores_have_equal_probabilities(n: int, provider: str) -> None:
    """The quotient is correctly rounded, and the shift by the maximum is exact."""
    share = torch.tensor(float(Fraction(1, n))).float()
    for level in (0.0, -3.0, 2.0**30):
        x = torch.full((3, n), level)
        z, _ = OPS["softmax"].hosts(provider)[0](x)
        assert torch.equal(z, share.expand(3, n))
        z, _ = OPS["log_softmax"].hosts(provider)[0](x)
        assert torch.equal(z, z[0, 0].expand(3, n))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_one_class_is_certain_and_learns_nothing(op: str, provider: str) -> None:
    value, vjp = OPS[op].hosts(provider)
    for level in (0.0, 1e30, -3.7):
        z, saved = value(torch.full((5, 1), level))
        assert torch.equal(z, torch.full((5, 1), float(op == "softmax")))
        (dx,) = vjp(saved, torch.randn(5, 1), (True,))
        assert torch.equal(dx, torch.zeros(5, 1))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_impossible_classes(provider: str) -> None:
    softmax, vjp = OPS["softmax"].hosts(provider)
    log_softmax, log_vjp = OPS["log_softmax"].hosts(provider)
    # The first blocks of a long row may hold nothing that is possible.
    x = torch.full((2, 1100), -INF)
    x[:, 1000:1064] = torch.tensor([[5.0], [-900.0]])
    z, saved = softmax(x)
    assert torch.equal(z, (x != -INF) / 64)
    g = integers(2, 1100)
    assert torch.equal(vjp(saved, g, (True,))[0].double(), softmax_gradient(x, g.double()))
    z, saved = log_softmax(x)
    assert torch.equal(z == -INF, x == -INF)
    assert torch.equal(log_vjp(saved, g, (True,))[0].double(), log_softmax_gradient(x, g.double()))
    nothing = torch.full((2, 300), -INF)
    assert softmax(nothing)[0].isnan().all()
    assert log_softmax(nothing)[0].isnan().all()


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("at", [0, 299, 599])
def test_nan_and_infinity_reach_their_row_and_no_other(at: int, provider: str) -> None:
    for bad in (NAN, INF):
        x = torch.zeros(3, 600)
        x[1, at] = bad
        for op in ("softmax", "log_softmax"):
            z, saved = OPS[op].hosts(provider)[0](x)
            assert z[1].isnan()[at if bad == INF else slice(None)].all()
            (dx,) = OPS[op].hosts(provider)[1](saved, torch.ones(3, 600), (True,))
            for t in (z, dx):
                assert t[::2].isfinite().all()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_maximum_that_rises_from_block_to_block(provider: str) -> None:
    x = torch.arange(5).repeat_interleave(256)[None, :] * 1000.0
    z, _ = OPS["softmax"].hosts(provider)[0](x)
    assert torch.equal(z, (x == 4000) / 256)


@pytest.mark.parametrize(("n", "dtype"), [(1024, torch.float32), (2048, torch.bfloat16)])
def test_the_wide_tile_and_the_narrow_one_agree(n: int, dtype: torch.dtype) -> None:
    rows = 2**16 // n
    x, g = scores(rows, n).to(dtype), integers(rows, n).to(dtype)
    assert rowwise.tile(rowwise.view(x, -1))["UNIT"] == 16 // x.element_size()
    for op in ("softmax", "log_softmax"):
        value, vjp = OPS[op].hosts("triton")
        results = []
        for xs, gs in zip(list(layouts(x))[::3], list(layouts(g))[::3], strict=True):
            z, saved = value(xs)
            results.append((z, *vjp(saved, gs, (True,))))
        for wide, narrow in zip(*results, strict=True):
            assert torch.equal(wide, narrow)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("axis", [0, 1, -2, -1])
def test_any_axis_of_any_layout(axis: int, provider: str) -> None:
    x = scores(30, 8).reshape(5, 6, 4, 2).permute(2, 0, 3, 1)
    z, _ = OPS["softmax"].hosts(provider)[0](x, axis=axis)
    again, _ = OPS["softmax"].hosts(provider)[0](x.movedim(axis, -1).contiguous())
    assert torch.equal(z.movedim(axis, -1), again)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_softmax_of_nothing(shape: tuple[int, ...], provider: str) -> None:
    for op in ("softmax", "log_softmax"):
        for axis in range(len(shape)):
            value, vjp = OPS[op].hosts(provider)
            z, saved = value(torch.empty(shape), axis=axis)
            (dx,) = vjp(saved, torch.empty(shape), (True,))
            assert z.shape == dx.shape == shape


def normalized(eps: float) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def run(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        root = (centred.square().mean(-1, keepdim=True) + eps).sqrt()
        return centred / root * gamma + beta

    return run


def balanced(rows: int, n: int, mean: float, distance: float) -> Tensor:
    signs = torch.ones(rows, n)
    signs[:, ::2] = -1
    return mean + distance * signs[:, torch.randperm(n, generator=torch.Generator().manual_seed(n))]


SHAPES = ((1, 2), (5, 8), (3, 256), (9, 512), (2, 1024), (64, 1024))


@pytest.mark.parametrize(
    ("shape", "dtype", "provider"), in_turns(product(SHAPES, DTYPES, PROVIDERS), 3)
)
def test_layer_norm_and_its_vjp(shape: tuple[int, int], provider: str, dtype: torch.dtype) -> None:
    rows, n = shape
    value, vjp = OPS["layer_norm"].hosts(provider)
    for mean, distance, eps in ((0.0, 3.0, 7.0), (12.0, 0.5, 0.75)):
        x, g = balanced(rows, n, mean, distance).to(dtype), integers(rows, n).to(dtype)
        gamma, beta = integers(n).to(dtype), integers(n).flip(0).to(dtype)
        doubles = [t.double().requires_grad_() for t in (x, gamma, beta)]
        truth = normalized(eps)(*doubles)
        gradients = torch.autograd.grad(truth, doubles, g.double())
        spread = torch.stack([gamma, gamma], -1)[:, 0]
        for k, (xs, gs) in enumerate(zip(layouts(x), [*layouts(g)][::-1], strict=True)):
            if k and rows * n > 2**12:
                break
            OPS["layer_norm"].check(xs, spread if k else gamma, beta, eps=eps)
            z, saved = value(xs, spread if k else gamma, beta, eps=eps)
            assert z.dtype is dtype
            assert same_where_it_fits(z, truth.detach())
            for found, wanted in zip(vjp(saved, gs, (True,) * 3), gradients, strict=True):
                assert found.dtype is dtype
                assert same_where_it_fits(found, wanted)
    assert vjp(saved, gs, (False,) * 3) == (None,) * 3


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("shape", "span"), [((5, 2, 4), 2), ((3, 2, 4, 64), 3), ((2, 8), 2)])
def test_layer_norm_of_several_axes(shape: tuple[int, ...], span: int, provider: str) -> None:
    """They are one row; parameters may lie in memory as they like."""
    value, vjp = OPS["layer_norm"].hosts(provider)
    n = math.prod(shape[-span:])
    rows = math.prod(shape) // n
    x, g = balanced(rows, n, 12.0, 0.5), integers(rows, n)
    gamma, beta = integers(n), integers(n).flip(0)
    z, saved = value(x, gamma, beta, eps=0.75)
    own = shape[-span:]
    parts = (gamma.view(own).mT.contiguous().mT, beta.view(own))
    spread, kept = value(x.view(shape), *parts, eps=0.75)
    assert torch.equal(spread, z.view(shape))
    found, wanted = vjp(kept, g.view(shape), (True,) * 3), vjp(saved, g, (True,) * 3)
    for one, other, whole in zip(found, wanted, (shape, own, own), strict=True):
        assert torch.equal(one, other.view(whole))


def test_partials_of_several_tiles_and_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each program adds up its tiles, in registers for the first block and in memory beyond."""
    monkeypatch.setattr(lines, "PROGRAMS", 2)
    x, g, ones = balanced(21, 512, 0.0, 3.0), integers(21, 512), torch.ones(512)
    _, saved = layer_norm.value(x, ones, ones, eps=7.0)
    _, dgamma, dbeta = layer_norm.vjp(saved, g, (True,) * 3)
    assert torch.equal(dgamma, (g * x / 4).sum(0))
    assert torch.equal(dbeta, g.sum(0))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_layer_norm_of_one_entry_is_beta(provider: str) -> None:
    value, vjp = OPS["layer_norm"].hosts(provider)
    x, gamma, beta = torch.randn(5, 1) * 1e3, torch.tensor([1.7]), torch.tensor([-0.3])
    z, saved = value(x, gamma, beta)
    assert torch.equal(z, beta.expand(5, 1))
    g = torch.randn(5, 1)
    dx, dgamma, dbeta = vjp(saved, g, (True,) * 3)
    assert torch.equal(dx, torch.zeros(5, 1))
    assert torch.equal(dgamma, torch.zeros(1))
    assert torch.equal(dbeta, vjp(saved, g, (False, False, True))[2])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("n", [3, 49, 64, 300])
def test_layer_norm_of_a_constant_slice_is_beta(n: int, provider: str, dtype: torch.dtype) -> None:
    value, vjp = OPS["layer_norm"].hosts(provider)
    x = torch.full((4, n), 1e4).to(dtype)
    gamma, beta = torch.randn(n).to(dtype), torch.randn(n).to(dtype)
    z, saved = value(x, gamma, beta)
    assert torch.equal(z, beta.expand(4, n))
    _, dgamma, _ = vjp(saved, torch.randn(4, n).to(dtype), (True,) * 3)
    assert torch.equal(dgamma, torch.zeros(n, dtype=dtype))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_layer_norm_of_nothing(shape: tuple[int, ...], provider: str) -> None:
    value, vjp = OPS["layer_norm"].hosts(provider)
    line = torch.ones(shape[-1])
    z, saved = value(torch.empty(shape), line, line)
    dx, dgamma, dbeta = vjp(saved, torch.empty(shape), (True,) * 3)
    assert z.shape == dx.shape == shape
    assert torch.equal(dgamma, 0 * line)
    assert torch.equal(dbeta, 0 * line)


def test_layer_norm_of_a_vector() -> None:
    x = torch.tensor([3.0, -3.0])
    for provider in PROVIDERS:
        value, vjp = OPS["layer_norm"].hosts(provider)
        z, saved = value(x, torch.ones(2), torch.zeros(2), eps=7.0)
        assert torch.equal(z, x / 4)
        _, dgamma, dbeta = vjp(saved, torch.ones(2), (True,) * 3)
        assert torch.equal(dgamma, x / 4)
        assert torch.equal(dbeta, torch.ones(2))


def test_dtypes_and_long_rows_are_refused() -> None:
    x, line = torch.ones(2, 3), torch.ones(3)
    for op in ("softmax", "log_softmax"):
        with pytest.raises(Rejected, match=f"{op}: inputs are float32"):
            OPS[op].check(x.int())
        with pytest.raises(Unavailable, match="float64"):
            OPS[op].value(x.double())
    with pytest.raises(Rejected, match="layer_norm: inputs have one dtype"):
        OPS["layer_norm"].check(x, line, line.bfloat16())
    with pytest.raises(Unavailable, match="1073741824 elements in a row"):
        rowwise.tile(torch.ones(1).as_strided((1, 2**30 + 1, 1), (0, 0, 0)))
