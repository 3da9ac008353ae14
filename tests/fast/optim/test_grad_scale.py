"""A gradient scale: divided out before anything looks at the gradients, which stay as they are."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from fast import Rejected, Session

PROVIDERS = ["aten", "triton"]
STEPS = ["sgd", "adam", "adamw"]
START = torch.tensor([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]])


def stepped(
    provider: str, name: str, scale: float | None, precision: str = "fp32", **more: Any
) -> Tensor:
    """Update by the gradient of `scale` times a loss, divided by it where there is one."""
    s = Session(provider, precision, "cpu")
    w = s.param(START)
    for _ in range(3):
        s.reset_tape()
        loss = s.sum(s.square(s.tanh(s.use(w))))
        grads = s.backward(loss, None if scale is None else scale)
        before = s.grad(grads, w)
        given = {} if scale is None else {"grad_scale": scale}
        getattr(s, f"{name}_step")(0.5, grads=grads, **given, **more)
        assert torch.equal(s.grad(grads, w), before)
    return w.value()


@pytest.mark.parametrize("max_norm", [None, 0.5])
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_power_of_two_is_divided_out_exactly(
    provider: str, name: str, max_norm: float | None
) -> None:
    plain = stepped(provider, name, None, max_norm=max_norm)
    assert not torch.equal(plain, START)
    for scale in (1.0, 1024.0, 2.0**-7):
        assert torch.equal(stepped(provider, name, scale, max_norm=max_norm), plain)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_norm_is_that_of_the_divided_gradients(provider: str) -> None:
    s = Session(provider, "fp32", "cpu")
    w = s.param([0.0, 0.0])
    grads = s.backward(s.use(w), [24.0, 32.0])
    s.sgd_step(1.0, grads, max_norm=10.0, grad_scale=8.0)
    assert w.value().tolist() == [-3.0, -4.0]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_underflows_in_fp16_is_reached_by_a_scale(provider: str) -> None:
    """A cotangent of 2^-26 is 0 in fp16; times 2^16 it is not, and the masters are fp32."""

    def moved(scale: float) -> float:
        s = Session(provider, "fp16", "cpu")
        w = s.param([0.0])
        tiny = s.constant(2.0**-13, (1,))
        loss = s.sum(s.use(w) * tiny * tiny)
        s.sgd_step(1.0, s.backward(loss, scale), grad_scale=scale)
        return w.value().item()

    assert moved(1.0) == 0.0
    assert moved(2.0**12) == -(2.0**-26)


@pytest.mark.parametrize("what", ["inf", "nan"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_gradient_that_is_not_finite_spoils_its_entry_and_no_step_is_left_out(
    provider: str, what: str
) -> None:
    s = Session(provider, "fp32", "cpu")
    w = s.param([1.0, 2.0])
    s.sgd_step(0.5, s.backward(s.use(w), [float(what), 4.0]), grad_scale=2.0)
    spoiled, other = w.value().tolist()
    assert not math.isfinite(spoiled)
    assert other == 1.0


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (0.0, "clip C2: grad_scale is finite and > 0; got 0.0"),
        (-1.0, "clip C2: grad_scale is finite and > 0; got -1.0"),
        (math.inf, "clip C2: grad_scale is finite and > 0; got inf"),
        (math.nan, "clip C2: grad_scale is finite and > 0; got nan"),
        (True, "clip: grad_scale must be a number, got True"),
        ("2", "clip: grad_scale must be a number, got '2'"),
        (None, "clip: grad_scale must be a number, got None"),
    ],
)
@pytest.mark.parametrize("name", STEPS)
def test_a_bad_scale_is_refused_and_nothing_is_written(name: str, scale: Any, message: str) -> None:
    s = Session("aten", "fp32", "cpu")
    w = s.param([1.0])
    grads = s.backward(s.use(w), [1.0])
    with pytest.raises(Rejected, match=f"^{message}"):
        getattr(s, f"{name}_step")(0.5, grads=grads, grad_scale=scale)
    assert w.value().tolist() == [1.0]
    assert w.version == 0
