"""The functions for torch: torch's own checks of gradients and of custom ops, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

import fast.torch as ours
from fast import Rejected
from fast.errors import Unavailable
from fast.ops import OPS
from tests.turns import in_turns

LABELS = torch.tensor([2, 0, -100, 1])
WEIGHTS = torch.tensor([1.0, 0.5, 2.0])

FUSED = [
    *("softmax", "log_softmax", "layer_norm", "rms_norm", "group_norm", "batch_norm"),
    "cross_entropy",
]

CASES: dict[str, tuple[Callable[..., Tensor], Callable[[torch.dtype], tuple[Tensor, ...]]]] = {
    "softmax": (lambda x, **k: ours.softmax(x, 0, **k), lambda d: (drawn(d, 4, 3),)),
    "log_softmax": (lambda x, **k: ours.log_softmax(x, -1, **k), lambda d: (drawn(d, 2, 4, 3),)),
    "layer_norm": (
        lambda x, *affine, **k: ours.layer_norm(x, x.shape[-1:], *affine, **k),
        lambda d: (drawn(d, 4, 5), drawn(d, 5), drawn(d, 5)),
    ),
    "rms_norm": (
        lambda x, *weight, **k: ours.rms_norm(x, (2, 5), *weight, **k),
        lambda d: (drawn(d, 4, 2, 5), drawn(d, 2, 5)),
    ),
    "group_norm": (
        lambda x, *affine, **k: ours.group_norm(x, 2, *affine, **k),
        lambda d: (drawn(d, 3, 4, 2), drawn(d, 4), drawn(d, 4)),
    ),
    "instance_norm": (
        lambda x, *affine, **k: ours.instance_norm(x, None, None, *affine, **k),
        lambda d: (drawn(d, 2, 3, 4), drawn(d, 3), drawn(d, 3)),
    ),
    "batch_norm": (
        lambda x, *affine, **k: ours.batch_norm(x, None, None, *affine, training=True, **k),
        lambda d: (drawn(d, 4, 3, 2), drawn(d, 3), drawn(d, 3)),
    ),
    "batch_norm by given statistics": (
        lambda x, *affine, **k: ours.batch_norm(x, x.new_ones(3), x.new_ones(3), *affine, **k),
        lambda d: (drawn(d, 4, 3), drawn(d, 3), drawn(d, 3)),
    ),
    "cross_entropy": (
        lambda x, **k: ours.cross_entropy(x, LABELS, label_smoothing=0.25, **k),
        lambda d: (drawn(d, 4, 3),),
    ),
    "cross_entropy of classes that weigh": (
        lambda x, **k: ours.cross_entropy(x, LABELS, WEIGHTS, label_smoothing=0.25, **k),
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
        "rms_norm": (x, gamma, 0.5, provider),
        "group_norm": (x, gamma, beta, 1, 0.5, provider),
        "batch_norm": (x, gamma, beta, beta.detach(), gamma.detach(), True, 0.1, 0.5, provider),
        "cross_entropy": (x, LABELS, -100, 0.25, "mean", WEIGHTS.tolist(), provider),
    }[name]


@pytest.mark.parametrize("provider", ["aten", "triton"])
@pytest.mark.parametrize("name", FUSED)
def test_ops_pass_torchs_own_check(name: str, provider: str) -> None:
    op = getattr(torch.ops.twingrad, name).default
    found = torch.library.opcheck(op, arguments(name, provider))
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize("provider", ["aten", "triton"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_function_is_the_page_itself(provider: str, dtype: torch.dtype) -> None:
    inputs = CASES["layer_norm"][1](dtype)
    x, gamma, beta = inputs
    z = ours.layer_norm(x, (5,), gamma, beta, provider=provider)
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
    compiled = torch.compile(lambda x: ours.softmax(x, -1), backend=backend, fullgraph=True)
    assert compiled(x).equal(ours.softmax(x, -1))
    assert any("twingrad.softmax" in target for target in seen)


def test_bad_input_is_refused_by_the_pages_rules() -> None:
    x = torch.ones(2, 3)
    with pytest.raises(Rejected, match="softmax C1"):
        ours.softmax(x, 2)
    with pytest.raises(Rejected, match="unknown provider 'cudnn'"):
        ours.softmax(x, -1, provider="cudnn")
    with pytest.raises(Rejected, match=r"cross_entropy C3: .* got 7"):
        ours.cross_entropy(x, torch.tensor([0, 7]))
    with pytest.raises(Rejected, match="layer_norm C3"):
        ours.layer_norm(x, (3,), eps=0)


def test_a_second_derivative_is_refused_not_wrong() -> None:
    x = drawn(torch.float64, 2, 3)
    (first,) = torch.autograd.grad(ours.softmax(x, -1).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="softmax_backward"):
        torch.autograd.grad(first.sum(), x)


def turned(dtype: torch.dtype, *shape: int) -> Tensor:
    """Draw a tensor of a shape, whose last two axes are swapped in memory."""
    return drawn(dtype, *shape[:-2], shape[-1], shape[-2]).detach().transpose(-1, -2)


@pytest.mark.parametrize(("name", "provider"), in_turns(product(FUSED, ["aten", "triton"]), 5))
def test_inputs_in_any_layout_pass_torchs_own_check(name: str, provider: str) -> None:
    op = getattr(torch.ops.twingrad, name)
    back = getattr(torch.ops.twingrad, f"{name}_backward")
    shape = {"cross_entropy": (4, 3), "group_norm": (2, 3, 4), "batch_norm": (2, 3, 4)}.get(
        name, (2, 4, 3)
    )
    _, *rest = (a.detach() if isinstance(a, Tensor) else a for a in arguments(name, provider))
    for x in (turned(torch.float32, *shape), torch.ones(shape[-2], 1).expand(shape)):
        found = torch.library.opcheck(op, (x, *rest))
        assert set(found.values()) == {"SUCCESS"}
        cotangent = torch.ones(()) if name == "cross_entropy" else turned(torch.float32, *shape)
        found = torch.library.opcheck(back, (cotangent, x, *rest))
        assert set(found.values()) == {"SUCCESS"}


def test_a_compiled_layer_norm_takes_a_transposed_input() -> None:
    compiled = torch.compile(lambda *x: ours.layer_norm(*x).view(-1), backend="aot_eager")
    arguments = turned(torch.float32, 2, 3, 4), (4,), torch.ones(4), torch.zeros(4)
    assert compiled(*arguments).equal(ours.layer_norm(*arguments).view(-1))


SCRIPTED = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
"""What torch itself warns of when its forward mode is first used."""


def pushed_by_a_dual_number(function: Callable[[Tensor], Tensor], x: Tensor, t: Tensor) -> None:
    with forward_ad.dual_level():
        make: Any = forward_ad.make_dual
        function(make(x, t))


FORWARD: dict[str, Callable[[Callable[[Tensor], Tensor], Tensor, Tensor], object]] = {
    "jvp": lambda f, x, t: torch.func.jvp(f, (x,), (t,)),
    "jvp of vmap": lambda f, x, t: torch.func.jvp(torch.func.vmap(f), (x[None],), (t[None],)),
    "jacfwd": lambda f, x, t: torch.func.jacfwd(f)(x),
    "linearize": lambda f, x, t: torch.func.linearize(f, x),
    "forward_ad": pushed_by_a_dual_number,
}


@SCRIPTED
@pytest.mark.parametrize("mode", FORWARD)
@pytest.mark.parametrize("name", CASES)
def test_forward_mode_is_refused_not_zero(name: str, mode: str) -> None:
    """Let the last input carry the tangent: who asks only the first would miss it."""
    function, inputs = CASES[name]
    *others, last = (x.detach() for x in inputs(torch.float32))
    with pytest.raises(
        Unavailable, match=f"fast.torch.{name.split()[0]}: .*forward mode.*torch.nn"
    ):
        FORWARD[mode](lambda x: function(*others, x), last, drawn(torch.float32, *last.shape))


@SCRIPTED
def test_forward_mode_is_refused_by_the_compiled_program_and_the_op_itself() -> None:
    x, t = drawn(torch.float32, 4, 3).detach(), torch.eye(4, 3)
    compiled = torch.compile(lambda x: ours.softmax(x, -1), backend="eager", fullgraph=True)
    op = torch.ops.twingrad.softmax
    for function in (compiled, lambda x: op(x, -1, "aten")):
        with pytest.raises(Unavailable, match=r"softmax: .*forward mode"):
            pushed_by_a_dual_number(function, x, t)


@SCRIPTED
def test_what_carries_no_tangent_runs_beside_one_that_does() -> None:
    x, t = drawn(torch.float32, 4, 3).detach(), torch.eye(4, 3)
    pair: Any = torch.func.jvp(lambda y: y * ours.softmax(x, -1), (x,), (t,))
    z, dz = pair
    assert z.equal(x * ours.softmax(x, -1)) and dz.equal(t * ours.softmax(x, -1))


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev])
def test_transforms_that_torch_refuses_name_the_op_and_the_way_out(transform: Any) -> None:
    with pytest.raises(Unavailable, match=r"fast.torch.softmax: torch.func.*torch.autograd.grad"):
        transform(lambda x: ours.softmax(x, -1).square().sum())(drawn(torch.float32, 4, 3).detach())


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
def test_vmap_runs_the_op_for_each_sample() -> None:
    x, gamma, beta = drawn(torch.float32, 2, 3, 4), torch.ones(4), torch.zeros(4)
    assert torch.func.vmap(lambda x: ours.softmax(x, -1))(x).equal(ours.softmax(x, -1))
    normed = torch.func.vmap(lambda x: ours.layer_norm(x, (4,), gamma, beta))(x)
    assert normed.equal(ours.layer_norm(x, (4,), gamma, beta))


def test_autocast_does_not_change_the_dtypes_of_a_functions_inputs() -> None:
    x, w, gamma = torch.ones(2, 4), torch.ones(4, 4), torch.ones(4)
    with torch.autocast("cpu", torch.bfloat16):
        z = torch.nn.functional.linear(x, w)
        assert ours.softmax(z, -1).dtype is torch.bfloat16
        with pytest.raises(Rejected, match=r"one dtype, got torch.bfloat16 and torch.float32"):
            ours.layer_norm(z, (4,), gamma, gamma)
        assert ours.layer_norm(z.float(), (4,), gamma, gamma).dtype is torch.float32


@pytest.mark.parametrize("data", [np.ones((1, 3), np.float32), [[1.0, 2.0, 3.0]]])
def test_what_is_no_tensor_of_torch_is_refused_by_name(data: Any) -> None:
    for name, call in (
        ("softmax", lambda: ours.softmax(data, dim=1)),
        ("log_softmax", lambda: ours.log_softmax(data, dim=1)),
        ("layer_norm", lambda: ours.layer_norm(data, (3,))),
        ("cross_entropy", lambda: ours.cross_entropy(data, torch.tensor([0]))),
    ):
        with pytest.raises(
            Rejected, match=rf"^fast.torch.{name}: a tensor of torch is needed, got"
        ):
            call()
