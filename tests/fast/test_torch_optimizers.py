"""The optimizers for torch: bit for bit torch's fused kernels, on torch's own test inputs."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import fast.torch as ours
from fast import Rejected

# It imports triton, so it must come after fast, which chooses how triton runs.
theirs = pytest.importorskip("torch.testing._internal.common_optimizers")

PAIRS = {
    "SGD": (ours.SGD, torch.optim.SGD),
    "Adam": (ours.Adam, torch.optim.Adam),
    "AdamW": (ours.AdamW, torch.optim.AdamW),
}
INPUTS = {
    "SGD": theirs.optim_inputs_func_sgd,
    "Adam": theirs.optim_inputs_func_adam,
    "AdamW": theirs.optim_inputs_func_adamw,
}
OURS = ("lr", "betas", "eps", "weight_decay", "momentum", "dampening", "nesterov")


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def twins() -> tuple[list[Tensor], list[Tensor]]:
    """Draw parameters of whole vectors: torch's kernels contract their scalar tails differently."""
    first = [drawn(*shape).requires_grad_() for shape in ((8, 8), (64,), (128,))]
    return first, [p.detach().clone().requires_grad_() for p in first]


def give_gradients(step: int, *lists: list[Tensor], gaps: bool = True) -> None:
    """Give both sides the same gradients; with gaps, the last parameter has one at odd steps only.

    torch's fused SGD reads a momentum buffer that nobody wrote where a parameter gets its first
    gradient later than the others (torch 2.13), so it is compared without gaps.
    """
    for params in lists:
        for k, p in enumerate(params):
            present = not gaps or k < 2 or step % 2
            p.grad = p.detach() * (k + 1) - step if present else None


def agree(one: torch.optim.Optimizer, two: torch.optim.Optimizer) -> None:
    """Compare parameters and states bit for bit."""
    for mine, yours in zip(one.param_groups, two.param_groups, strict=True):
        for p, q in zip(mine["params"], yours["params"], strict=True):
            assert p.equal(q)
            found, expected = one.state.get(p, {}), two.state.get(q, {})
            for name in expected.keys() | found.keys():
                x, y = found.get(name), expected.get(name)
                assert (x is None and y is None) or x.equal(y), name


def torchs_inputs() -> Iterator[Any]:
    for name, inputs in INPUTS.items():
        for case in inputs(device="cpu"):
            yield pytest.param(name, case.kwargs, id=f"{name}-{case.desc}")


@pytest.mark.parametrize(("name", "options"), list(torchs_inputs()))
def test_torchs_own_inputs_run_alike_or_are_refused(name: str, options: dict[str, Any]) -> None:
    mine, yours = PAIRS[name]
    first, second = twins()
    plain = all(type(v) in (float, bool, tuple) for v in options.values())
    if not plain or not options.keys() <= set(OURS):
        with pytest.raises(Rejected):
            mine(first, **options)
        return
    one, two = mine(first, **options), yours(second, **options, fused=True)
    for step in range(4):
        give_gradients(step, first, second, gaps=name != "SGD")
        one.step()
        two.step()
        agree(one, two)


@pytest.mark.parametrize("name", PAIRS)
def test_torchs_own_bad_inputs_are_refused(name: str) -> None:
    (info,) = (info for info in theirs.optim_db if info.optim_cls.__name__ == name)
    for case in info.optim_error_inputs_func(device="cpu", dtype=torch.float32):
        options = case.optimizer_error_input.kwargs
        if case.error_on is theirs.OptimizerErrorEnum.CONSTRUCTION_ERROR:
            with pytest.raises((Rejected, case.error_type)):
                PAIRS[name][0](case.optimizer_error_input.params, **options)


@pytest.mark.parametrize("name", PAIRS)
def test_parameter_groups_and_schedules_work(name: str) -> None:
    first, second = twins()
    kinds = zip(PAIRS[name], (first, second), ({}, {"fused": True}), strict=True)
    one, two = (
        kind([{"params": p[:1]}, {"params": p[1:], "lr": 0.5, "weight_decay": 0.25}], 0.1, **more)
        for kind, p, more in kinds
    )
    schedules = [torch.optim.lr_scheduler.ExponentialLR(o, 0.5) for o in (one, two)]
    for step in range(3):
        give_gradients(step, first, second)
        for optimizer, schedule in zip((one, two), schedules, strict=True):
            optimizer.step()
            schedule.step()
        agree(one, two)


@pytest.mark.parametrize("name", PAIRS)
def test_state_goes_to_torch_and_comes_back(name: str) -> None:
    options: dict[str, Any] = {"momentum": 0.9} if name == "SGD" else {}
    first, second = twins()
    one = PAIRS[name][0](first, 0.1, **options)
    two = PAIRS[name][1](second, 0.5, **options, fused=True)
    for step in range(6):
        if step == 2:
            two.load_state_dict(copy.deepcopy(one.state_dict()))
            two.param_groups[0]["fused"] = True
        if step == 4:
            one = PAIRS[name][0](first, 0.5, **options)
            one.load_state_dict(copy.deepcopy(two.state_dict()))
        give_gradients(step, first, gaps=name != "SGD")
        one.step()
        if step < 2:
            for p, q in zip(first, second, strict=True):
                q.data.copy_(p.data)
            continue
        for p, q in zip(first, second, strict=True):
            q.grad = None if p.grad is None else p.grad.clone()
        two.step()
        agree(one, two)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_a_copy_goes_on_as_the_original_would(copied: Any) -> None:
    first, _ = twins()
    one = ours.AdamW(first, provider="aten")
    give_gradients(1, first)
    one.step()
    two = copied(one)
    for optimizer in (one, two):
        give_gradients(2, optimizer.param_groups[0]["params"])
        optimizer.step()
    agree(one, two)
    assert two.param_groups[0]["params"][0] is not first[0]


def test_a_closure_is_run_with_gradients_and_its_loss_returned() -> None:
    p = torch.tensor([3.0], requires_grad=True)
    optimizer = ours.SGD([p], lr=0.25)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = p.square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 9.0
    assert p.item() == 1.5


def test_a_rejected_step_writes_nothing_in_any_group() -> None:
    first, _ = twins()
    optimizer = ours.AdamW([{"params": first[:1]}, {"params": first[1:]}])
    give_gradients(1, first)
    optimizer.step()
    before = copy.deepcopy(optimizer.state_dict()), [p.detach().clone() for p in first]
    for spoil, rule in (
        (lambda: optimizer.param_groups[1].update(lr=float("nan")), "adamw C1"),
        (lambda: optimizer.param_groups[1].update(lr=0.1, amsgrad=True), "amsgrad"),
        (
            lambda: (
                optimizer.param_groups[1].update(amsgrad=False)
                or setattr(first[2], "grad", torch.zeros(128).to_sparse())
            ),
            "sparse",
        ),
    ):
        spoil()
        with pytest.raises(Rejected, match=rule):
            optimizer.step()
        after = optimizer.state_dict()["state"]
        for k, state in before[0]["state"].items():
            assert all(state[name].equal(after[k][name]) for name in state)
        assert all(p.detach().equal(q) for p, q in zip(first, before[1], strict=True))


@pytest.mark.parametrize("flag", ["amsgrad", "maximize", "capturable", "differentiable", "foreach"])
def test_unsupported_flags_are_refused_not_ignored(flag: str) -> None:
    with pytest.raises(Rejected, match=f"{flag}=True is not supported"):
        ours.Adam(twins()[0], **{flag: True})


def test_states_of_another_algorithm_are_refused() -> None:
    first, second = twins()
    adamw = torch.optim.AdamW(second)
    adam = ours.Adam(first)
    before = adam.param_groups
    with pytest.raises(Rejected, match="decoupled_weight_decay is False"):
        adam.load_state_dict(adamw.state_dict())
    assert adam.param_groups is before


@pytest.mark.parametrize("name", PAIRS)
def test_kernels_and_torch_agree_on_what_is_exact(name: str) -> None:
    """One step from zero moments with powers of two: both providers must give the same bits."""
    options: dict[str, Any] = {"momentum": 0.5} if name == "SGD" else {"betas": (0.5, 0.5)}
    found = []
    for provider in ("aten", "triton"):
        p = torch.tensor([4.0, -2.0, 0.0], requires_grad=True)
        p.grad = torch.tensor([1.0, -4.0, 0.0])
        optimizer = PAIRS[name][0]([p], lr=0.5, weight_decay=0.0, **options, provider=provider)
        optimizer.step()
        found.append((p.detach(), *optimizer.state[p].values()))
    for one, two in zip(*found, strict=True):
        assert one.equal(two)
