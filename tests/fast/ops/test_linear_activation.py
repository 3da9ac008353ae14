"""A linear layer and its curve, against the two pages that it is made of."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fast import Session
from fast.errors import Rejected
from fast.kernels import product, split_k
from fast.ops import OPS, linear
from fast.ops.linear_activation import ACTIVATIONS

OP = OPS["linear_activation"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_is_enough")]

PROVIDERS = ("triton", "aten")
NARROW = (torch.bfloat16, torch.float16)
SIZES = [(1, 1, 1), (0, 3, 2), (2, 0, 3), (3, 5, 7), (65, 9, 33), (16, 8, 64), (129, 64, 136)]
"""Rows, inputs and results: less than half a tile's columns, half of them, and more than all."""


def signs(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw from -1, 0 and 1, so that sums are exact in any order."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-1, 2, shape, generator=generator).to(dtype)


def layer(
    size: tuple[int, int, int], dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor]:
    rows, inputs, results = size
    x, w = signs(rows, inputs, dtype=dtype), signs(results, inputs, dtype=dtype)
    return x, w, signs(results, dtype=dtype)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("size", SIZES)
def test_it_is_the_curve_of_the_layer(
    size: tuple[int, int, int], provider: str, activation: str
) -> None:
    x, w, b = layer(size)
    page, attributes = ACTIVATIONS[activation]
    (value, vjp), (bend, back) = OP.hosts(provider), page.hosts(provider)
    (layered, layered_back), needs = linear.op.hosts(provider), (True, True, True)
    y, layer_saved = layered(x, w, b)
    truth, curve_saved = bend(y, **attributes)
    g = signs(*y.shape)
    (bent,) = back(curve_saved, g, (True,))
    assert bent is not None
    z, saved = value(x, w, b, activation=activation)
    assert torch.equal(z, truth)
    found, wanted = vjp(saved, g, needs), layered_back(layer_saved, bent, needs)
    assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))
    assert vjp(saved, g, (False, False, False)) == (None, None, None)


@pytest.mark.parametrize("activation", [name for name in ACTIVATIONS if name != "relu"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_sum_is_bent_before_it_is_rounded(provider: str, activation: str) -> None:
    # The terms fit 16 bits, and most of the sums do not.
    steps = torch.arange(64) * 2.0**-14
    x, w = torch.ones(1, 2), torch.stack((torch.full((64,), 0.5), steps), 1)
    inputs = [t.half() for t in (x, w, torch.zeros(64))]
    page, attributes = ACTIVATIONS[activation]
    bend = page.hosts(provider)[0]
    z, (kept, *_) = OP.hosts(provider)[0](*inputs, activation=activation)
    sums = (0.5 + steps)[None]
    assert torch.equal(z, bend(sums, **attributes)[0].half())
    assert not torch.equal(z, bend(sums.half(), **attributes)[0])
    assert torch.equal(kept if provider == "triton" else kept[0], sums.half())


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("dtype", (torch.float32, *NARROW))
def test_relu_saves_its_result_alone(provider: str, dtype: torch.dtype) -> None:
    x, w, b = layer((3, 5, 7), dtype)
    z, saved = OP.hosts(provider)[0](x, w, b, activation="relu")
    kept = saved[0] if isinstance(saved[0], Tensor) else saved[0][0]
    assert kept.data_ptr() == z.data_ptr()
    assert [one for one in saved[1:] if isinstance(one, Tensor)] == [x, w]


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_products_of_the_gradient_have_16_bits(
    activation: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[torch.dtype] = []

    def multiplied(x: Tensor, y: Tensor, tf32: bool) -> Tensor:
        met.extend((x.dtype, y.dtype))
        return product.product(x, y, tf32)

    monkeypatch.setattr(linear, "product", multiplied)
    _, saved = OP.value(*layer((3, 5, 7), dtype), activation=activation)
    OP.vjp(saved, signs(3, 7, dtype=dtype), (True, True, True))
    assert met == [dtype] * 4


@pytest.mark.parametrize(
    ("inputs", "kernels"), [(9, ["_bent_kernel"]), (130, ["_product_kernel", "_add_parts_kernel"])]
)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_one_launch_makes_both_unless_there_are_parts(
    activation: str, inputs: int, kernels: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[str] = []
    launch = product.launch

    def launched(kernel: Any, grid: Any, *args: Any, **meta: Any) -> None:
        met.append(kernel.__name__)
        launch(kernel, grid, *args, **meta)

    for module in (product, split_k):
        monkeypatch.setattr(module, "launch", launched)
    monkeypatch.setattr(split_k, "PARTS", dict.fromkeys(split_k.PARTS, 64))
    x, w, b = layer((5, inputs, 7))
    z, saved = OP.value(x, w, b, activation=activation)
    assert met == kernels
    page, attributes = ACTIVATIONS[activation]
    y = x @ w.t() + b
    assert torch.equal(z, page.value(y, **attributes)[0])
    assert torch.equal(saved[0], z if activation == "relu" else y)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_session_takes_it_with_any_leading_axes(provider: str) -> None:
    x, w, b = signs(2, 3, 5), signs(7, 5), signs(7)

    def found(fused: bool) -> list[Tensor]:
        s = Session(provider=provider, device="cpu")
        refs = [s.input(t, requires_grad=True) for t in (x, w, b)]
        made = (
            s.linear_activation(*refs, activation="gelu_tanh")
            if fused
            else s.gelu(s.linear(*refs), approximate="tanh")
        )
        with s.backward(s.sum(s.square(made))) as grads:
            return [s.value(made), *(s.grad(grads, ref) for ref in refs)]

    assert all(
        torch.equal(one, other) for one, other in zip(found(True), found(False), strict=True)
    )


@pytest.mark.parametrize("other", ["none", "GELU", None, ("relu",)])
def test_other_curves_are_refused(other: Any) -> None:
    with pytest.raises(
        Rejected, match=r"linear_activation C4: activation is one of \('relu', .*got"
    ):
        OP.check(*layer((2, 3, 4)), activation=other)


def test_what_does_not_fit_is_refused_by_its_own_name() -> None:
    x, w, b = layer((2, 3, 4))
    with pytest.raises(Rejected, match="linear_activation C1"):
        OP.check(x, b, b, activation="relu")
    with pytest.raises(Rejected, match="linear_activation C2"):
        OP.check(x[:, :2], w, b, activation="relu")
    with pytest.raises(Rejected, match="linear_activation C3"):
        OP.check(x, w, b[:1], activation="relu")
    with pytest.raises(Rejected, match="linear_activation: inputs have one dtype"):
        OP.check(x, w, b.double(), activation="relu")
