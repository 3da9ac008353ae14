"""Plain torch functions, and their gradients by autograd, equal the pages, or are refused."""

from __future__ import annotations

import os

os.environ.setdefault("TRITON_INTERPRET", "1")

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import pytest
import torch
import torch.nn.functional as functional
from torch import Tensor

from equivalence.backends import load
from equivalence.exact.numbers import Inexact
from equivalence.exact.operations import cases, judged
from equivalence.exact.points import Verdict, standing
from equivalence.exact.rows import Row, rows
from spec.ops import OPS

EPS = Fraction(1, 100_000)


def in_pieces(x: Tensor) -> Tensor:
    """Normalize exponentials as a stranger would, with casts, a view and a write in place."""
    wide = x.double()
    wide = wide.sub(wide.amax(1, keepdim=True)).exp_()
    return (wide / wide.sum(1)[:, None]).float()


def layer(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """Normalize rows by their variance, as many write it."""
    variance, mean = torch.var_mean(x, 1, keepdim=True, correction=0)
    return (x - mean) * torch.rsqrt(variance + 1e-5) * gamma + beta


def point_of(function: Callable[..., Tensor], op: str, *shapes: tuple[int, ...]) -> Verdict:
    """Compare a function's value and its gradients by autograd with a page."""
    page = OPS[op]
    told = {"eps": EPS} if "eps" in page.attributes else {}
    with standing(1, homomorphism=True) as point:
        *inputs, cotangent = point.draw(*shapes)
        leaves = [x.memory.requires_grad_() for x in inputs]
        z = function(*leaves)
        numbers = [x.numbers for x in inputs]
        point.same("result", z, page(*numbers, **told))
        gradients = torch.autograd.grad(z, leaves, cotangent.memory)
        expected = page.vjp(numbers, cotangent.numbers, **told)
        for found, wanted in zip(gradients, expected, strict=True):
            point.same("gradient", found, wanted)
        return point.verdict()


NORM = ((3, 5), (5,), (5,), (3, 5))


@pytest.mark.parametrize(
    "function, op, shapes",
    [
        (in_pieces, "softmax", ((3, 5), (3, 5))),
        (lambda x: functional.log_softmax(x, 1), "log_softmax", ((3, 5), (3, 5))),
        (lambda x: x - x.logsumexp(1, keepdim=True), "log_softmax", ((3, 5), (3, 5))),
        (lambda x, g, b: functional.layer_norm(x, (5,), g, b), "layer_norm", NORM),
        (layer, "layer_norm", NORM),
        (functional.linear, "linear", ((3, 5), (2, 5), (2,), (3, 2))),
        (lambda x, y: torch.einsum("ik,kj->ij", x, y), "matmul", ((3, 5), (5, 2), (3, 2))),
    ],
)
def test_a_right_function_equals_the_page(
    function: Callable[..., Tensor], op: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    verdict = point_of(function, op, *shapes)
    assert verdict.elements > 20 and not verdict.differences, verdict.differences
    assert verdict.bound is not None and 0 < verdict.bound < 2.0**-40


@pytest.mark.parametrize(
    "function, op, shapes",
    [
        (lambda x: functional.softmax(x, 0), "softmax", ((3, 5), (3, 5))),
        (lambda x: functional.softmax(x.detach(), 1) + 0 * x, "softmax", ((3, 5), (3, 5))),
        (lambda x, y: x @ y + x.sum() * 2.0**-200, "matmul", ((3, 5), (5, 2), (3, 2))),
    ],
)
def test_a_wrong_function_differs(
    function: Callable[..., Tensor], op: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    assert point_of(function, op, *shapes).differences


@pytest.mark.parametrize(
    "function, why",
    [
        (lambda x: x * x.sum().item(), "asks on the host for a number that was drawn"),
        (lambda x: torch.special.erfcx(x), "which torch does not take apart"),
        (lambda x: x.half() * 2, "lie in fp32 and fp64"),
        (lambda x: torch.div(x, 2, rounding_mode="floor"), "divided without rounding"),
        (lambda x: x**x, "constant powers"),
        (lambda x: x.scatter_reduce(0, torch.tensor([[0]]), x, "prod"), "scatter_reduce"),
    ],
)
def test_what_exact_numbers_cannot_follow_is_refused(
    function: Callable[[Tensor], Tensor], why: str
) -> None:
    with standing() as point:
        (x,) = point.draw((2, 3))
        with pytest.raises(Inexact, match=why):
            function(x.memory)


def test_a_multiple_of_pi_is_known() -> None:
    with standing() as point:
        (x,) = point.draw((3,))
        twice = OPS["add"](x.numbers, x.numbers)
        point.same("turns", x.memory * (2 * math.pi) / math.pi, twice)
        assert not point.verdict().differences


OTHERWISE = {
    *product(("softplus", "mish", "norm"), ("value", "vjp")),
    ("masked_softmax", "value"),
}
"""The rows of torch that differ: its softplus, that of mish as well, is the identity beyond 20, as
drawn numbers are; its norm takes the root of other squares, and a root stands here for nothing but
itself; a row that is masked throughout is NaN."""


@pytest.mark.full
@pytest.mark.parametrize("name", ["fast-aten", "torch"])
def test_a_backend_of_torch_functions_equals_the_pages(name: str) -> None:
    """Each row at its plainest point; `make check` takes all of fast-aten's."""
    backend = load(name)
    # Steps of optimizers are one function of torch, which is not taken apart.
    asked: list[Row] = [row for row in rows(backend=backend) if row.of in OPS]
    assert len(asked) > 60
    for row in asked:
        verdict = judged(cases(row.of, row.direction)[0], backend=backend)
        differs = name == "torch" and (row.of, row.direction) in OTHERWISE
        assert verdict.elements and bool(verdict.differences) is differs, verdict.differences
