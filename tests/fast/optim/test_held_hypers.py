"""Hyper-parameters are checked as the format that computes with them holds them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fast
import fast.torch
from fast import Rejected
from fast.optim import OPTIMIZERS
from fast.optim._functional import Functional

NEAR_ONE = 1.0 - 2.0**-30
BROKEN: list[tuple[str, dict[str, Any], str]] = [
    (
        "adam",
        {"beta1": NEAR_ONE},
        r"adam C2: beta1 lies in \[0, 1\); got 1.0, which beta1=0.9\d* becomes in float32",
    ),
    ("adamw", {"beta2": NEAR_ONE}, "adamw C2: beta2 .* got 1.0, which beta2=.* becomes in float32"),
    ("adamw", {"eps": 1e-50}, "adamw C3: eps is finite and > 0; got 0.0, which eps=1e-50 becomes"),
    ("adagrad", {"eps": 1e-60}, "adagrad C2: eps .* got 0.0, which eps=1e-60 becomes"),
    ("adagrad", {"initial_accumulator_value": 1e39}, "adagrad C1: .* got inf, which initial_"),
    ("rmsprop", {"alpha": NEAR_ONE}, "rmsprop C2: alpha .* got 1.0, which alpha="),
    ("adadelta", {"rho": NEAR_ONE}, "adadelta C2: rho .* got 1.0, which rho="),
    ("lion", {"beta2": NEAR_ONE}, "lion C2: beta2 .* got 1.0, which beta2="),
    ("sgd", {"lr": 1e39}, r"sgd C1: lr is finite .* got inf, which lr=1e\+39 becomes"),
]


@pytest.mark.parametrize(("name", "hyper", "message"), BROKEN)
def test_what_a_format_makes_of_a_number_is_refused_by_everyone(
    name: str, hyper: dict[str, Any], message: str
) -> None:
    given = {"lr": 0.1, **hyper}
    for precision in ("fp32", "bf16"):
        s = fast.Session(provider="aten", device="cpu", precision=precision)
        w = s.param([1.0, 2.0])
        grads = s.backward(s.sum(s.square(s.use(w))))
        for groups in (None, [{"params": [w]}]):
            with pytest.raises(Rejected, match=message):
                getattr(s, f"{name}_step")(grads=grads, **given, groups=groups)
        with pytest.raises(Rejected, match=message):
            getattr(s, f"{name}_step")(grads=grads, lr=0.1, groups=[{"params": [w], **hyper}])
        assert w.value().tolist() == [1.0, 2.0]
    with pytest.raises(Rejected, match=message):
        Functional(OPTIMIZERS[name], [torch.ones(2)], given, "aten")


@pytest.mark.parametrize(("name", "hyper", "message"), BROKEN)
def test_doubles_hold_the_same_numbers(name: str, hyper: dict[str, Any], message: str) -> None:
    del message
    given = {"lr": 0.1, **hyper}
    Functional(OPTIMIZERS[name], [torch.ones(2, dtype=torch.float64)], given, "aten")


@pytest.mark.parametrize("provider", ["aten", "triton"])
def test_a_class_for_torch_refuses_them_before_a_step_writes(provider: str) -> None:
    p = torch.nn.Parameter(torch.ones(2))
    with pytest.raises(Rejected, match=r"adamw C3: eps .* got 0\.0, which eps=1e-50 becomes"):
        fast.torch.AdamW([p], eps=1e-50, provider=provider)
    optimizer = fast.torch.AdamW([p], provider=provider)
    p.grad = torch.ones(2)
    optimizer.param_groups[0]["betas"] = (0.9, NEAR_ONE)
    with pytest.raises(Rejected, match=r"adamw C2: beta2 .* got 1\.0, which beta2="):
        optimizer.step()
    assert p.tolist() == [1.0, 1.0] and not optimizer.state
