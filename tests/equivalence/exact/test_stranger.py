"""A stranger's kernel, with a host of its own, is run on exact numbers against a page."""

from __future__ import annotations

import os

os.environ.setdefault("TRITON_INTERPRET", "1")

from typing import Any

import pytest
import torch

from equivalence.exact.points import Verdict, standing
from fast.device.mode import tl, triton
from spec.ops import OPS


@triton.jit
def _online_softmax(z, x, n, RESCALED: tl.constexpr, BLOCK: tl.constexpr):
    start = tl.program_id(0) * n
    lane = tl.arange(0, BLOCK)
    maximum = float("-inf")
    total = 0.0
    for at in range(0, n, BLOCK):
        here = tl.load(x + start + at + lane, mask=at + lane < n, other=float("-inf"))
        larger = tl.maximum(maximum, tl.max(here, 0))
        if RESCALED:
            total = total * tl.exp(maximum - larger)
        total += tl.sum(tl.exp(here - larger), 0)
        maximum = larger
    for at in range(0, n, BLOCK):
        inside = at + lane < n
        here = tl.load(x + start + at + lane, mask=inside, other=0.0)
        tl.store(z + start + at + lane, tl.exp(here - maximum) / total, mask=inside)


def softmax(x: torch.Tensor, rescaled: bool) -> torch.Tensor:
    """Normalize the rows of a matrix, in one pass for the sums."""
    z = torch.empty_like(x)
    _online_softmax[(x.shape[0],)](z, x, x.shape[1], RESCALED=rescaled, BLOCK=4)
    return z


def judged(rescaled: bool, homomorphism: bool = True) -> Verdict:
    with standing(seed=1, homomorphism=homomorphism) as point:
        (x,) = point.draw((3, 11))
        z = softmax(x.memory, rescaled)
        point.same("z", z, OPS["softmax"](x.numbers))
        return point.verdict()


def test_a_right_kernel_equals_the_page() -> None:
    verdict = judged(rescaled=True)
    assert verdict.elements == 33 and not verdict.differences, verdict.differences
    assert verdict.bound is not None and 0 < verdict.bound < 2.0**-40


def test_a_wrong_kernel_differs() -> None:
    (difference,) = judged(rescaled=False).differences
    assert "entries differ" in difference


def test_a_kernel_that_rescales_needs_a_homomorphism() -> None:
    (difference,) = judged(rescaled=True, homomorphism=False).differences
    assert "entries differ" in difference


@triton.jit
def _halves(z, x):
    word = tl.load(x).to(tl.int32, bitcast=True)
    tl.store(z, (word >> 1).to(tl.float32, bitcast=True))


def test_what_exact_numbers_cannot_follow_is_refused() -> None:
    with standing() as point:
        (x,) = point.draw((1,))
        z = torch.empty(1)
        with pytest.raises(Exception, match="exact numbers have no create_bitcast"):
            _halves[(1,)](z, x.memory)
        narrow: Any = torch.empty(1, dtype=torch.bfloat16)
        with pytest.raises(Exception, match="exact numbers lie in fp32; a kernel stores bf16"):
            _online_softmax[(1,)](narrow, x.memory, 1, RESCALED=True, BLOCK=4)


@triton.jit
def _silu(z, x, n, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(z + at, here / (1.0 + SCALE * tl.exp(-here)), mask=at < n)


@pytest.mark.parametrize(("scale", "equal"), [(1, True), (2, False)])
def test_a_gate_needs_no_homomorphism(scale: int, equal: bool) -> None:
    """The page's sigmoid takes e^x where x < 0, and this one takes e^-x everywhere."""
    with standing(seed=1) as point:
        (x,) = point.draw((9,))
        z = torch.empty(9)
        _silu[(3,)](z, x.memory, 9, SCALE=scale, BLOCK=4)
        point.same("z", z, OPS["silu"](x.numbers))
        assert (not point.verdict().differences) is equal
