"""Clipping by value, and by the norm of each group: torch's own functions, and the reference."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import spec.session
from fast import CompiledSession, Rejected, Session, checkpoint
from fast.optim import OPTIMIZERS, Sgd
from fast.optim._chunks import CHUNK
from fast.train import scalar_trainer
from spec.tensor import tensor

PROVIDERS = ["aten", "triton"]
NAN, INF = math.nan, math.inf


def used(gradients: list[Any], provider: str, grad_scale: float = 1.0, **more: Any) -> list[Tensor]:
    """Take one step of plain SGD from 0 at rate 1, which leaves what was used, negated."""
    grads = [None if g is None else torch.as_tensor(g) for g in gradients]
    params = [torch.zeros(1) if g is None else torch.zeros_like(g) for g in grads]
    optimizer = Sgd(params, {"lr": 1.0}, provider, **more)
    optimizer.step(grads, grad_scale)
    return [-p for p in optimizer.params()]


def bits(tensors: list[Tensor]) -> list[list[str]]:
    return [[*map(repr, (0.0 + t).tolist())] for t in tensors]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_values_are_clipped_as_torchs_are(provider: str) -> None:
    torch.manual_seed(3)
    edges = torch.tensor([NAN, INF, -INF, 0.0, 1.0, -1.0, 0.75, -2.0, 3e38])
    gradients = [edges, 2 * torch.randn(2 * CHUNK + 7), torch.zeros(0)]
    for bound in (1.0, 0.1, 1e300):
        held = [torch.zeros_like(g).requires_grad_() for g in gradients]
        for p, g in zip(held, gradients, strict=True):
            p.grad = g.clone()
        torch.nn.utils.clip_grad_value_(held, min(bound, torch.finfo(torch.float32).max))
        expected = [p.grad for p in held if p.grad is not None]
        assert bits(used(gradients, provider, max_value=bound)) == bits(expected)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_scale_comes_first_then_values_then_the_norm(provider: str) -> None:
    # Divided by 2 they are 8, -3 and 0; clipped to 4 they are 4, -3 and 0, of norm 5.
    guarded = (torch.tensor(5.0) + 1e-6).item()
    found = used([[16.0, -6.0], [0.0]], provider, 2.0, max_value=4.0, max_norm=guarded / 2)
    assert [t.tolist() for t in found] == [[2.0, -1.5], [0.0]]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_group_has_a_norm_over_its_own_gradients(provider: str) -> None:
    guarded = (torch.tensor(5.0) + 1e-6).item()
    groups = [
        {"params": [1, 3], "max_norm": guarded / 4},
        {"params": [4], "max_norm": None},
        {"params": [5], "max_value": 0.5},
    ]
    gradients = [[3.0], [3.0], [4.0], [4.0], [99.0], None]
    found = used(gradients, provider, groups=groups, max_norm=guarded / 2)
    assert [t.tolist() for t in found] == [[1.5], [0.75], [2.0], [1.0], [99.0], [0.0]]
    # What is not finite in one group leaves the others alone.
    spoiled = used([[3.0], [NAN], [4.0], [4.0], [99.0], None], provider, groups=groups,
                   max_norm=guarded / 2)  # fmt: skip
    assert bits(spoiled) == [["1.5"], ["nan"], ["2.0"], ["nan"], ["99.0"], ["0.0"]]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_dtypes_share_the_norm_of_a_group(provider: str) -> None:
    guarded = (torch.tensor(5.0) + 1e-6).item()
    gradients = [
        torch.tensor([3.0]),
        torch.tensor([4.0], dtype=torch.bfloat16),
        torch.tensor([8.0], dtype=torch.bfloat16),
    ]
    found = used(gradients, provider, groups=[{"params": [0, 1], "max_norm": guarded / 2}])
    assert [t.tolist() for t in found] == [[1.5], [2.0], [8.0]]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_is_given_what_was_clipped(provider: str, name: str) -> None:
    """Of (16, -1) and 8, divided by 4, what is beyond 2 is cut, or 3 by the group's own bound."""
    values = []
    for given, more in (
        (([[16.0, -1.0]], [[8.0]]), {"max_value": 2.0, "grad_scale": 4.0}),
        (([[2.0, -0.25]], [[2.0]]), {}),
    ):
        s = Session(provider, "fp32", "cpu")
        params = [s.param([[1.0, -2.0]]), s.param([[0.5]])]
        leaves = [s.use(p).id for p in params]
        for _ in range(2):
            grads = dict(zip(leaves, given, strict=True))
            getattr(s, f"{name}_step")(lr=0.25, grads=grads, **more)
        values.append([p.value() for p in params])
    assert all(map(torch.equal, *values))


def clipped_steps(s: Any, lift: Any, named: bool = True) -> list[Any]:
    """Take steps by bounds of groups, in the order of a program that reaches another part each."""
    w, b, c = (s.param(lift(start)) for start in ([1.0, 2.0], [3.0], [0.5, -4.0]))
    groups = [{"params": [b], "max_norm": 0.5}, {"params": [c], "max_value": 0.25}]
    for reached in ((w, b, c), (b,), (w, c)):
        s.reset_tape()
        total = [s.sum(s.square(s.use(p))) for p in reached]
        loss = total[0]
        for term in total[1:]:
            loss = s.add(loss, term)
        grads = s.backward(loss)
        s.sgd_step(0.5, grads, momentum=0.5, groups=groups, max_norm=1.5, max_value=3.0)
    return [w, b, c]


@pytest.mark.parametrize("make", [Session, CompiledSession])
def test_the_reference_takes_the_same_steps(make: Any) -> None:
    ours = clipped_steps(make("aten", "fp64", "cpu"), list)
    theirs = clipped_steps(spec.session.Session(), tensor)
    for mine, other in zip(ours, theirs, strict=True):
        # A few roundings of doubles each: the steps are short.
        difference = mine.value() - torch.tensor(other.value.nested(), dtype=torch.float64)
        assert difference.abs().max() < 2.0**-48


def test_a_checkpoint_takes_groups_with_bounds(tmp_path: Path) -> None:
    sessions = [Session("aten", "fp32", "cpu") for _ in range(2)]
    for s in sessions:
        w = s.param([3.0, 4.0], name="w")
        hyper: Any = {"lr": 0.5, "groups": [{"params": [w], "max_norm": 1.0, "max_value": 0.5}]}
        if s is sessions[0]:
            s.adamw_step(grads=s.backward(s.sum(s.square(s.use(w)))), **hyper)
            checkpoint.save(tmp_path / "c", s)
        else:
            checkpoint.load(tmp_path / "c", s, optimizers={"adamw": hyper})
    assert sessions[0].params[0].value().tolist() == sessions[1].params[0].value().tolist()


def test_lists_and_trainers_clip_as_sessions_do() -> None:
    def loss(ops: Any, w: Any, x: Any) -> Any:
        return ops.sum(ops.mul(w, x))

    x = torch.tensor([8.0, 0.25])
    trainer = scalar_trainer(loss, [torch.ones(2)], provider="aten", device="cpu")
    trainer.step(1.0, [x], max_value=2.0)
    assert trainer.params.values()[0].tolist() == [-1.0, 0.75]
    groups = [{"params": [trainer.params.params[0]], "max_value": 1.0}]
    trainer.params.sgd_step(1.0, [x], max_value=2.0, groups=groups)
    assert trainer.params.values()[0].tolist() == [-2.0, 0.5]


def test_gradients_stay_and_spare_memory_is_returned() -> None:
    s = Session("aten", "fp32", "cpu")
    w = s.param([3.0, 4.0])
    with s.backward(s.sum(s.square(s.use(w)))) as grads:
        s.sgd_step(0.5, grads, max_value=1.0)
        assert s.grad(grads, w).tolist() == [6.0, 8.0]
    held = len(s.store._pool)
    for _ in range(3):
        s.reset_tape()
        with s.backward(s.sum(s.square(s.use(w)))) as grads:
            s.sgd_step(0.5, grads, max_value=1.0)
    assert len(s.store._pool) == held


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("bad", [0.0, -1.0, NAN, INF, "1", True])
@pytest.mark.parametrize("key", ["max_norm", "max_value"])
def test_a_bound_that_is_none_is_refused_and_changes_nothing(
    provider: str, bad: Any, key: str
) -> None:
    s = Session(provider, "fp32", "cpu")
    w = s.param([3.0, 4.0])
    grads = s.backward(s.sum(s.square(s.use(w))))
    for given in ({key: bad}, {"groups": [{"params": [w], key: bad}]}):
        with pytest.raises(Rejected, match=rf"^clip.*{key}"):
            s.sgd_step(0.5, grads, **given)
    assert w.value().tolist() == [3.0, 4.0]
    optimizer = Sgd([torch.ones(2)], {"lr": 1.0}, provider, max_value=1.0)
    with pytest.raises(Rejected, match=r"^clip.*max_value"):
        optimizer.set_max_value(bad)
    optimizer.step([torch.tensor([4.0, 0.5])])
    assert optimizer.params()[0].tolist() == [0.0, 0.5]
