"""The functions for torch: torch's own checks of gradients and of custom ops, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import fast.torch as ours
from fast import Rejected
from fast.ops import OPS

LABELS = torch.tensor([2, 0, -100, 1])

CASES: dict[str, tuple[Callable[..., Tensor], Callable[[torch.dtype], tuple[Tensor, ...]]]] = {
    "softmax": (lambda x, **k: ours.softmax(x, 0, **k), lambda d: (drawn(d, 4, 3),)),
    "log_softmax": (lambda x, **k: ours.log_softmax(x, **k), lambda d: (drawn(d, 2, 4, 3),)),
    "layer_norm": (
        lambda *x, **k: ours.layer_norm(*x, **k),
        lambda d: (drawn(d, 4, 5), drawn(d, 5), drawn(d, 5)),
    ),
    "cross_entropy": (
        lambda x, **k: ours.cross_entropy(x, LABELS, label_smoothing=0.25, **k),
        lambda d: (drawn(d, 4, 3),),
    ),
    "cross_entropy rows": (
        lambda x, **k: ours.cross_entropy(x, LABELS, reduction="none", **k),
        lambda d: (drawn(d, 4, 3),),
    ),
}


def drawn(dtype: torch.dtype, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    return x.to(dtype).requires_grad_()


@pytest.mark.parametrize("name", CASES)
def test_gradients_pass_torchs_own_check(name: str) -> None:
    function, inputs = CASES[name]
    assert torch.autograd.gradcheck(function, inputs(torch.float64))


def arguments(name: str, provider: str) -> tuple[Any, ...]:
    x, gamma, beta = (drawn(torch.float32, *shape) for shape in ((4, 3), (3,), (3,)))
    return {
        "softmax": (x, 1, provider),
        "log_softmax": (x, -1, provider),
        "layer_norm": (x, gamma, beta, 0.5, provider),
        "cross_entropy": (x, LABELS, -100, 0.25, "mean", provider),
    }[name]


@pytest.mark.parametrize("provider", ["aten", "triton"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "cross_entropy"])
def test_ops_pass_torchs_own_check(name: str, provider: str) -> None:
    op = getattr(torch.ops.twingrad, name).default
    found = torch.library.opcheck(op, arguments(name, provider))
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize("provider", ["aten", "triton"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_function_is_the_page_itself(provider: str, dtype: torch.dtype) -> None:
    inputs = CASES["layer_norm"][1](dtype)
    z = ours.layer_norm(*inputs, provider=provider)
    cotangent = drawn(dtype, *z.shape).detach()
    z.backward(cotangent)
    value, vjp = OPS["layer_norm"].hosts(provider)
    expected, saved = value(*(x.detach() for x in inputs), eps=1e-5)
    assert z.dtype is dtype and z.detach().equal(expected)
    for x, gradient in zip(inputs, vjp(saved, cotangent, (True,) * 3), strict=True):
        assert x.grad is not None and gradient is not None and x.grad.equal(gradient)


def test_a_compiled_program_keeps_the_op_whole() -> None:
    seen: list[str] = []

    def backend(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        seen.extend(str(node.target) for node in module.graph.nodes)
        return module.forward

    x = drawn(torch.float32, 4, 3)
    compiled = torch.compile(lambda x: ours.softmax(x), backend=backend, fullgraph=True)
    assert compiled(x).equal(ours.softmax(x))
    assert any("twingrad.softmax" in target for target in seen)


def test_bad_input_is_refused_by_the_pages_rules() -> None:
    x = torch.ones(2, 3)
    with pytest.raises(Rejected, match="softmax C1"):
        ours.softmax(x, 2)
    with pytest.raises(Rejected, match="unknown provider 'cudnn'"):
        ours.softmax(x, provider="cudnn")
    with pytest.raises(Rejected, match=r"cross_entropy C3: .* got 7"):
        ours.cross_entropy(x, torch.tensor([0, 7]))
    with pytest.raises(Rejected, match="layer_norm C2"):
        ours.layer_norm(x, torch.ones(2), torch.ones(3))


def test_a_second_derivative_is_refused_not_wrong() -> None:
    x = drawn(torch.float64, 2, 3)
    (first,) = torch.autograd.grad(ours.softmax(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="softmax_backward"):
        torch.autograd.grad(first.sum(), x)
