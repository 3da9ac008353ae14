"""The optimizers for torch: bit for bit torch's fused kernels, on torch's own test inputs."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import fast.torch as ours
from fast import Rejected
from fast.errors import Unavailable
from fast.torch import _checks

# It imports triton, so it must come after fast, which chooses how triton runs.
theirs = pytest.importorskip("torch.testing._internal.common_optimizers")

pytestmark = pytest.mark.usefixtures("memory")

PAIRS = {
    "SGD": (ours.SGD, torch.optim.SGD),
    "Adagrad": (ours.Adagrad, torch.optim.Adagrad),
    "Adam": (ours.Adam, torch.optim.Adam),
    "AdamW": (ours.AdamW, torch.optim.AdamW),
}
INPUTS = {
    "SGD": theirs.optim_inputs_func_sgd,
    "Adagrad": theirs.optim_inputs_func_adagrad,
    "Adam": theirs.optim_inputs_func_adam,
    "AdamW": theirs.optim_inputs_func_adamw,
}
OURS = {name: {*_checks.names(kind.rule)} for name, (kind, _) in PAIRS.items()}
"""The options of each class that are hyper-parameters; flags beside them are refused."""


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
            if not found and not expected.get("step", 0):
                # torch's Adagrad makes a state before the first step.
                continue
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
    if not options.keys() <= OURS[name]:
        with pytest.raises(Rejected):
            mine(first, **options)
        return
    one, two = mine(first, **options), yours(second, **options, fused=True)
    for step in range(20):
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
            tensors = any(isinstance(beta, Tensor) for beta in options.get("betas", ()))
            if tensors and "foreach" not in options:
                # A tensor of one entry is a number here, and torch takes betas only in pairs.
                PAIRS[name][0](twins()[0], **options)
                continue
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
        (lambda: optimizer.param_groups[1].update(lr=0.1, capturable=True), "capturable"),
        (
            lambda: (
                optimizer.param_groups[1].update(capturable=False)
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


FLAGS = ("capturable", "differentiable", "foreach", "fused")


@pytest.mark.parametrize("flag", FLAGS)
def test_unsupported_flags_are_refused_not_ignored(flag: str) -> None:
    chosen: dict[str, Any] = {flag: True}
    with pytest.raises(Rejected, match=f"{flag}=True is not supported"):
        ours.Adam(twins()[0], **chosen)
    first, _ = twins()
    with pytest.raises(Rejected, match=f"{flag}=True is not supported"):
        ours.Adam([{"params": first[:1]}, {"params": first[1:], **chosen}])
    chosen[flag] = False
    optimizer = ours.Adam(first[:1], **chosen)
    with pytest.raises(Rejected, match=f"{flag}=True is not supported"):
        optimizer.add_param_group({"params": first[1:], flag: True})
    assert len(optimizer.param_groups) == 1
    optimizer.param_groups[0][flag] = True
    give_gradients(1, first)
    with pytest.raises(Rejected, match=f"{flag}=True is not supported"):
        optimizer.step()


@pytest.mark.parametrize("name", PAIRS)
def test_arguments_that_torch_does_not_have_are_refused(name: str) -> None:
    for value in (0.0, None, False, 0.1):
        with pytest.raises(TypeError, match="weigth_decay"):
            PAIRS[name][0](twins()[0], weigth_decay=value)
    if name != "Adam":
        with pytest.raises(TypeError, match="decoupled_weight_decay"):
            PAIRS[name][0](twins()[0], decoupled_weight_decay=False)
    else:
        with pytest.raises(Rejected, match=r"decoupled_weight_decay .* fast.torch.AdamW"):
            ours.Adam(twins()[0], decoupled_weight_decay=True)


@pytest.mark.parametrize("betas", [(0.9,), 0.9, (0.9, 0.99, 0.999), None, "ab"])
def test_betas_are_two_numbers(betas: Any) -> None:
    with pytest.raises(Rejected, match="beta"):
        ours.AdamW(twins()[0], betas=betas)
    optimizer = ours.AdamW(twins()[0])
    with pytest.raises(Rejected, match="beta"):
        optimizer.add_param_group({"params": [drawn(2)], "betas": betas})
    assert len(optimizer.param_groups) == 1


def test_what_no_step_could_take_is_refused_at_once() -> None:
    first, _ = twins()
    with pytest.raises(Rejected, match="unknown provider 'cudnn'"):
        ours.SGD(first, provider="cudnn")
    optimizer = ours.SGD(first[:1], provider="triton")
    for param, error, message in (
        (drawn(2).cfloat(), Unavailable, "parameter 0 is torch.complex64"),
        (drawn(2).double(), Unavailable, "parameter 0 is torch.float64; provider 'triton'"),
        (drawn(2).to_sparse(), Rejected, "parameter 0 is dense, got torch.sparse_coo"),
    ):
        with pytest.raises(error, match=message):
            optimizer.add_param_group({"params": [param]})
        with pytest.raises(error, match=message):
            ours.SGD([param], provider="triton")
    with pytest.raises(Rejected, match="on one device, got cpu and meta"):
        optimizer.add_param_group({"params": [drawn(2), drawn(2).to("meta")]})
    with (
        pytest.warns(UserWarning, match="duplicate parameters"),
        pytest.raises(Rejected, match="parameter 1 is parameter 0 again"),
    ):
        optimizer.add_param_group({"params": [first[1], first[1]]})
    assert len(optimizer.param_groups) == 1


def expanded() -> Tensor:
    return torch.ones(1).expand(4).requires_grad_()


def unfolded() -> Tensor:
    return torch.ones(4).unfold(0, 2, 1).requires_grad_()


def woven() -> Tensor:
    """Return a tensor each of whose axes steps over the one before, but not over both."""
    return torch.ones(23).as_strided((3, 3, 3), (1, 3, 7)).requires_grad_()


@pytest.mark.parametrize("made", [expanded, unfolded, woven])
def test_a_parameter_whose_elements_share_memory_is_refused_before_a_write(made: Any) -> None:
    first, second = drawn(3).requires_grad_(), made()
    optimizer = ours.SGD([{"params": [first]}, {"params": [second]}], momentum=0.5)
    give_gradients(1, [first, second], gaps=False)
    before = first.detach().clone()
    with pytest.raises(Rejected, match=r"group 1: the elements of parameter 0 share memory"):
        optimizer.step()
    assert first.equal(before) and not optimizer.state


def test_layouts_whose_elements_are_apart_are_taken() -> None:
    params = [drawn(4, 6).T, drawn(8)[::2], drawn(4, 4, 2).permute(2, 0, 1)[:, ::3], drawn(1, 3)[0]]
    second = [p.clone().requires_grad_() for p in params]
    first = [p.requires_grad_() for p in params]
    give_gradients(1, first, second, gaps=False)
    for optimizer in (ours.AdamW(first), ours.AdamW(second)):
        optimizer.step()
    assert all(p.equal(q) for p, q in zip(first, second, strict=True))


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_data_of_another_shape_is_refused_before_a_write(name: str, momentum: float) -> None:
    options: dict[str, Any] = {"momentum": momentum} if name == "SGD" else {}
    first, second = drawn(64).requires_grad_(), drawn(8, 8).requires_grad_()
    optimizer = PAIRS[name][0]([{"params": [first]}, {"params": [second]}], **options)
    give_gradients(1, [first, second], gaps=False)
    optimizer.step()
    second.data = drawn(3)
    before = first.detach().clone()
    with pytest.raises(Rejected, match="parameter 0"):
        optimizer.step()
    second.grad = torch.ones(3)
    if name == "SGD" and not momentum:
        optimizer.step()
        assert second.equal(drawn(3) - optimizer.param_groups[1]["lr"])
        return
    with pytest.raises(Rejected, match=r"parameter 0 .* shape \(3,\).*, got .*\(8, 8\)"):
        optimizer.step()
    assert first.equal(before)
    del optimizer.state[second]
    optimizer.step()
    assert not first.equal(before) and not second.equal(drawn(3))


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_data_of_another_dtype_goes_on_with_moments_of_that_dtype(
    name: str, dtype: torch.dtype
) -> None:
    """As a new optimizer does that loads the state: torch converts it to the parameters' dtype."""
    options: dict[str, Any] = {"momentum": 0.5} if name == "SGD" else {}
    first, _ = twins()
    one = PAIRS[name][0](first, 0.1, **options)
    give_gradients(1, first)
    one.step()
    for p in first:
        p.grad = None
        p.data = p.data.to(dtype)
    second = [p.detach().clone().requires_grad_() for p in first]
    two = PAIRS[name][0](second, 0.1, **options)
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    for step in range(2, 5):
        give_gradients(step, first, second)
        one.step()
        two.step()
        agree(one, two)
    assert all(p.dtype is dtype for p in first)


def lines_run(count: int, make: Any) -> list[int]:
    """Count the lines of the library that each of three steps on so many parameters runs.

    Before the third step, the state is loaded.
    """
    params = [drawn(4).requires_grad_() for _ in range(count)]
    optimizer = make(params)
    found: list[int] = []

    def trace(frame: Any, event: str, _: Any) -> Any:
        if "/fast/" not in frame.f_code.co_filename or "/tests/" in frame.f_code.co_filename:
            return None
        found[-1] += event == "line"
        return trace

    before = sys.gettrace()
    for step in range(3):
        give_gradients(step, params, gaps=False)
        if step == 2:
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        found.append(0)
        sys.settrace(trace)
        try:
            optimizer.step()
        finally:
            sys.settrace(before)
    return found


@pytest.mark.parametrize("name", PAIRS)
def test_a_step_is_linear_in_the_number_of_parameters(name: str) -> None:
    """Twice as many parameters are at most twice as many lines, at each of three steps."""
    make = PAIRS[name][0]
    for small, large in zip(lines_run(32, make), lines_run(64, make), strict=True):
        assert 0 < large <= 2 * small


def test_states_of_another_algorithm_are_refused() -> None:
    first, second = twins()
    adamw = torch.optim.AdamW(second)
    adam = ours.Adam(first)
    before = adam.param_groups
    with pytest.raises(Rejected, match="decoupled_weight_decay is False"):
        adam.load_state_dict(adamw.state_dict())
    assert adam.param_groups is before


EXACT: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.5},
    "Adadelta": {"rho": 0.0, "eps": 0.0625},
    "RMSprop": {"alpha": 0.75, "eps": 1.0, "momentum": 0.5},
    "Adagrad": {"lr_decay": 0.5, "initial_accumulator_value": 3.0, "eps": 2.0},
}
"""Options by which a step of powers of two is exact, where these are no betas."""


@pytest.mark.parametrize("name", PAIRS)
def test_kernels_and_torch_agree_on_what_is_exact(name: str) -> None:
    """One step from zero moments with powers of two: both providers must give the same bits."""
    options = EXACT.get(name, {"betas": (0.5, 0.5)})
    found = []
    for provider in ("aten", "triton"):
        p = torch.tensor([4.0, -2.0, 0.0], requires_grad=True)
        p.grad = torch.tensor([1.0, -4.0, 0.0])
        optimizer = PAIRS[name][0]([p], lr=0.5, weight_decay=0.0, **options, provider=provider)
        optimizer.step()
        found.append((p.detach(), *optimizer.state[p].values()))
    for one, two in zip(*found, strict=True):
        assert one.equal(two)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize("whole", [False, True], ids=["the step", "a program with a step"])
@pytest.mark.parametrize("name", PAIRS)
def test_a_compiled_step_gives_the_same_numbers(name: str, whole: bool) -> None:
    """`aot_eager` traces as every compiler does, and runs what it traced without one."""
    results = []
    for compiles in (False, True):
        torch._dynamo.reset()
        w = drawn(8, 8).requires_grad_()
        optimizer = PAIRS[name][0]([w], lr=0.1)

        def forward_and_back(x: Tensor, w: Tensor = w, optimizer: Any = optimizer) -> Tensor:
            optimizer.zero_grad()
            loss = (x @ w).square().sum()
            loss.backward()
            if whole:
                optimizer.step()
            return loss.detach()

        program, step = forward_and_back, optimizer.step
        if compiles:
            program = torch.compile(program, backend="aot_eager") if whole else program
            step = torch.compile(step, backend="aot_eager")
        for number in range(3):
            program(drawn(2, 8) + number)
            if not whole:
                step()
        results.append((w.detach(), *optimizer.state[w].values()))
    eager, compiled = results
    assert len(eager) == len(compiled)
    assert all(x.equal(y) for x, y in zip(eager, compiled, strict=True))


def test_a_parameter_is_updated_where_it_lies_and_a_gap_is_left_alone() -> None:
    # Half of each row is a whole vector: torch's kernels contract their scalar tails differently.
    start = torch.arange(128.0).reshape(4, 32)
    whole = start.clone()
    part, dense = whole[:, ::2].requires_grad_(), start[:, ::2].contiguous().requires_grad_()
    ours_step, theirs_step = PAIRS["AdamW"]
    optimizer, other = ours_step([part], lr=0.5), theirs_step([dense], lr=0.5, fused=True)
    for turn in range(3):
        part.grad = drawn(16, 4).t() + turn
        dense.grad = part.grad.contiguous()
        optimizer.step()
        other.step()
    assert torch.equal(whole[:, 1::2], start[:, 1::2])
    assert torch.equal(part, dense)


def test_a_group_is_read_anew_where_it_may_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, seen = _checks.read_hyper, []

    def noted(who: str, rule: Any, group: Any) -> dict[str, Any]:
        seen.append(group["lr"])
        return plain(who, rule, group)

    one, two = (torch.tensor([1.0, -2.0], requires_grad=True) for _ in range(2))
    mine, yours = ours.AdamW([one], lr=0.1), ours.AdamW([two], lr=0.1)
    monkeypatch.setattr(_checks, "read_hyper", noted)

    def steps(count: int) -> int:
        """Take steps of both, the second of which knows nothing of the last; return who read."""
        seen.clear()
        for _ in range(count):
            yours._given.clear()
            for optimizer, param in ((mine, one), (yours, two)):
                param.grad = torch.tensor([0.5, 0.25])
                optimizer.step()
        assert one.equal(two)
        return len(seen) - count

    assert steps(3) == 1
    for change in ({"betas": (0.8, 0.99)}, {"lr": 0.2}, {"lr": 1}, {"weight_decay": 0.3}):
        for optimizer in (mine, yours):
            optimizer.param_groups[0].update(change)
        assert steps(3) == 1
    rate = torch.tensor(0.1)
    for optimizer in (mine, yours):
        optimizer.param_groups[0]["lr"] = rate
    assert steps(2) == 2
    rate.fill_(0.5)
    assert steps(2) == 2
    mine.param_groups[0]["betas"] = (0.9, 1.5)
    before = one.detach().clone()
    for _ in range(2):
        with pytest.raises(Rejected, match="C"):
            mine.step()
    assert one.equal(before)
