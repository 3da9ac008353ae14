"""The state of the optimizers for torch: what is refused, and that the next step uses it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import fast.torch as ours
from fast import Rejected
from fast.optim._functional import Functional
from fast.torch import _optimizers
from tests.support import same

pytestmark = pytest.mark.usefixtures("memory")

BETAS = (0.5, 0.75)


def made(seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(64, generator=generator).requires_grad_() for _ in range(2)]


def stepped(optimizer: torch.optim.Optimizer, *turns: int) -> Any:
    """Take a step with drawn gradients for each turn."""
    for turn in turns:
        generator = torch.Generator().manual_seed(turn)
        for group in optimizer.param_groups:
            for p in group["params"]:
                p.grad = torch.randn(p.shape, generator=generator).to(p.dtype)
        optimizer.step()
    return optimizer


def values(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Copy parameters and state, in order."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    states = [optimizer.state.get(p, {}) for p in params]
    held = [state[name] for state in states for name in sorted(state) if state[name] is not None]
    return [x.detach().clone() for x in (*params, *held)]


MAKERS: dict[str, Callable[[list[Tensor]], Any]] = {
    "SGD": lambda p: ours.SGD(p, 0.1, momentum=0.5),
    "plain SGD": lambda p: ours.SGD(p, 0.1),
    "Adam": lambda p: ours.Adam(p),
    "AdamW": lambda p: ours.AdamW(p),
    "torch SGD": lambda p: torch.optim.SGD(p, 0.1, momentum=0.5),
    "torch plain SGD": lambda p: torch.optim.SGD(p, 0.1),
    "torch Adam": lambda p: torch.optim.Adam(p),
    "torch AdamW": lambda p: torch.optim.AdamW(p),
    "torch RMSprop": lambda p: torch.optim.RMSprop(p, momentum=0.5),
    "torch RAdam": lambda p: torch.optim.RAdam(p),
    "torch NAdam": lambda p: torch.optim.NAdam(p),
    "torch Adamax": lambda p: torch.optim.Adamax(p),
}
OF = {name: name.split()[-1] for name in MAKERS}


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("taker", ["SGD", "plain SGD", "Adam", "AdamW"])
@pytest.mark.parametrize("giver", MAKERS)
def test_the_state_of_another_algorithm_is_refused(giver: str, taker: str, steps: int) -> None:
    given = stepped(MAKERS[giver](made()), *range(steps)).state_dict()
    optimizer = stepped(MAKERS[taker](made(1)), 7)
    before, groups = values(optimizer), copy.deepcopy(optimizer.state_dict()["param_groups"])
    if OF[giver] == OF[taker]:
        optimizer.load_state_dict(given)
        return
    with pytest.raises(Rejected, match=f"^{OF[taker]}: "):
        optimizer.load_state_dict(given)
    assert same(values(optimizer), before)
    assert optimizer.state_dict()["param_groups"] == groups
    twin = stepped(MAKERS[taker](made(1)), 7, 8)
    assert same(values(stepped(optimizer, 8)), values(twin))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_groups_say_what_torchs_say(name: str) -> None:
    mine, yours = getattr(ours, name)(made()), getattr(torch.optim, name)(made())
    (one,), (two,) = mine.param_groups, yours.param_groups
    two.pop("params")
    assert {key: one[key] for key in two} == two and one.keys() == {*two, "params"}


Change = Callable[[dict[str, Any]], object]


def state(**entries: Any) -> Change:
    """Change the state of the second parameter."""
    return lambda found: found["state"][1].update(entries)


def group(**entries: Any) -> Change:
    return lambda found: found["param_groups"][0].update(entries)


def without(field: str) -> Change:
    return lambda found: (found["state"][1].pop(field, 0), found["param_groups"][0].pop(field, 0))


REFUSED: list[tuple[Change, str]] = [
    (
        without("step"),
        r"the state of parameter 1 has \['exp_avg', 'exp_avg_sq', 'step'\] and .* got",
    ),
    (without("exp_avg"), r"the state of parameter 1 has .* got \['exp_avg_sq', 'step'\]"),
    (state(momentum_buffer=torch.ones(64)), "the state of parameter 1 has"),
    (state(exp_avg=torch.ones(63)), r"exp_avg of parameter 1 .* shape \(64,\).*, got .*\(63,\)"),
    (state(exp_avg=[0.0] * 64), "exp_avg of parameter 1 .*, got list"),
    (state(step=torch.tensor(0.5)), "the step of parameter 1 .* got 0.5"),
    (state(step=torch.tensor(-1.0)), "the step of parameter 1 .* got -1"),
    (state(step=torch.ones(2)), "step of parameter 1"),
    (state(step=0), "the step of parameter 1 is 0"),
    (without("lr"), r"group 0 .* \['lr'\]"),
    (without("betas"), r"group 0 .* \['betas'\]"),
    (without("amsgrad"), r"group 0 .* \['amsgrad'\]"),
    (without("decoupled_weight_decay"), r"group 0 .* \['decoupled_weight_decay'\]"),
    (group(momentum_decay=0.1), r"group 0 .* \['momentum_decay'\]"),
    (group(capturable=True), "capturable=True"),
    (group(maximize=1), "maximize is True or False"),
    (group(betas=5), "betas"),
    (group(betas=(0.9,)), "betas"),
    (group(lr=-1.0), "adam C1"),
    (group(decoupled_weight_decay=True), "decoupled_weight_decay"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_a_refused_state_changes_nothing(number: int) -> None:
    change, message = REFUSED[number]
    given = copy.deepcopy(stepped(ours.Adam(made(), betas=BETAS), 0, 1).state_dict())
    change(given)
    optimizer = stepped(ours.Adam(made(1)), 3)
    before, groups, held = values(optimizer), optimizer.param_groups, optimizer.state
    with pytest.raises(Rejected, match=message):
        optimizer.load_state_dict(given)
    assert same(values(optimizer), before)
    assert optimizer.param_groups is groups and optimizer.state is held
    assert same(values(stepped(optimizer, 4)), values(stepped(ours.Adam(made(1)), 3, 4)))


def test_an_error_of_any_kind_while_loading_changes_nothing() -> None:
    given = stepped(ours.Adam(made(), 0.5), 0).state_dict()
    optimizer = stepped(ours.Adam(made(1)), 3)
    groups, held = optimizer.param_groups, optimizer.state

    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    handle = optimizer.register_load_state_dict_post_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        optimizer.load_state_dict(given)
    handle.remove()
    assert optimizer.param_groups is groups and optimizer.state is held
    assert same(values(stepped(optimizer, 4)), values(stepped(ours.Adam(made(1)), 3, 4)))


def test_notes_of_schedules_and_of_the_user_are_kept() -> None:
    def fresh() -> Any:
        return ours.AdamW([{"params": made(), "role": "decoder"}], betas=BETAS)

    optimizer = fresh()
    torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=9)
    torch.optim.swa_utils.SWALR(optimizer, 0.25)
    again = fresh()
    again.load_state_dict(copy.deepcopy(stepped(optimizer, 0).state_dict()))
    kept = ("role", "initial_lr", "max_lr", "swa_lr")
    assert [again.param_groups[0][key] for key in kept] == ["decoder", 0.02, 0.5, 0.25]


def test_how_torch_computed_is_not_taken_over() -> None:
    theirs = stepped(torch.optim.AdamW(made(), fused=True), 0)
    optimizer = ours.AdamW(made())
    optimizer.load_state_dict(copy.deepcopy(theirs.state_dict()))
    assert optimizer.param_groups[0]["fused"] is None
    stepped(optimizer, 1)


EDITS: dict[str, Callable[[Any, Tensor], object]] = {
    "clear": lambda o, p: o.state.clear(),
    "delete": lambda o, p: o.state.pop(p),
    "empty": lambda o, p: o.state[p].clear(),
    "replace": lambda o, p: o.state[p].update(exp_avg=torch.full((64,), 0.5)),
    "moment in place": lambda o, p: o.state[p]["exp_avg"].mul_(4.0),
    "step in place": lambda o, p: o.state[p]["step"].fill_(1.0),
    "step": lambda o, p: o.state[p].update(step=torch.tensor(1.0)),
    "step as a number": lambda o, p: o.state[p].update(step=1),
    "assign": lambda o, p: o.state.__setitem__(
        p, {"step": 2, "exp_avg": torch.ones(64), "exp_avg_sq": torch.ones(64)}
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_the_state_is_what_the_next_step_uses(edit: str) -> None:
    """Torch's optimizer, changed in the same way, goes the same way."""
    mine, yours = (
        ours.AdamW(made(), betas=BETAS),
        torch.optim.AdamW(made(), betas=BETAS, fused=True),
    )
    for optimizer in (mine, yours):
        stepped(optimizer, 0, 1, 2)
        EDITS[edit](optimizer, optimizer.param_groups[0]["params"][0])
        for p in optimizer.param_groups[0]["params"]:
            for name, value in optimizer.state.get(p, {}).items():
                if optimizer is yours and name == "step":
                    optimizer.state[p][name] = torch.tensor(float(value))
        stepped(optimizer, 3, 4)
    assert same(values(mine), values(yours))


@pytest.mark.parametrize("edit", EDITS)
def test_a_run_saved_after_a_change_is_the_run_itself(edit: str) -> None:
    optimizer = stepped(ours.AdamW(made(), betas=BETAS), 0, 1, 2)
    EDITS[edit](optimizer, optimizer.param_groups[0]["params"][0])
    stepped(optimizer, 3)
    again = copy.deepcopy(optimizer)
    assert same(values(stepped(again, 4, 5)), values(stepped(optimizer, 4, 5)))


def test_a_rejected_step_does_not_cut_the_state_loose() -> None:
    """What is changed in place between a refusal and the next step counts."""
    one, two = (stepped(ours.AdamW(made(), betas=BETAS), 0) for _ in range(2))
    for optimizer, refused in ((one, True), (two, False)):
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        p = optimizer.param_groups[0]["params"][0]
        if refused:
            p.grad = torch.ones(64).to_sparse()
            with pytest.raises(Rejected, match="dense"):
                optimizer.step()
        optimizer.state[p]["exp_avg"].mul_(4.0)
        stepped(optimizer, 1)
    assert same(values(one), values(two))


def test_state_of_a_parameter_without_a_gradient_stays_joined() -> None:
    one, two = (stepped(ours.AdamW(made(), betas=BETAS), 0) for _ in range(2))
    for optimizer in (one, two):
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        first, second = optimizer.param_groups[0]["params"]
        second.grad = None
        change = optimizer is two
        if change:
            optimizer.state[second]["exp_avg"].mul_(4.0)
        optimizer.step()
        if not change:
            optimizer.state[second]["exp_avg"].mul_(4.0)
        assert first.grad is not None
        stepped(optimizer, 2)
    assert same(values(one), values(two))


@pytest.mark.parametrize("field", ["step", "exp_avg"])
def test_a_step_does_not_guess_what_a_state_lacks(field: str) -> None:
    optimizer = stepped(ours.Adam(made()), 0)
    p, q = optimizer.param_groups[0]["params"]
    kept = optimizer.state[p].pop(field)
    before = [p.detach().clone(), q.detach().clone()]
    with pytest.raises(Rejected, match="the state of parameter 0 has"):
        optimizer.step()
    assert p.equal(before[0]) and q.equal(before[1])
    optimizer.state[p][field] = kept
    assert same(values(stepped(optimizer, 1)), values(stepped(ours.Adam(made()), 0, 1)))


def test_a_step_refuses_a_field_that_was_added() -> None:
    optimizer = stepped(ours.Adam(made()), 0)
    optimizer.state[optimizer.param_groups[0]["params"][1]]["momentum_buffer"] = torch.ones(64)
    with pytest.raises(Rejected, match=r"the state of parameter 1 has .* 'momentum_buffer'"):
        optimizer.step()


def test_a_state_given_to_a_parameter_that_had_none_is_used() -> None:
    given = {"step": 3, "exp_avg": torch.ones(64), "exp_avg_sq": torch.ones(64)}
    found = []
    for early in (True, False):
        optimizer = ours.AdamW(made(), betas=BETAS)
        first, second = optimizer.param_groups[0]["params"]
        if early:
            optimizer.state[second] = copy.deepcopy(given)
        first.grad = torch.ones(64)
        optimizer.step()
        if not early:
            optimizer.state[second] = copy.deepcopy(given)
        found.append(values(stepped(optimizer, 1)))
    assert same(*found)


@pytest.mark.parametrize("field", ["lr", "betas", "eps", "weight_decay"])
def test_a_step_does_not_guess_what_a_group_lacks(field: str) -> None:
    optimizer = stepped(ours.AdamW(made()), 0)
    del optimizer.param_groups[0][field]
    with pytest.raises(Rejected, match=rf"group 0 .* \['{field}'\]"):
        optimizer.step()


@pytest.mark.parametrize("copied", ["copied", "loaded"])
def test_a_state_that_is_not_finite_goes_on_as_torchs_does(copied: str) -> None:
    one, two = (kind(made(), betas=BETAS) for kind in (ours.AdamW, torch.optim.AdamW))
    for optimizer in (one, two):
        for p in optimizer.param_groups[0]["params"]:
            p.grad = torch.full((64,), float("nan"))
        optimizer.step()
    again = copy.deepcopy(one)
    if copied == "loaded":
        again = ours.AdamW(again.param_groups[0]["params"], betas=BETAS)
        again.load_state_dict(copy.deepcopy(one.state_dict()))
    found = [values(stepped(optimizer, 1)) for optimizer in (one, again, two)]
    assert same(found[0], found[1]) and same(found[0], found[2])


@pytest.mark.parametrize("name", [name for name in MAKERS if "torch" not in name])
def test_the_state_is_asked_for_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Functional] = []
    plain = Functional.state

    def counted(functional: Functional) -> dict[str, list[Any]]:
        asked.append(functional)
        return plain(functional)

    monkeypatch.setattr(Functional, "state", counted)
    monkeypatch.setattr(_optimizers, "IN_PLACE", frozenset())
    optimizer = MAKERS[name](made())
    counts = []
    for turn in range(3):
        asked.clear()
        stepped(optimizer, turn)
        counts.append(len(asked))
    assert counts == ([0, 0, 0] if name == "plain SGD" else [1, 0, 0])
