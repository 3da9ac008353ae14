"""Torch's batch_norm of tensors that are not contiguous: what it stores, and where it is wrong."""

from __future__ import annotations

from math import prod

import pytest
import torch

from equivalence.backends import declared, load
from equivalence.backends.protocol import Capabilities
from equivalence.budgets.judge import judge_tensor
from equivalence.budgets.oracle import expected_vjp
from equivalence.cases.declared.calls import CallTypes, TensorTypes

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
SHAPES = ((1, 2, 2, 1), (1, 3, 4, 1), (1, 3, 1, 4), (2, 3, 4, 1), (1, 3, 2, 2), (1, 2, 2, 1, 1))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_part_that_the_kernel_stores_is_in_the_form(dtype: str, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    large = 6e4 if seed % 2 else 10.0  # the sum of the larger ones is beyond fp16
    x, g = (
        (scale * (2 * torch.rand(3, 2, 400, generator=generator) - 1)).to(DTYPES[dtype])[..., :199]
        for scale in (1.0, large)
    )
    lines = [torch.randn(2, generator=generator).to(DTYPES[dtype]) for _ in range(3)]
    given = [x, *lines, torch.ones(2, dtype=DTYPES[dtype])]
    contract = declared("torch")("batch_norm", dtype)
    got = load("torch").vjp("batch_norm", given, {}, [g, None, None])
    packed = torch.cat([g.flatten(), torch.zeros(4, dtype=DTYPES[dtype])])
    due = expected_vjp("batch_norm", given, {}, packed, contract)
    for gradient, allowed in zip(got[:3], due[:3], strict=True):
        assert gradient is not None and allowed is not None
        assert not judge_tensor(gradient, allowed).failed


def reversed_axes(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers, whose axes lie in memory in reverse order."""
    strides = [prod(tensor.shape[:axis]) for axis in range(tensor.ndim)]
    return torch.empty_strided(tensor.shape, strides).copy_(tensor)


def is_right(x: torch.Tensor, g: torch.Tensor) -> bool:
    """Say whether torch's gradient of beta is the sum of the cotangents."""
    beta = torch.zeros(x.shape[1], requires_grad=True)
    z = torch.nn.functional.batch_norm(x, None, None, torch.ones(x.shape[1]), beta, True)
    (gradient,) = torch.autograd.grad(z, beta, g)
    axes = [axis for axis in range(x.ndim) if axis != 1]
    return torch.equal(gradient, g.sum(axes))


def typed(tensor: torch.Tensor) -> TensorTypes:
    return TensorTypes(tuple(tensor.shape), "fp32", tensor.stride(), "transposed")


@pytest.mark.parametrize("shape", SHAPES)
def test_only_where_torch_reads_a_cotangent_wrongly_it_is_left_out(shape: tuple[int, ...]) -> None:
    capabilities = load("torch").capabilities()
    assert isinstance(capabilities, Capabilities)
    takes = capabilities.takes["batch_norm"]
    assert callable(takes)
    x, line = torch.arange(float(prod(shape))).reshape(shape), torch.ones(shape[1])
    g = x.square() + 1
    for laid in (x, reversed_axes(x)):
        inputs = tuple(map(typed, (laid, line, line, line, line)))
        call = CallTypes("batch_norm", "vjp", "fp32", inputs, (typed(g),))
        assert takes(call) == is_right(laid, g)
