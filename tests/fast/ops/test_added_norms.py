"""add_layer_norm and add_rms_norm, both providers, on rows for which every step is exact.

A row is a mean plus or minus one distance (for add_rms_norm the mean is 0), shared out to x and the
residual, with an eps that completes a square.
"""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from fast import CompiledSession, Session
from fast.errors import Rejected, Unavailable
from fast.kernels.rows import lines
from fast.ops import OPS
from tests.support import same_where_it_fits
from tests.turns import in_turns

pytestmark = pytest.mark.slow

NAMES = ("add_layer_norm", "add_rms_norm")
PROVIDERS = ("triton", "aten")
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
SHAPES = (((1, 2), 1), ((5, 8), 1), ((2, 1024), 1), ((64, 1024), 1))
TWO_AXES = (((3, 2, 128), 2), ((2, 4, 2, 8), 3))
CAME = ((True, True), (True, False), (False, True))
"""Which of the results a cotangent came to."""


def integers(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-2, 3, shape, generator=generator).float()


def terms(name: str, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return x and a residual: of their sum, half of a row is 3 above its mean, and half below."""
    n = shape[-1]
    row = 3.0 * torch.tensor([1.0, -1.0]).repeat(n // 2)
    summed = row.expand(shape) + (2.0 if name == "add_layer_norm" else 0.0)
    residual = integers(*shape)
    return summed - residual, residual


def parameters(name: str, shape: tuple[int, ...]) -> list[Tensor]:
    return [integers(*shape) for _ in range(2 if name == "add_layer_norm" else 1)]


def truth(
    name: str, inputs: list[Tensor], cotangents: tuple[Tensor, Tensor]
) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """Return what the definition gives in double: both results, and all gradients."""
    doubles = [t.double().requires_grad_() for t in inputs]
    x, residual, *line = doubles
    axes, summed = tuple(range(-line[0].dim(), 0)), x + residual
    y = summed
    if name == "add_layer_norm":
        y = summed - summed.mean(axes, keepdim=True)
    z = y / (y.square().mean(axes, keepdim=True) + 7.0).sqrt() * line[0] + sum(line[1:])
    seeds = [g.double() for g in cotangents]
    found = torch.autograd.grad((z, summed), doubles, seeds)
    return [z.detach(), summed.detach()], found


CASES = in_turns(product(NAMES, SHAPES + TWO_AXES, DTYPES, PROVIDERS, CAME), 12)


@pytest.mark.parametrize(("name", "called", "dtype", "provider", "came"), CASES)
def test_both_results_and_their_gradients(
    name: str,
    called: tuple[tuple[int, ...], int],
    dtype: torch.dtype,
    provider: str,
    came: tuple[bool, bool],
) -> None:
    shape, span = called
    inputs = [t.to(dtype) for t in (*terms(name, shape), *parameters(name, shape[-span:]))]
    g, h = integers(*shape).to(dtype), integers(*shape).flip(0).to(dtype)
    handed = g if came[0] else None, h if came[1] else None
    seeds = tuple(t if there else 0 * t for t, there in zip((g, h), came, strict=True))
    results, gradients = truth(name, inputs, (seeds[0], seeds[1]))
    value, vjp = OPS[name].hosts(provider)
    scattered = [t.mT.contiguous().mT if t.dim() > 1 else t for t in inputs]
    for given in (inputs, scattered):
        OPS[name].check(*given, eps=7.0)
        made, saved = value(*given, eps=7.0)
        found = vjp(saved, handed, (True,) * len(given))
        for mine, wanted in zip((*made, *found), (*results, *gradients), strict=True):
            assert mine.dtype is dtype and mine.shape == wanted.shape
            assert same_where_it_fits(mine, wanted)
    nothing = (None,) * len(inputs)
    assert vjp(saved, handed, (False,) * len(inputs)) == nothing
    lone = vjp(saved, handed, (False, True, *(False for _ in inputs[2:])))
    assert lone[0] is None and torch.equal(lone[1], found[1])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_sum_is_normalized_before_it_is_rounded(name: str, provider: str) -> None:
    """In bf16 each sum is one that rounds to 256: of these nothing would be left to centre."""
    x = torch.tensor([[256.0, 256.0]]).bfloat16()
    residual = torch.tensor([[0.0, 1.0]]).bfloat16()
    line = [torch.tensor([1.0, 3.0]).bfloat16()] * (len(OPS[name].inputs) - 2)
    (z, summed), saved = OPS[name].hosts(provider)[0](x, residual, *line, eps=0.75)
    assert summed.tolist() == [[256.0, 256.0]]
    if name == "add_layer_norm":
        assert z.tolist() == [[0.5, 4.5]]
        seeds = torch.tensor([[2.0, 0.0]]).bfloat16(), None
        _, _, dgamma, _ = OPS[name].hosts(provider)[1](saved, seeds, (True,) * 4)
        assert dgamma.tolist() == [-1.0, 0.0]


@pytest.mark.parametrize("name", NAMES)
def test_partials_of_several_tiles_and_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each program adds up its tiles, in registers for the first block and in memory beyond."""
    x, residual = terms(name, (21, 512))
    line = [torch.ones(512)] * (len(OPS[name].inputs) - 2)
    g, normal = integers(21, 512), (x + residual - (2 if len(line) == 2 else 0)) / 4
    for programs in (1, 2):
        monkeypatch.setattr(lines, "PROGRAMS", programs)
        value, vjp = OPS[name].hosts("triton")
        _, saved = value(x, residual, *line, eps=7.0)
        found = vjp(saved, (g, None), (True,) * (2 + len(line)))
        assert torch.equal(found[2], (g * normal).sum(0))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("name", "shape"), in_turns(product(NAMES, [(0,), (0, 3), (3, 0)]), 2))
def test_nothing_stays_nothing(name: str, shape: tuple[int, ...], provider: str) -> None:
    value, vjp = OPS[name].hosts(provider)
    empty, line = torch.empty(shape), [torch.ones(shape[-1])] * (len(OPS[name].inputs) - 2)
    (z, summed), saved = value(empty, empty, *line)
    found = vjp(saved, (empty, empty), (True,) * (2 + len(line)))
    assert all(t.shape == shape for t in (z, summed, *found[:2]))
    assert all(torch.equal(one, 0 * line[0]) for one in found[2:])


@pytest.mark.parametrize("name", NAMES)
def test_what_does_not_fit_is_refused(name: str) -> None:
    x, check = torch.ones(2, 3), OPS[name].check
    line = [torch.ones(3)] * (len(OPS[name].inputs) - 2)
    with pytest.raises(Rejected, match=rf"{name} C4: .* got \(3,\) and \(2, 3\)"):
        check(x, x[0], *line)
    with pytest.raises(Rejected, match=f"{name}: inputs have one dtype"):
        check(x, x.bfloat16(), *line)
    with pytest.raises(Rejected, match=f"{name} C2"):
        check(x, x, *(torch.ones(2) for _ in line))
    wide = [t.double() for t in (x, x, *line)]
    with pytest.raises(Unavailable, match="float64"):
        OPS[name].hosts("triton")[0](*wide)


BLOCKS = {
    "both results": lambda s, z, summed: s.sum(s.mul(z, s.square(summed))),
    "the norm alone": lambda s, z, summed: s.sum(s.square(z)),
    "the sum alone": lambda s, z, summed: s.sum(s.square(summed)),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("used", BLOCKS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_two_layers_in_a_session(name: str, used: str, provider: str) -> None:
    """Both sessions, and the op taken apart; x is a residual too, and one tensor is both terms."""
    norm = name.removeprefix("add_")
    found = []
    for kind, fused in ((Session, True), (CompiledSession, True), (Session, False)):
        s = kind(provider=provider, device="cpu")
        x = s.param((torch.arange(6.0).reshape(2, 3) - 2) / 4)
        line = [s.param([1.0, 0.5, 2.0]) for _ in range(len(OPS[name].inputs) - 2)]

        def block(ops: object, x: object, *line: object, fused: bool = fused) -> object:
            if fused:
                z, summed = getattr(ops, name)(x, x, *line)
                z, summed = getattr(ops, name)(z, summed, *line)
            else:
                summed = ops.add(x, x)
                z = getattr(ops, norm)(summed, *line)
                summed = ops.add(z, summed)
                z = getattr(ops, norm)(summed, *line)
            return BLOCKS[used](ops, z, summed)

        kept = []
        for _ in range(3):
            out = s.run(block, [x, *line], [])
            with s.backward(out) as grads:
                kept += [s.value(out), *(s.grad(grads, p) for p in (x, *line))]
                s.sgd_step(2.0**-6, grads)
        found.append(kept)
    eager, replayed, apart = found
    assert all(torch.equal(a, b) for a, b in zip(eager, replayed, strict=True))
    bits = torch.finfo(torch.float32).eps
    for mine, plain in zip(eager, apart, strict=True):
        assert ((mine - plain).abs() <= 64 * bits * (1 + plain.abs())).all()


def test_a_rounded_sum_is_found_again_from_its_terms() -> None:
    """In fp32 the result serves as what is saved; in 16 bits both terms do, which a tape has."""
    for dtype, kept in ((torch.float32, 1), (torch.bfloat16, 2)):
        x, residual = (torch.ones(2, 4, dtype=dtype) for _ in range(2))
        line = torch.ones(4, dtype=dtype)
        (_, summed), saved = OPS["add_rms_norm"].hosts("aten")[0](x, residual, line)
        held = [t for t in saved[:2] if t is not None]
        assert len(held) == kept
        assert all(any(t is one for one in (x, residual, summed)) for t in held)
