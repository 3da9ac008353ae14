"""Einstein's sums for torch: its kernels, torch's own checks, and what is refused.

That they are torch's own sums is shown with those of sessions, in tests/equivalence/sessions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

import fast.torch as ours
from fast import Rejected
from fast.errors import Unavailable
from fast.ops import OPS

EQUATIONS = {
    "ij,jk->ik": "matmul",
    "bij,bjk->bik": "bmm",
    "ij,ij->ij": "mul",
    "iji,k->k": "sum",
}
"""Each with an op that it runs."""


def integers(equation: str, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Return operands of small integers; an axis has the extent of its label."""
    extents = dict(zip("bijk", (2, 3, 4, 5), strict=True))
    draw = torch.Generator().manual_seed(0)
    terms = equation.partition("->")[0].split(",")
    shapes = [tuple(extents[label] for label in term) for term in terms]
    return [torch.randint(-3, 4, s, generator=draw).to(dtype).requires_grad_() for s in shapes]


@pytest.mark.parametrize("provider", ["aten", "triton"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_a_provider_computes_all_sums_and_products(
    equation: str, dtype: torch.dtype, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    hosts = type(OPS["mul"]).hosts
    monkeypatch.setattr(
        type(OPS["mul"]), "hosts", lambda op, by: (ran.append(f"{op.name} {by}"), hosts(op, by))[1]
    )
    inputs = integers(equation, dtype)
    z = ours.einsum(equation, *inputs, provider=provider)
    due = torch.einsum(equation, *inputs)
    g = torch.ones_like(due)
    found = torch.autograd.grad(z, inputs, g)
    assert z.dtype is dtype and z.equal(due)
    for one, other in zip(found, torch.autograd.grad(due, inputs, g), strict=True):
        assert one.equal(other)
    assert f"{EQUATIONS[equation]} {provider}" in ran
    assert all(name.endswith(provider) for name in ran)


@pytest.mark.parametrize("equation", EQUATIONS)
def test_gradients_pass_torchs_own_check(equation: str) -> None:
    inputs = integers(equation, torch.float64)
    assert torch.autograd.gradcheck(lambda *xs: ours.einsum(equation, xs), inputs)


@pytest.mark.parametrize("provider", ["aten", "triton"])
@pytest.mark.parametrize("axes", [[0], [-1], [0, 2], []])
def test_the_op_of_sums_passes_torchs_own_check(axes: list[int], provider: str) -> None:
    x = torch.ones(2, 3, 4).transpose(0, 1).requires_grad_()
    found = torch.library.opcheck(torch.ops.twingrad.sum.default, (x, axes, provider))
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize("provider", ["aten", "triton"])
def test_the_op_of_products_passes_torchs_own_check(provider: str) -> None:
    x = torch.ones(3, 1).expand(3, 4).requires_grad_()
    y = torch.ones(4, 3).t().requires_grad_()
    found = torch.library.opcheck(torch.ops.twingrad.mul.default, (x, y, provider))
    assert set(found.values()) == {"SUCCESS"}


def test_a_result_is_contiguous_in_any_order_of_axes() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    z = ours.einsum("ij->ji", x)
    assert z.equal(x.t()) and z.is_contiguous()


def test_a_compiled_program_keeps_the_ops_whole() -> None:
    seen: list[str] = []

    def backend(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        seen.extend(str(node.target) for node in module.graph.nodes)
        return module.forward

    equation = "bij,bjk,b->ik"
    inputs = [x.detach() for x in integers(equation)]
    compiled = torch.compile(
        lambda *xs: ours.einsum(equation, *xs), backend=backend, fullgraph=True
    )
    assert compiled(*inputs).equal(torch.einsum(equation, *inputs))
    assert any("twingrad.bmm" in target for target in seen)


def test_a_second_derivative_is_refused_not_wrong() -> None:
    x, y = integers("ij,jk->ik")
    z = ours.einsum("ij,jk->ik", x, y)
    (first,) = torch.autograd.grad(z.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="matmul_backward"):
        torch.autograd.grad(first.sum(), x)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_forward_mode_is_refused_not_zero() -> None:
    x, y = (one.detach() for one in integers("ij,jk->ik"))
    said = "fast.torch.einsum: .*forward mode.*use torch.einsum"
    with pytest.raises(Unavailable, match=said):
        torch.func.jvp(lambda y: ours.einsum("ij,jk->ik", x, y), (y,), (y,))
    with forward_ad.dual_level(), pytest.raises(Unavailable, match=said):
        make: Any = forward_ad.make_dual
        ours.einsum("ij->ji", make(x, x))


def test_transforms_that_torch_refuses_name_the_function_and_the_way_out() -> None:
    x, y = (one.detach() for one in integers("ij,jk->ik"))
    with pytest.raises(Unavailable, match=r"fast.torch.einsum: torch.func.*use torch.autograd"):
        torch.func.grad(lambda x: ours.einsum("ij,jk->", x, y))(x)


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
def test_vmap_sums_for_each_sample() -> None:
    x, y = (one.detach() for one in integers("bij,jk->bik"))
    z = torch.func.vmap(lambda x: ours.einsum("ij,jk->ik", x, y))(x)
    assert z.equal(torch.einsum("bij,jk->bik", x, y))


WRONG: Sequence[tuple[Callable[[], object], str]] = (
    (lambda: ours.einsum("ij,jk", torch.ones(2, 2), torch.ones(2, 2)), "einsum E1: an equation"),
    (lambda: ours.einsum(torch.ones(2), [0], [0]), "einsum: a tensor of torch is needed, got list"),  # type: ignore[arg-type]
    (lambda: ours.einsum("i->i"), "einsum E2: there is an operand at least"),
    (lambda: ours.einsum("i,i->", torch.ones(2), torch.ones(2).double()), "einsum E5: operands"),
    (lambda: ours.einsum("i->", torch.ones(2).long()), "einsum: inputs are float32"),
    (lambda: ours.einsum("i->", torch.ones(2), provider="c"), "unknown provider 'c'"),
)


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_is_not_taken_is_refused_by_a_sentence(number: int) -> None:
    call, message = WRONG[number]
    with pytest.raises(Rejected, match=re.escape(message)):
        call()
