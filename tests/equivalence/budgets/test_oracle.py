"""The oracle against torch: right kernels are inside their budgets, wrong ones are outside."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch

from equivalence.backends import declared
from equivalence.budgets.judge import judge_tensor
from equivalence.budgets.lifting.worlds import lift_one, store
from equivalence.budgets.oracle import expected_jvp, expected_value, expected_vjp
from equivalence.budgets.outcome import Outcome
from equivalence.registry import OPS
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.contract import FP32, Contract, Form
from spec.op import AnyTensor

TORCH = declared("torch")
REGIMES = [(1.0, 0.0), (1.0, 1e3), (1e-2, 0.0), (1e-3, 1.0)]


def normals(scale: float, offset: float) -> list[torch.Tensor]:
    """Draw the inputs of layer_norm and a cotangent."""
    torch.manual_seed(0)
    x = torch.randn(4, 32) * scale + offset
    return [x, torch.randn(32), torch.randn(32), torch.randn(4, 32)]


def centred_gradient(
    x: torch.Tensor,
    gamma: torch.Tensor,
    g: torch.Tensor,
    variance: Callable[[torch.Tensor], torch.Tensor],
    eps: float = 1e-5,
    again: float = 0.0,
) -> torch.Tensor:
    """Return layer_norm's dx with the mistakes that one asks for."""
    centred = x - x.mean(-1, keepdim=True)
    rate = (variance(x) + eps).rsqrt()
    normal, weighted = centred * rate, g * gamma
    mean = weighted.mean(-1, keepdim=True)
    dx = (weighted - mean - normal * (weighted * normal).mean(-1, keepdim=True)) * rate
    return dx - again * mean * rate


def two_pass(x: torch.Tensor) -> torch.Tensor:
    """Return the population variance, stably."""
    return x.var(-1, unbiased=False, keepdim=True)


def unbiased(x: torch.Tensor) -> torch.Tensor:
    """Return the variance of a sample."""
    return x.var(-1, keepdim=True)


def one_pass(x: torch.Tensor) -> torch.Tensor:
    """Return the mean of squares less the square of the mean."""
    return x.square().mean(-1, keepdim=True) - x.mean(-1, keepdim=True).square()


def test_torch_layer_norm_is_inside_in_every_regime() -> None:
    contract = TORCH("layer_norm", "fp32")
    for scale, offset in REGIMES:
        *inputs, g = normals(scale, offset)
        leaves = [t.clone().requires_grad_() for t in inputs]
        y = torch.nn.functional.layer_norm(leaves[0], (32,), leaves[1], leaves[2])
        y.backward(g)
        verdicts = [judge_tensor(y, expected_value("layer_norm", inputs, {}, contract))]
        allowed = expected_vjp("layer_norm", inputs, {}, [g], contract)
        for leaf, expected in zip(leaves, allowed, strict=True):
            assert leaf.grad is not None and expected is not None
            verdicts.append(judge_tensor(leaf.grad, expected))
        assert [v.status for v in verdicts] == ["conformant"] * 4


MUTANTS: dict[str, Callable[..., torch.Tensor]] = {
    "mean subtracted twice": lambda x, w, g: centred_gradient(x, w, g, two_pass, again=1.0),
    "unbiased variance": lambda x, w, g: centred_gradient(x, w, g, unbiased),
    "one-pass variance": lambda x, w, g: centred_gradient(x, w, g, one_pass),
    "another eps": lambda x, w, g: centred_gradient(x, w, g, two_pass, eps=1e-6),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_has_a_regime_that_shows_it(name: str) -> None:
    seen: list[Outcome] = []
    for scale, offset in REGIMES:
        x, gamma, beta, g = normals(scale, offset)
        contract = TORCH("layer_norm", "fp32")
        allowed = expected_vjp("layer_norm", [x, gamma, beta], {}, g, contract)[0]
        assert allowed is not None
        right = judge_tensor(centred_gradient(x, gamma, g, two_pass), allowed)
        assert right.status == "conformant"
        seen.append(judge_tensor(MUTANTS[name](x, gamma, g), allowed))
    assert "nonconformant" in [v.status for v in seen]


@pytest.mark.parametrize(("n", "scale"), [(8, 1.0), (64, 1.0), (64, 10.0), (256, 30.0)])
def test_torch_softmax_is_inside_and_a_dropped_term_is_not(n: int, scale: float) -> None:
    torch.manual_seed(n)
    x, g = torch.randn(4, n) * scale, torch.randn(4, n)
    contract = TORCH("softmax", "fp32")
    leaf = x.clone().requires_grad_()
    y = torch.softmax(leaf, -1)
    y.backward(g)
    assert judge_tensor(y, expected_value("softmax", [x], {}, contract)).status == "conformant"
    (allowed,) = expected_vjp("softmax", [x], {}, g, contract)
    assert leaf.grad is not None and allowed is not None
    assert judge_tensor(leaf.grad, allowed).status == "conformant"
    assert judge_tensor(y.detach() * g, allowed).status == "nonconformant"


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp64"])
def test_torch_matmul_is_inside(dtype: str) -> None:
    torch.manual_seed(0)
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp64": torch.float64}[dtype]
    x, y = torch.randn(3, 300).to(kind), torch.randn(300, 3).to(kind)
    expected = expected_value("matmul", [x, y], {}, TORCH("matmul", dtype))
    assert judge_tensor(x @ y, expected).status == "conformant"


def test_a_reciprocal_beyond_float64_says_nothing_of_a_quotient() -> None:
    """G / y is finite where 1 / y is not; another entry's infinity changes nothing of that."""
    x, y = torch.ones(2).double(), torch.tensor([1.0, 1e-310], dtype=torch.float64)
    contract = TORCH("div", "fp64")
    for other in (1.0, math.inf):
        g = torch.tensor([other, 1e-3], dtype=torch.float64)
        allowed, _ = expected_vjp("div", [x, y], {}, g, contract)
        assert allowed is not None and allowed.data[1].unconstrained
        assert not judge_tensor(g / y, allowed).failed
        assert judge_tensor(torch.tensor([0.5, 1.0]).double(), allowed).failed


def test_a_float64_gradient_may_overflow_in_another_form() -> None:
    logits = torch.tensor([[1.0, 2.0, 0.5, -1.0, 0.25]]).double()
    labels, attrs = torch.tensor([0]), {"label_smoothing": 0.25}
    contract = TORCH("cross_entropy", "fp64")
    for seed, open_ in ((2.0**1022, True), (2.0**900, False)):
        g = torch.tensor(seed, dtype=torch.float64)
        (allowed, _) = expected_vjp("cross_entropy", [logits, labels], attrs, g, contract)
        assert allowed is not None
        infinite = torch.full_like(logits, math.inf)
        assert (judge_tensor(infinite, allowed).status == "conformant") is open_
        assert judge_tensor(torch.zeros_like(logits), allowed).status == "nonconformant"


def test_where_squares_overflow_another_form_may_be_undefined() -> None:
    """A corrected variance subtracts one infinity from another where the page divides by one."""
    gamma, beta = torch.tensor([1.0, -2.0, 3.0]), torch.tensor([0.5, 0.25, -1.0])
    undefined = torch.full((3,), math.nan)
    for scale, open_ in ((2.0**66, True), (2.0**60, False)):
        x = torch.tensor([0.5, -0.25, 0.75]) * scale
        allowed = expected_value(
            "layer_norm", [x, gamma, beta], {"eps": 1e-5}, TORCH("layer_norm", "fp32")
        )
        assert (judge_tensor(undefined, allowed).status == "conformant") is open_
        assert judge_tensor(beta + 5.0, allowed).status == "nonconformant"


def test_a_result_that_overflows_is_finite_in_no_form() -> None:
    x, y = torch.tensor([2.0**66, 1.0]), torch.tensor([1.0, 2.0])
    allowed = expected_value("mse_loss", [x, y], {"reduction": "none"}, TORCH("mse_loss", "fp32"))
    assert judge_tensor((x - y) ** 2, allowed).status == "conformant"
    hidden = torch.tensor([torch.finfo(torch.float32).max, 1.0])
    assert judge_tensor(hidden, allowed).status == "nonconformant"


def test_lifting_refuses_what_has_no_budget() -> None:
    arithmetic = Arithmetic(TORCH("add", "fp32"))
    with pytest.raises(ValueError, match="EDGES"):
        lift_one(torch.tensor([1.0, float("nan")]), arithmetic)
    numbers, labels = torch.ones(2, 2).t(), torch.tensor([3, -100])
    assert lift_one(numbers, arithmetic).shape == (2, 2)
    assert lift_one(labels, arithmetic).data == (3, -100)


def test_a_result_of_constants_enters_the_world() -> None:
    arithmetic = Arithmetic(TORCH("sum", "fp32"))
    empty = expected_value("sum", [torch.ones(2, 0)], {"axes": (1,)}, TORCH("sum", "fp32"))
    assert judge_tensor(torch.zeros(2), empty).fraction == 0
    assert store(empty.map(lambda _: 0), arithmetic).data[0].exact


def test_an_op_may_be_given_by_name_or_record() -> None:
    from spec.ops import OPS

    contract: Contract = TORCH("square", "fp32")
    x = torch.tensor([0.1, 3.0])
    for op in ("square", OPS["square"]):
        assert judge_tensor(x * x, expected_value(op, [x], {}, contract)).status == "conformant"


STABLE = Contract("stable", FP32, FP32)


def test_what_depends_on_an_infinite_cotangent_may_be_anything_that_is_not_finite() -> None:
    x, g = torch.zeros(3), torch.tensor([math.inf, 1.0, math.nan])
    expected = expected_vjp("tanh", [x], {}, [g], STABLE)[0]
    for first in (math.inf, math.nan, -math.inf):
        assert not judge_tensor(torch.tensor([first, 1.0, math.nan]), expected).failed
    for wrong in ([1.0, 1.0, math.nan], [math.inf, math.nan, math.nan], [math.inf, 1.0, 0.0]):
        assert judge_tensor(torch.tensor(wrong), expected).failed
    page = expected_vjp("tanh", [x], {}, [g], replace(STABLE, freedom="page"))[0]
    assert judge_tensor(torch.tensor([math.nan, 1.0, math.nan]), page).failed


def test_a_composite_may_give_what_it_tends_to_beside_an_infinite_input() -> None:
    x, labels = torch.tensor([[math.inf, 1.0, 2.0]]), torch.tensor([1])
    call = {"reduction": "none"}
    expected = expected_vjp("cross_entropy", [x, labels], call, [torch.ones(1)], STABLE)[0]
    for right in ([math.nan, -1.0, 0.0], [1.0, -1.0, 0.0], [math.nan] * 3):
        assert not judge_tensor(torch.tensor([right]), expected).failed
    for wrong in ([math.nan, 0.0, 0.0], [math.nan, -1.0, 0.5], [0.0, -1.0, 0.0]):
        assert judge_tensor(torch.tensor([wrong]), expected).failed
    spoiled = torch.tensor([[math.inf, math.nan, 2.0]])
    nan = expected_vjp("cross_entropy", [spoiled, labels], call, [torch.ones(1)], STABLE)[0]
    assert judge_tensor(torch.tensor([[math.nan, -1.0, 0.0]]), nan).failed
    distance = expected_vjp("mse_loss", [x, torch.zeros(1, 3)], {}, [torch.tensor(1.0)], STABLE)[0]
    assert judge_tensor(torch.tensor([[2.0**90, 2 / 3, 4 / 3]]), distance).failed


def test_a_gradient_keeps_what_it_tends_to_where_another_row_spoils_the_sum() -> None:
    """The NaN of a sum may reach every row, and need not: each row is beside its own infinity."""
    x, labels = torch.tensor([[0.1, math.inf], [math.nan, 2.0]]), torch.tensor([1, 0])
    for reduction, g in (("sum", 1.0), ("mean", 2.0)):
        call = {"reduction": reduction}
        seed = torch.tensor(g)
        expected = expected_vjp("cross_entropy", [x, labels], call, [seed], STABLE)[0]
        for right in ([0.0, 0.0], [0.0, math.nan], [math.nan] * 2):
            assert not judge_tensor(torch.tensor([right, [math.nan] * 2]), expected).failed
        for wrong in ([1.0, 0.0], [0.0, -1.0]):
            assert judge_tensor(torch.tensor([wrong, [math.nan] * 2]), expected).failed
        assert judge_tensor(torch.tensor([[0.0, 0.0], [0.0, math.nan]]), expected).failed


def test_a_form_takes_nothing_away_beside_an_infinite_input() -> None:
    """By its logsumexp a softmax says nothing of large logits; what the page tends to is known."""

    def by_logsumexp(x: AnyTensor, *, axis: int = -1) -> AnyTensor:
        total = OPS["logsumexp"].value(x, axes=(axis,), keepdims=True)
        wide = OPS["broadcast_to"].value(total, shape=x.shape)
        powers: AnyTensor = OPS["exp"].value(OPS["sub"].value(x, wide))
        return powers

    def back(inputs: Sequence[AnyTensor], g: AnyTensor, *, axis: int = -1) -> tuple[AnyTensor]:
        p = by_logsumexp(*inputs, axis=axis)
        pulled = OPS["mul"].value(p, g)
        total = OPS["sum"].value(pulled, axes=(axis,), keepdims=True)
        wide = OPS["broadcast_to"].value(total, shape=p.shape)
        return (OPS["sub"].value(pulled, OPS["mul"].value(p, wide)),)

    x, g = torch.tensor([[math.inf, 1.0, 2.0]]), torch.tensor([[3.0, 0.0, 0.0]])
    for forms in ((), (Form("exp(x - logsumexp)", by_logsumexp, back),)):
        contract = replace(STABLE, forms=forms)
        value = expected_value("softmax", [x], {"axis": 1}, contract)
        (dx,) = expected_vjp("softmax", [x], {"axis": 1}, [g], contract)
        for right in ([math.nan] * 3, [1.0, 0.0, 0.0]):
            assert not judge_tensor(torch.tensor([right]), value).failed
        assert judge_tensor(torch.tensor([[0.5, 0.5, 0.0]]), value).failed
        for right in ([math.nan] * 3, [0.0] * 3):
            assert not judge_tensor(torch.tensor([right]), dx).failed
        assert judge_tensor(torch.tensor([[1.0, 0.0, 0.0]]), dx).failed


def test_what_depends_on_an_infinite_tangent_may_be_anything_that_is_not_finite() -> None:
    x, t = torch.zeros(3), torch.tensor([math.inf, 1.0, math.nan])
    expected = expected_jvp("tanh", [x], {}, [t], STABLE)
    for first in (math.inf, math.nan, -math.inf):
        assert not judge_tensor(torch.tensor([first, 1.0, math.nan]), expected).failed
    for wrong in ([1.0, 1.0, math.nan], [math.inf, math.nan, math.nan], [math.inf, 1.0, 0.0]):
        assert judge_tensor(torch.tensor(wrong), expected).failed
    page = expected_jvp("tanh", [x], {}, [t], replace(STABLE, freedom="page"))
    assert judge_tensor(torch.tensor([math.nan, 1.0, math.nan]), page).failed


def test_only_what_an_infinite_tangent_reaches_may_be_what_is_not_finite() -> None:
    """A tangent that is None moves nothing; another row's infinity does not reach a row."""
    x, y = torch.ones(2, 2), torch.full((2, 2), 2.0)
    t = torch.tensor([[math.inf, 1.0], [1.0, 1.0]])
    expected = expected_jvp("softmax", [x], {"axis": 1}, [t], STABLE)
    for first in ([math.inf, -math.inf], [math.nan, math.nan]):
        assert not judge_tensor(torch.tensor([first, [0.0, 0.0]]), expected).failed
    assert judge_tensor(torch.tensor([[math.inf, 0.0], [0.0, 0.0]]), expected).failed
    assert judge_tensor(torch.tensor([[math.nan] * 2, [math.nan, 0.0]]), expected).failed
    product = expected_jvp("mul", [x, y], {}, [None, t], STABLE)
    assert not judge_tensor(torch.tensor([[math.nan, 1.0], [1.0, 1.0]]), product).failed
    assert judge_tensor(torch.tensor([[math.nan, 1.0], [math.nan, 1.0]]), product).failed


def test_a_tangent_of_a_composite_may_be_what_it_tends_to_beside_an_infinite_input() -> None:
    """A softmax by its maximum is NaN beside an infinite logit; by its logsumexp it is still."""
    x, t = torch.tensor([[math.inf, 1.0, 2.0], [0.0, 0.0, 0.0]]), torch.ones(2, 3)
    expected = expected_jvp("softmax", [x], {"axis": 1}, [t], STABLE)
    for right in ([math.nan] * 3, [0.0] * 3, [math.nan, 0.0, 0.0]):
        assert not judge_tensor(torch.tensor([right, [0.0] * 3]), expected).failed
    for wrong in ([1.0, 0.0, 0.0], [math.nan, 0.5, 0.0]):
        assert judge_tensor(torch.tensor([wrong, [0.0] * 3]), expected).failed
    spoiled = torch.where(x == 1, math.nan, x)
    nan = expected_jvp("softmax", [spoiled], {"axis": 1}, [t], STABLE)
    assert judge_tensor(torch.zeros(2, 3), nan).failed
    page = expected_jvp("softmax", [x], {"axis": 1}, [t], replace(STABLE, freedom="page"))
    assert judge_tensor(torch.zeros(2, 3), page).failed
