"""A run goes on in torch.optim and comes back; what only torch has is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.optim import SGD, Adadelta, Adagrad, Adam, AdamW, RMSprop

from fast import Rejected, Session
from fast.checkpoint.interchange import from_torch, to_torch
from fast.checkpoint.snapshot import read
from fast.optim import OPTIMIZERS

SHAPES = [(8, 16), (64,), (2, 32)]
"""Multiples of 64: torch's kernels contract the last few elements of a tensor otherwise."""

SHARED = [name for name, rule in OPTIMIZERS.items() if rule.torch is not None]

RUNS: list[tuple[str, Any, dict[str, Any]]] = [
    ("sgd", SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("sgd", SGD, {"lr": 0.1, "momentum": 0.5, "dampening": 0.25}),
    ("sgd", SGD, {"lr": 0.1}),
    ("adagrad", Adagrad, {"lr": 0.1, "lr_decay": 0.5, "initial_accumulator_value": 0.25}),
    ("adagrad", Adagrad, {"lr": 0.1, "weight_decay": 0.1, "eps": 1e-3, "maximize": True}),
    ("adam", Adam, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1}),
    ("adamw", AdamW, {"lr": 0.01, "amsgrad": True, "maximize": True}),
    ("sgd", SGD, {"lr": 0.1, "momentum": 0.9, "maximize": True}),
    ("adam", Adam, {"lr": 0.01, "beta1": 0.8, "weight_decay": 0.1}),
    ("adamw", AdamW, {"lr": 0.01, "beta2": 0.99, "eps": 1e-6}),
]


def session(precision: str = "fp32") -> Session:
    torch.manual_seed(0)
    s = Session(provider="aten", device="cpu", precision=precision)
    for k, shape in enumerate(SHAPES):
        s.param(torch.randn(shape), name=f"p{k}")
    return s


def gradients(turn: int) -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(turn)
    return [torch.randn(shape, generator=made) for shape in SHAPES]


def step(s: Session, name: str, turn: int, skip: int | None = None, **hyper: Any) -> None:
    """Update by drawn gradients; `skip` leaves one parameter out."""
    s.reset_tape()
    for parameter in s.params:
        s.use(parameter)
    grads: Any = dict(enumerate(gradients(turn)))
    if skip is not None:
        grads[skip] = None
    getattr(s, f"{name}_step")(grads=grads, **hyper)


def torch_step(optimizer: Any, params: list[Any], turn: int) -> None:
    for parameter, gradient in zip(params, gradients(turn), strict=True):
        parameter.grad = gradient.to(parameter.dtype)
    optimizer.step()


def tensors(s: Session) -> list[Any]:
    return [p.value().requires_grad_() for p in s.params]


def put(s: Session, values: list[Any]) -> None:
    for parameter, value in zip(s.params, values, strict=True):
        parameter.set(value.detach())


def everything(s: Session, name: str) -> list[Any]:
    """Values and state of every parameter, as bytes and numbers."""
    found: list[Any] = []
    for p in s.params:
        state = s.optimizer_state(name, p)
        for part in (p.value(), *state.values()):
            found.append(part.numpy().tobytes() if isinstance(part, torch.Tensor) else part)
    return found


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
@pytest.mark.parametrize(("name", "kind", "hyper"), RUNS)
def test_a_run_goes_on_in_torch_and_comes_back(
    name: str, kind: Any, hyper: dict[str, Any], precision: str
) -> None:
    whole, s = session(precision), session(precision)
    for turn in range(6):
        step(whole, name, turn, skip=1 if turn == 0 else None, **hyper)
    step(s, name, 0, skip=1, **hyper)
    step(s, name, 1, **hyper)
    values = tensors(s)
    optimizer = kind(values, lr=1.0)
    optimizer.load_state_dict(to_torch(s, name, fused=True))
    for turn in (2, 3):
        torch_step(optimizer, values, turn)
    back = session(precision)
    put(back, values)
    groups = from_torch(back, name, optimizer.state_dict())
    for turn in (4, 5):
        step(back, name, turn, groups=groups, **({"lr": 1.0} if name == "sgd" else {}))
    assert everything(back, name) == everything(whole, name)


UNFUSED: list[tuple[str, Any, dict[str, Any]]] = [
    ("rmsprop", RMSprop, {"lr": 0.01}),
    ("rmsprop", RMSprop, {"lr": 0.01, "momentum": 0.5}),
    ("rmsprop", RMSprop, {"lr": 0.01, "centered": True, "alpha": 0.75}),
    ("adadelta", Adadelta, {"lr": 0.5, "rho": 0.75, "maximize": True}),
]


@pytest.mark.parametrize(("name", "kind", "hyper"), UNFUSED)
def test_a_state_has_torchs_layout_and_goes_there_and_back(
    name: str, kind: Any, hyper: dict[str, Any]
) -> None:
    s, alone = session(), tensors(session())
    for turn in range(2):
        step(s, name, turn, **hyper)
    known = kind(alone, **hyper)
    torch_step(known, alone, 0)
    values = tensors(s)
    optimizer = kind(values, lr=1.0)
    optimizer.load_state_dict(to_torch(s, name))
    for p, q in zip(values, alone, strict=True):
        assert optimizer.state[p].keys() == known.state[q].keys()
    back = session()
    put(back, values)
    from_torch(back, name, optimizer.state_dict())
    assert everything(back, name) == everything(s, name)
    torch_step(optimizer, values, 2)
    with pytest.raises(Rejected, match=f"to_torch: torch's {kind.__name__} has no flag fused"):
        to_torch(s, name, fused=True)


def test_groups_and_names_survive(tmp_path: Any) -> None:
    s = session()
    s.params[2].requires_grad = False
    groups = [{"params": [s.params[1]], "lr": 0.5, "weight_decay": 0.0}]
    step(s, "adamw", 0, lr=0.01, groups=groups)
    found = to_torch(s, "adamw")
    assert [g["params"] for g in found["param_groups"]] == [[0, 1], [2]]
    assert [g["param_names"] for g in found["param_groups"]] == [["p0", "p2"], ["p1"]]
    assert [g["lr"] for g in found["param_groups"]] == [0.01, 0.5]
    assert set(found["state"]) == {0, 2}, "what was frozen has no state yet"
    values = tensors(s)
    optimizer = AdamW([{"params": [values[0], values[2]]}, {"params": [values[1]]}])
    optimizer.load_state_dict(found)
    path = tmp_path / "state"
    torch.save(optimizer.state_dict(), path)
    again = session()
    put(again, values)
    again.params[2].requires_grad = False
    came = from_torch(again, "adamw", torch.load(path, weights_only=True))
    assert [[p.name for p in group["params"]] for group in came] == [["p0", "p2"], ["p1"]]
    assert came[1]["lr"] == 0.5 and came[1]["weight_decay"] == 0.0
    step(s, "adamw", 1, lr=0.01, groups=groups)
    step(again, "adamw", 1, groups=came)
    assert everything(again, "adamw") == everything(s, "adamw")
    assert to_torch(again, "adamw")["param_groups"] == to_torch(s, "adamw")["param_groups"]


def test_what_torch_never_updated_starts_afresh() -> None:
    s, values = session(), tensors(session())
    step(s, "adamw", 0)
    optimizer = AdamW(values, lr=0.01, foreach=False)
    torch_step(optimizer, values, 0)
    (group,) = from_torch(s, "adamw", AdamW(values).state_dict())
    assert [s.optimizer_state("adamw", p)["step"] for p in s.params] == [0, 0, 0]
    assert group["lr"] == 1e-3 and group["params"] == s.params
    state = optimizer.state_dict()
    del state["state"][1]
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    from_torch(s, "adamw", {**optimizer.state_dict(), "state": state["state"]})
    assert [s.optimizer_state("adamw", p)["step"] for p in s.params] == [1, 0, 1]


Change = Callable[[dict[str, Any]], object]


def made(kind: Any) -> dict[str, Any]:
    values = tensors(session())
    optimizer = kind(values, lr=0.01)
    torch_step(optimizer, values, 0)
    return dict(optimizer.state_dict())


def group(**entries: Any) -> Change:
    """Change the hyper-parameters and flags."""
    return lambda state: state["param_groups"][0].update(entries)


def held(**entries: Any) -> Change:
    """Change what is remembered of the second parameter."""
    return lambda state: state["state"][1].update(entries)


NAN = torch.full((64,), float("nan"))
REFUSED: list[tuple[Any, Any, Change, str]] = [
    ("adamw", AdamW, group(capturable=True), "group 0: capturable is set, and adamw here has no"),
    ("sgd", SGD, group(differentiable=True), "group 0: differentiable is set"),
    ("adamw", AdamW, group(max_lr=0.1), "missing or unknown: ['max_lr']"),
    ("adam", AdamW, group(), "group 0: decoupled_weight_decay is the difference"),
    ("adamw", Adam, group(), "group 0: decoupled_weight_decay is the difference"),
    ("adamw", SGD, group(), "group 0: adamw has"),
    ("sgd", AdamW, group(), "group 0: "),
    ("adamw", AdamW, group(weight_decay=float("inf")), "group 0: adamw C1"),
    ("adamw", AdamW, group(params=3), "group 0: 'params' lists"),
    ("adamw", AdamW, group(params=[0, 1]), "has 3 parameters, got 2"),
    ("nadam", AdamW, group(), f"share {SHARED}, got 'nadam'"),
    ("adamw", AdamW, held(max_exp_avg_sq=NAN), "p1/max_exp_avg_sq: every number is finite"),
    ("adamw", AdamW, held(momentum_buffer=NAN), "the state of 'p1' has"),
    ("adamw", AdamW, held(exp_avg=None), "the state of 'p1' has"),
    ("adamw", AdamW, held(exp_avg=NAN), "state/adamw/p1/exp_avg: every number is finite"),
    (
        "adamw",
        AdamW,
        held(exp_avg=torch.ones(63)),
        "the exp_avg of 'p1' must be a tensor of shape",
    ),
    ("adamw", AdamW, held(exp_avg=torch.ones(64).double()), "p1/exp_avg: the session's"),
    (
        "adamw",
        AdamW,
        held(exp_avg=[0.0] * 64),
        "the exp_avg of 'p1' must be a tensor of shape",
    ),
    ("adamw", AdamW, held(step=torch.tensor(0.5)), "the step of 'p1' counts the updates"),
    ("adamw", AdamW, held(step=0), "the exp_avg of 'p1' was made by at least one step"),
    ("adamw", AdamW, lambda state: state.pop("param_groups"), "has 'param_groups'"),
    ("adamw", AdamW, lambda state: state.pop("state"), "has 'state'"),
    ("adamw", AdamW, lambda state: state["state"].update({7: {}}), "state 7 belongs to no"),
    ("adamw", AdamW, lambda state: state["param_groups"].clear(), "has 3 parameters, got 0"),
    ("adamw", AdamW, lambda state: state.update(param_groups=[5]), "group 0 is a mapping, got int"),
    ("adamw", AdamW, lambda state: state.update(param_groups="ab"), "has 'param_groups'"),
    ("adamw", AdamW, lambda state: state["state"].update({0: 5}), "the state of 'p0' has"),
    ("adamw", AdamW, group(betas=(0.9,)), "group 0: betas are two numbers, got (0.9,)"),
    ("adamw", AdamW, group(betas=(0.9, 0.99, 0.999)), "group 0: betas are two numbers"),
    ("adamw", AdamW, group(betas=0.9), "group 0: betas are two numbers, got 0.9"),
    ("adamw", AdamW, group(betas=None), "group 0: betas are two numbers, got None"),
    ("adamw", AdamW, group(betas="ab"), "group 0: betas are two numbers, got 'ab'"),
    ("adamw", AdamW, group(betas=("a", 0.9)), "group 0, beta1: "),
    ("adamw", AdamW, group(lr=None), "from_torch: group 0, lr: "),
    ("adamw", AdamW, group(lr="0.1"), "from_torch: group 0, lr: "),
    ("adamw", AdamW, group(lr=True), "from_torch: group 0, lr: "),
    ("adamw", AdamW, group(lr=torch.ones(2)), "from_torch: group 0, lr: "),
    ("adamw", AdamW, group(lr=torch.tensor(1j)), "from_torch: group 0, lr: "),
    ("adamw", AdamW, group(lr=torch.ones((), device="meta")), "from_torch: group 0, lr: "),
    ("adamw", AdamW, group(lr=10**400), "from_torch: group 0: adamw C1"),
    ("adamw", AdamW, group(amsgrad=torch.tensor(False)), "amsgrad is True or False"),
    ("adamw", AdamW, group(maximize=torch.ones(2)), "maximize is True or False"),
    ("adamw", AdamW, group(decoupled_weight_decay=torch.ones(2)), "decoupled_weight_decay is True"),
    ("sgd", SGD, group(nesterov=1), "from_torch: group 0: sgd"),
    ("adamw", AdamW, group(param_names=None), "group 0: param_names are a list, got NoneType"),
    ("adamw", AdamW, group(param_names="pqr"), "group 0: param_names are a list, got str"),
    ("adamw", AdamW, group(param_names=["p0", "p1", ["p2"]]), "got the names"),
    ("adamw", AdamW, group(params="012"), "group 0: 'params' lists"),
    ("adamw", AdamW, group(params=[[0], [1], [2]]), "group 0: 'params' lists the indices"),
    ("adamw", AdamW, group(params=[0, 1, 1]), "group 0: 'params' lists the indices"),
    ("adamw", AdamW, group(params=[0, True, 2]), "group 0: 'params' lists the indices"),
    ("adamw", AdamW, lambda state: state["param_groups"][0].update({5: 1}), "unknown: [5]"),
    ("adamw", AdamW, lambda state: state["state"][1].update({5: 1}), "the state of 'p1' has"),
    (
        "adamw",
        AdamW,
        held(exp_avg=torch.ones(64).to_sparse()),
        "exp_avg of 'p1': a dense tensor",
    ),
    (
        "adamw",
        AdamW,
        held(exp_avg=torch.ones(64, device="meta")),
        "exp_avg of 'p1': a dense tensor",
    ),
    (
        "adamw",
        AdamW,
        held(exp_avg=torch.ones(64) * 1j),
        "exp_avg of 'p1': a tensor of",
    ),
    (
        "adamw",
        AdamW,
        held(exp_avg=torch.ones(64).to(torch.float8_e4m3fn)),
        "exp_avg of 'p1': a",
    ),
    ("adamw", AdamW, held(exp_avg_sq=-torch.ones(64)), "p1/exp_avg_sq: a mean of squares"),
    ("adamw", AdamW, held(step=torch.tensor(1j)), "from_torch: the step of 'p1': "),
    ("adamw", AdamW, held(step="1"), "from_torch: the step of 'p1': "),
    ("adamw", AdamW, held(step=float("nan")), "the step of 'p1' counts the updates"),
    ("adamw", AdamW, held(step=10**30), "the step of 'p1' counts the updates"),
    (["adamw"], AdamW, group(), f"share {SHARED}, got ['adamw']"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_cannot_be_taken_over_is_refused(number: int) -> None:
    name, kind, change, message = REFUSED[number]
    s, state = session(), made(kind)
    step(s, "adamw", 5)
    before = everything(s, "adamw")
    change(state)
    with pytest.raises(Rejected) as caught:
        from_torch(s, name, state)
    assert message in str(caught.value)
    assert everything(s, "adamw") == before


def test_names_that_are_others_are_refused() -> None:
    named = list(zip(["p0", "p1", "q"], tensors(session()), strict=True))
    with pytest.raises(Rejected, match=r"the session has \['p0', 'p1', 'p2'\], got the names"):
        from_torch(session(), "adamw", AdamW(named).state_dict())
    with pytest.raises(Rejected, match="got the names"):
        from_torch(session(), "adamw", AdamW(named[:2]).state_dict())
    s = session()
    s.params[2].requires_grad = False
    (group,) = from_torch(s, "adamw", AdamW(named[:2]).state_dict())
    assert [p.name for p in group["params"]] == ["p0", "p1"]


def test_before_the_first_step_there_is_nothing_to_hand_over() -> None:
    s = session()
    with pytest.raises(Rejected, match="adamw has updated nothing in this session"):
        to_torch(s, "adamw")
    assert not any(read(s).optimizers.values())
