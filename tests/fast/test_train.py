"""Training by hand on a session: lists, a trainer, batches in pieces, schedules, and transfers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

import spec.session
import spec.train
from fast import Rejected, Session, SessionError, counters, train
from fast.programs.total import Total
from fast.train import (
    MicroBatches,
    ParamList,
    ScalarTrainer,
    gradients_of,
    mean_scalar_over,
    scalar_trainer,
    split,
    use_inputs,
    use_params,
)
from spec.tensor import Tensor

CPU: dict[str, Any] = {"provider": "aten", "device": "cpu"}
X = [[2.0]]
"""With w = 3 and b = 1 the loss is 4 and both gradients are 4."""


def distance(ops: Any, w: Any, b: Any, x: Any) -> Any:
    """The squared distance of w + b from x."""
    return ops.sum(ops.square(w + b - x))


def two_params(requires_grad: list[bool] | None = None, **options: Any) -> ScalarTrainer:
    """A trainer of two parameters whose sum should become x."""
    return scalar_trainer(distance, [[3.0], [1.0]], requires_grad, **{**CPU, **options})


def lists(tensors: Any) -> list[Any]:
    """Turn tensors into nested lists."""
    return [tensor.tolist() for tensor in tensors]


def held() -> tuple[int, int]:
    """Return the bytes and the buffers that are owned now."""
    now = counters.snapshot()
    return now.live_bytes, now.live_buffers


@pytest.mark.holds("Loss and gradients of a trainer")
@pytest.mark.parametrize("provider", ["aten", "triton"])
def test_loss_and_gradients_by_hand(provider: str) -> None:
    trainer = two_params(provider=provider)
    assert trainer.forward(X).item() == 4.0
    assert lists(trainer.backward(X)) == [[4.0], [4.0]]
    loss, gradients = trainer.loss_and_backward(X)
    assert (loss.item(), lists(gradients)) == (4.0, [[4.0], [4.0]])
    assert lists(trainer.params.values()) == [[3.0], [1.0]], "nothing was stepped"
    assert trainer.steps == 0


@pytest.mark.holds("Steps of a trainer")
def test_steps_by_hand() -> None:
    trainer = two_params()
    assert trainer.step_with_loss(0.125, X).item() == 4.0
    assert lists(trainer.params.values()) == [[2.5], [0.5]]
    assert trainer.step(0.125, X) is None  # type: ignore[func-returns-value]
    assert lists(trainer.params.values()) == [[2.25], [0.25]]
    assert trainer.step_with_loss(0.0, X).item() == 0.25
    assert trainer.steps == 3


def test_a_frozen_parameter_has_gradient_zero_and_stays() -> None:
    trainer = two_params([True, False])
    assert lists(trainer.backward(X)) == [[4.0], [0.0]]
    trainer.step(0.25, X)
    assert lists(trainer.params.values()) == [[2.0], [1.0]]
    trainer.params.params[0].requires_grad = False
    trainer.params.params[1].requires_grad = True
    trainer.step(0.25, X)
    assert lists(trainer.params.values()) == [[2.0], [0.5]]


@pytest.mark.holds("Steps of a trainer")
@pytest.mark.parametrize("name", ["adam_step", "adamw_step"])
def test_an_adaptive_step_is_the_sessions(name: str) -> None:
    trainer = two_params([True, False])
    s = Session(**CPU)
    if not hasattr(s, name):
        pytest.skip(f"the session has no {name}")
    w, b = s.param([3.0]), s.param([1.0], requires_grad=False)
    for _ in range(2):
        assert getattr(trainer, name)(X, lr=0.5, eps=1e-3) is None
        loss = distance(s, s.use(w), s.use(b), s.input([2.0]))
        getattr(s, name)(0.5, eps=1e-3, grads=s.backward(loss))
        s.reset_tape()
        assert lists(trainer.params.values()) == [w.value().tolist(), [1.0]]
    expected = s.value(distance(s, s.use(w), s.use(b), s.input([2.0])))
    assert getattr(trainer, name)(X, lr=0.0, with_loss=True).equal(expected)


def test_states_live_across_steps() -> None:
    trainer = two_params([True, False])
    trainer.step(0.25, X, momentum=0.5)
    # w = 2: gradient 2, buffer 0.5 * 4 + 2 = 4
    trainer.step(0.25, X, momentum=0.5)
    assert lists(trainer.params.values())[0] == [1.0]


@pytest.mark.holds("Steps of a trainer")
def test_a_schedule_is_asked_at_every_step_and_for_every_group() -> None:
    trainer = two_params()
    asked: list[int] = []

    def schedule(step: int) -> float:
        asked.append(step)
        return [0.125, 0.25][step]

    groups = [{"params": [1], "lr": lambda step: [0.5, 0.0][step]}]
    trainer.step(schedule, X, groups=groups)
    assert lists(trainer.params.values()) == [[2.5], [-1.0]]
    with pytest.raises(Rejected, match="lr is finite"):
        trainer.step(lambda step: float("nan"), X)
    trainer.step(schedule, X, groups=[{"params": [trainer.params.params[1]], "lr": 0.0}])
    # The gradient is 2 * (2.5 - 1 - 2) = -1.
    assert lists(trainer.params.values()) == [[2.75], [-1.0]]
    assert (asked, trainer.steps) == ([0, 1], 2), "a refused step does not count"
    trainer.steps = 0
    trainer.step(schedule, X)
    assert asked == [0, 1, 0]


def test_the_global_norm_is_passed_on() -> None:
    trainer = two_params()
    try:
        trainer.step(1.0, X, max_norm=2.0**-10)
    except TypeError:
        pytest.skip("sgd_step takes no max_norm")
    (w,), (b,) = lists(trainer.params.values())
    assert 3.0 - 2.0**-10 < w < 3.0
    assert 1.0 - 2.0**-10 < b < 1.0


W = [[1.0, -2.0], [3.0, 1.0]]


@pytest.mark.holds("Steps of a trainer")
@pytest.mark.parametrize("as_data", [list, np.asarray, lambda t: t])
@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_a_batch_in_pieces_gives_the_step_of_the_whole(count: int, as_data: Any) -> None:
    def loss(ops: Any, w: Any, x: Any, labels: Any) -> Any:
        # An exact mean over rows, in which labels are labels.
        z = ops.square(ops.matmul(x, w))
        own = ops.nll_loss(ops.mul(z, ops.constant(-1, z.shape)), labels)
        return ops.add(own, ops.div(ops.sum(z), ops.constant(z.shape[0])))

    draw = torch.Generator().manual_seed(0)
    inputs = [
        torch.randint(-3, 4, (8, 2), generator=draw).double(),
        torch.randint(2, (8,), generator=draw),
    ]
    inputs = [as_data(x.tolist()) if as_data is list else as_data(x) for x in inputs]
    micro = split(inputs, count)
    whole, parts = (scalar_trainer(loss, [W], **CPU, precision="fp64") for _ in range(2))
    for _ in range(2):
        assert parts.forward(micro).equal(whole.forward(inputs))
        assert parts.backward(micro)[0].equal(whole.backward(inputs)[0])
        one, many = whole.loss_and_backward(inputs), parts.loss_and_backward(micro)
        assert (one[0].item(), one[1][0].tolist()) == (many[0].item(), many[1][0].tolist())
        first = whole.step_with_loss(2.0**-6, inputs, momentum=0.5)
        assert parts.step_with_loss(2.0**-6, micro, momentum=0.5).equal(first)
        assert parts.params.values()[0].equal(whole.params.values()[0])
    assert parts.params.params[0].version == parts.steps == 2, "one update per step"
    first = whole.adamw_step(inputs, lr=0.5, with_loss=True)
    last = parts.adamw_step(micro, lr=0.5, with_loss=True)
    assert first is not None and last is not None and first.equal(last)
    assert parts.params.values()[0].equal(whole.params.values()[0])


def test_pieces_weigh_their_share_of_the_rows() -> None:
    inputs = [np.arange(14.0).reshape(7, 2), list(range(7))]
    micro = split(inputs, 3)
    assert [[len(part) for part in piece] for piece in micro.pieces] == [[2, 2], [2, 2], [3, 3]]
    assert [part for piece in micro.pieces for part in piece[1]] == list(range(7))
    assert micro.weights == [Fraction(2, 7), Fraction(2, 7), Fraction(3, 7)]
    assert split(inputs, 3, reduction="sum").weights == [1, 1, 1]

    def total(ops: Any, w: Any, x: Any) -> Any:
        return ops.sum(ops.square(ops.matmul(x, w)))

    trainer = scalar_trainer(total, [W], **CPU)
    x = torch.arange(10.0).reshape(5, 2)
    whole = trainer.loss_and_backward([x])
    for data in (x, trainer.session.upload(x)):
        pieces = trainer.loss_and_backward(split([data], 3, "sum"))
        assert pieces[0].equal(whole[0])
        assert pieces[1][0].equal(whole[1][0])


def test_pieces_given_by_hand_are_averaged_unless_they_have_weights() -> None:
    trainer = two_params()
    pieces = [[[2.0]], [[0.0]], [[2.0]], [[0.0]]]
    assert trainer.forward(MicroBatches(pieces)).item() == 10.0
    assert lists(trainer.backward(MicroBatches(pieces))) == [[6.0], [6.0]]
    weights = [1.0, Fraction(1, 2), 0.0, 0]
    assert trainer.forward(MicroBatches(pieces, weights)).item() == 12.0
    assert lists(trainer.backward(MicroBatches(pieces, weights))) == [[8.0], [8.0]]


@pytest.mark.holds("Steps of a trainer")
@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda t: t.forward(MicroBatches([])), "at least one micro-batch"),
        (lambda t: t.backward(MicroBatches([X], [1.0, 1.0])), "got 1 and 2 weights"),
        (lambda t: split([[1.0, 2.0], [1.0]], 2), r"got the extents \[2, 1\] and 2 pieces"),
        (lambda t: split([[1.0, 2.0], 1.0], 2), r"extents \[2, None\]"),
        (lambda t: split([torch.tensor(1.0)], 1), r"extents \[None\]"),
        (lambda t: split([[1.0, 2.0]], 3), "1 to that many pieces"),
        (lambda t: split([[1.0, 2.0]], 0), "1 to that many pieces"),
        (lambda t: split([], 1), "1 to that many pieces"),
        (lambda t: split([[1.0, 2.0]], 2, "none"), "'mean' or 'sum', got 'none'"),
        (lambda t: t.step(-1.0, X), "lr is finite and >= 0"),
        (lambda t: t.step(0.5, [[1.0, 2.0, 3.0]], groups=[{"lr": 1.0}]), "names no 'params'"),
        (lambda t: t.forward([[[1.0, 2.0]], [1.0]]), "broadcast|takes"),
    ],
)
def test_refusals_change_nothing(run: Callable[[ScalarTrainer], Any], message: str) -> None:
    trainer = two_params()
    trainer.step(0.0, X, momentum=0.5)
    before, state = held(), trainer.session.optimizer_state("sgd", trainer.params.params[0])
    with pytest.raises((Rejected, TypeError), match=message):
        run(trainer)
    assert held() == before
    assert lists(trainer.params.values()) == [[3.0], [1.0]]
    assert trainer.session.optimizer_state("sgd", trainer.params.params[0]) == state
    assert trainer.steps == 1


@pytest.mark.holds("Loss and gradients of a trainer")
@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("name", ["forward", "backward", "loss_and_backward", "step"])
def test_a_loss_that_is_no_scalar_is_refused(name: str) -> None:
    trainer = scalar_trainer(lambda ops, w: ops.square(w), [[3.0]], **CPU)
    before = held()
    with pytest.raises(Rejected, match=r"^trainer: the loss is a scalar; got the shape \(1,\)$"):
        getattr(trainer, name)(*[0.5] * (name == "step"), [])
    assert lists(trainer.params.values()) == [[3.0]]
    assert held() == before


@pytest.mark.holds("Parameters and inputs onto the tape, gradients off it")
def test_integers_reach_the_loss_as_they_are() -> None:
    seen: list[Any] = []

    def loss(ops: Any, w: Any, *inputs: Any) -> Any:
        seen.extend(inputs)
        return ops.sum(w)

    trainer = scalar_trainer(loss, [[1.0]], **CPU)
    data = [[1, 0], torch.tensor([1, 0]), np.array([True, False]), 3, [[True], [False]]]
    trainer.forward(data)
    assert all(got is given for got, given in zip(seen, data, strict=True))
    seen.clear()
    trainer.forward([[1.0, 0], 3.0, np.array([1.0]), torch.ones(2), []])
    assert [ref.id for ref in seen] == [1, 2, 3, 4, 5], "the parameter is the first leaf"


@pytest.mark.holds("What crosses between host and device")
@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_step_moves_the_batch_in_and_the_loss_out_if_asked(precision: str) -> None:
    def loss(ops: Any, w: Any, b: Any, x: Any, labels: Any) -> Any:
        return ops.cross_entropy(ops.linear(x, w, b), labels)

    trainer = scalar_trainer(loss, [np.ones((3, 4)), np.ones(3)], **CPU, precision=precision)
    inputs = [torch.ones(8, 4), torch.zeros(8, dtype=torch.int64)]
    micro = split(inputs, 4)

    def crossed(run: Callable[[], object]) -> tuple[int, int]:
        run()  # The first time parameters go up, and states are made.
        before, live = counters.snapshot(), held()
        run()
        after = counters.snapshot()
        assert held() == live, "a step leaves nothing behind"
        return after.uploads - before.uploads, after.downloads - before.downloads

    assert crossed(lambda: trainer.step(0.5, inputs)) == (2, 0)
    assert crossed(lambda: trainer.step(0.5, inputs, momentum=0.5, nesterov=True)) == (2, 0)
    assert crossed(lambda: trainer.adamw_step(inputs)) == (2, 0)
    assert crossed(lambda: trainer.step(lambda step: 0.5, micro)) == (8, 0)
    assert crossed(lambda: trainer.step_with_loss(0.5, inputs)) == (2, 1)
    assert crossed(lambda: trainer.adamw_step(inputs, with_loss=True)) == (2, 1)
    assert crossed(lambda: trainer.step_with_loss(0.5, micro)) == (8, 1)
    assert crossed(lambda: trainer.forward(inputs)) == (2, 1)
    assert crossed(lambda: trainer.backward(micro)) == (8, 2)
    assert crossed(lambda: trainer.loss_and_backward(inputs)) == (2, 3)
    assert not any(param.host_current for param in trainer.params.params)


@pytest.mark.holds("Loss and gradients of a trainer")
@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_error_on_the_way_leaves_nothing_behind(
    position: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = two_params()
    pieces = MicroBatches([X, X, X])
    trainer.step_with_loss(0.0, pieces)
    trainer.session.collect()
    before = held()
    calls = 0

    def failing(kind: type, name: str) -> Any:
        plain = getattr(kind, name)

        def run(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > position:
                raise RuntimeError(f"{name} broke")
            return plain(*arguments, **options)

        return run

    for name in ("square", "backward", "add", "check_flag", "sgd_step"):
        kind = Total if name == "add" else Session
        with monkeypatch.context() as patch:
            patch.setattr(kind, name, failing(kind, name))
            calls = position if name in ("check_flag", "sgd_step") else 0
            with pytest.raises(RuntimeError, match=f"{name} broke") as caught:
                trainer.step_with_loss(0.0, pieces)
            # The traceback, and with it every frame, is still alive here.
            assert caught.value.__traceback__ is not None
            # A map that was not released would keep its memory from being collected.
            trainer.session.collect()
            assert held() == before, name
    assert lists(trainer.backward(pieces)) == [[4.0], [4.0]]


def test_a_loss_that_is_a_parameter_is_read_before_it_is_overwritten() -> None:
    trainer = scalar_trainer(lambda ops, w: w, [3.0], **CPU)
    assert trainer.step_with_loss(1.0, []).item() == 3.0
    assert trainer.params.values()[0].item() == 2.0


@pytest.mark.holds("Values of the list")
def test_values_are_current_or_as_last_read() -> None:
    trainer = two_params()
    params = trainer.params
    trainer.step(0.125, X)
    before = counters.downloads
    assert lists(params.values(sync=False)) == [[3.0], [1.0]]
    assert counters.downloads == before
    assert lists(params.values()) == lists(params.values(sync=False)) == [[2.5], [0.5]]
    params.values()[0].zero_()
    assert lists(params.values()) == [[2.5], [0.5]]


@pytest.mark.holds("Values of the list")
def test_values_are_set_all_or_none() -> None:
    params = ParamList([1.0, [2.0]], **CPU)
    params.set_values([5.0, np.array([6.0])])
    assert lists(params.values()) == [5.0, [6.0]]
    for bad in ([7.0], [7.0, 8.0], [7.0, [8.0]] * 2, [7.0, ["8"]]):
        with pytest.raises(Rejected, match=r"^params: values of the shapes|world str"):
            params.set_values(bad)
    assert lists(params.values()) == [5.0, [6.0]]
    assert [param.version for param in params.params] == [1, 1]


@pytest.mark.holds("A list of parameters, trainable or frozen")
def test_flags_are_as_many_as_values() -> None:
    s = Session(**CPU)
    for flags in ([True], [True, 1], [True, False, True]):
        with pytest.raises(Rejected, match=r"^params: one requires_grad flag, .* the 2 values"):
            ParamList([1.0, 2.0], flags, session=s)
    with pytest.raises(Rejected, match="world str"):
        ParamList([1.0, "2"], session=s)
    assert s.params == []
    with pytest.raises(Rejected, match="the options precision are for a new session"):
        ParamList([1.0], session=s, precision="bf16")


@pytest.mark.holds("One step of the list")
def test_a_list_steps_by_its_gradients_all_or_none() -> None:
    params = ParamList([1.0, 2.0], [True, False], **CPU)
    s = params.session
    ref = s.input([1.0])
    params.sgd_step(0.5, [1.0, 1.0])
    assert lists(params.values()) == [0.5, 2.0]
    params.sgd_step(0.5, [s.upload(1.0), None], momentum=0.5)
    assert lists(params.values()) == [0.0, 2.0]
    assert s.value(ref).tolist() == [1.0], "the session's tape is left alone"
    both = ParamList([1.0, 2.0], session=s)
    with pytest.raises(Rejected, match=r"^params: one gradient for each of 2; got 1$"):
        both.sgd_step(0.5, [1.0])
    with pytest.raises(Rejected, match=r"must have the shape \(\), got \(1,\)"):
        both.sgd_step(0.5, [1.0, [1.0]])
    both.sgd_step(0.5, [None, 1.0])
    assert lists(both.values()) == [1.0, 1.5]
    assert len(both) == 2


@pytest.mark.holds("Parameters and inputs onto the tape, gradients off it")
@pytest.mark.usefixtures("settled")
def test_helpers_use_and_differentiate() -> None:
    s = Session(**CPU)
    params = ParamList([[1.0, 2.0], [3.0, 4.0]], [True, False], session=s)
    w, b = use_params(s, params)
    x, labels = use_inputs(s, [[5.0, 6.0], [0, 1]])
    assert ([ref.id for ref in (w, b, x)], labels) == ([0, 1, 2], [0, 1])
    assert [w.requires_grad, b.requires_grad, x.requires_grad] == [True, False, False]
    h = s.mul(s.mul(w, b), x)
    live = held()
    found = gradients_of(s, s.sum(h), [w, b, x, h])
    assert lists(found) == [[15.0, 24.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    assert held()[1] == live[1] + 1, "the sum alone is new"


@pytest.mark.holds("A list of parameters, trainable or frozen", "A trainer of a scalar loss")
def test_a_trainer_works_in_the_session_given() -> None:
    s = Session(**CPU)
    trainer = scalar_trainer(distance, [[3.0], [1.0]], session=s)
    assert trainer.session is s
    assert trainer.params.params == s.params
    first = s.input([1.0])
    trainer.step(0.125, X)
    with pytest.raises(SessionError, match="before reset_tape"):
        s.value(first)
    other = scalar_trainer(distance, [[3.0], [1.0]], session=s)
    other.step(0.125, X)
    assert lists(p.value() for p in s.params) == [[2.5], [0.5]] * 2


@pytest.mark.holds("The mean of losses over a list, an array or a dataset, all alike")
def test_a_mean_adds_left_to_right_then_scales_once() -> None:
    s = Session(**CPU)
    data = [2.0**24, 1.0, -(2.0**24), 1.0]
    # (2^24 + 1) - 2^24 + 1: the first 1 is lost, the second is not.
    mean = mean_scalar_over(s, "batch", data, s.input)
    assert s.value(mean).item() == 0.25


def test_the_data_are_read_once_and_in_order() -> None:
    s, seen = Session(**CPU), []

    def loss_of(x: float) -> Any:
        seen.append(x)
        return s.input(x, requires_grad=True)

    before = counters.uploads
    mean = mean_scalar_over(s, "batch", iter([3.0, 1.0, 2.0]), loss_of)
    assert counters.uploads - before == 3
    assert seen == [3.0, 1.0, 2.0]
    assert s.value(mean).item() == 2.0
    with s.backward(mean) as grads:
        third = torch.tensor(1 / 3).item()
        assert [grads[leaf].tensor.item() for leaf in grads] == [third] * 3


class Dataset:
    """Examples that can be asked for by position, and nothing else."""

    def __init__(self, examples: list[float]) -> None:
        """Hold the examples."""
        self.examples = examples

    def __getitem__(self, k: int) -> float:
        """Return one of them."""
        return self.examples[k]


@pytest.mark.holds("The mean of losses over a list, an array or a dataset, all alike")
@pytest.mark.parametrize("form", [list, tuple, iter, np.array, torch.tensor, Dataset])
def test_every_form_of_data_gives_the_mean_of_the_twin(form: Callable[..., Any]) -> None:
    examples = [0.5, -2.0, 3.0, 4.0]
    theirs, ours = spec.session.Session(), Session(**CPU, precision="fp64")

    def mean(module: Any, s: Any, number: Callable[[Any], Any], data: Any) -> list[Any]:
        w = s.use(s.param(number(3.0)))
        mean = module.mean_scalar_over(
            s, "batch", data, lambda x: s.square(s.mul(w, s.input(number(x))))
        )
        return [s.value(mean), s.grad(s.backward(mean), w)]

    expected = mean(spec.train, theirs, lambda x: Tensor((), [Fraction(x)]), examples)
    assert flat(expected) == [[Fraction(9 * 29.25) / 4], [Fraction(6 * 29.25) / 4]]
    given = form(examples)
    assert flat(mean(train, ours, float, given)) == flat(expected)
    assert form is iter or list(given) == examples == [0.5, -2.0, 3.0, 4.0]


@pytest.mark.holds("The mean of losses over a list, an array or a dataset, all alike")
def test_no_data_have_no_mean_and_a_mean_is_of_scalars() -> None:
    s = Session(**CPU)
    with pytest.raises(Rejected, match=r"^fold 3: empty dataset$"):
        mean_scalar_over(s, "fold 3", [], s.input)
    assert s.input(1.0).id == 0
    for losses in ([[1.0, 2.0]], [[]], [1.0, [1.0]]):
        with pytest.raises(Rejected, match=r"^batch: the loss of an example is a scalar; got"):
            mean_scalar_over(s, "batch", losses, s.input)


@pytest.mark.holds("A trainer of a scalar loss")
def test_the_twin_has_the_same_methods_and_functions() -> None:
    def names(function: Any) -> list[str]:
        return [p.name for p in inspect.signature(function).parameters.values()]

    for name in ("ParamList", "ScalarTrainer", "MicroBatches"):
        ours, theirs = getattr(train, name), getattr(spec.train, name)
        methods = [n for n, v in vars(theirs).items() if inspect.isfunction(v) and n[0] != "_"]
        for method in methods:
            wanted = names(getattr(theirs, method))
            assert names(getattr(ours, method))[: len(wanted)] == wanted, (name, method)
    for name in ("use_params", "use_inputs", "gradients_of", "mean_scalar_over", "split"):
        assert names(getattr(train, name)) == names(getattr(spec.train, name)), name
    assert names(scalar_trainer)[:3] == names(spec.train.scalar_trainer)[:3]


@pytest.mark.holds("One step of the list")
def test_a_step_of_the_list_is_the_trainers_on_both_sides() -> None:
    found = []
    values, x = [[3.0], [1.0]], Tensor((1,), [Fraction(2)])
    exact = [Tensor((1,), [Fraction(n)]) for (n,) in values]
    for make, start, inputs in (
        (lambda v, f: scalar_trainer(distance, v, f, **CPU, precision="fp64"), values, X),
        (lambda v, f: spec.train.scalar_trainer(distance, v, f), exact, [x]),
    ):
        whole, by_list = make(start, [True, False]), make(start, [True, False])
        whole.step(0.125, inputs)
        by_list.params.sgd_step(0.125, by_list.backward(inputs))
        found += [flat(t.params.values()) for t in (whole, by_list)]
        assert [[p.version for p in t.params.params] for t in (whole, by_list)] == [[1, 0]] * 2
    assert found == [[[Fraction(5, 2)], [1]]] * 4


@pytest.mark.holds(
    "Values of the list",
    "Loss and gradients of a trainer",
    "Steps of a trainer",
    "A trainer of a scalar loss",
)
def test_a_life_of_training_is_the_twins() -> None:
    """Numbers are small multiples of powers of two, so that fp64 is exact."""

    def loss(ops: Any, w: Any, b: Any, x: Any, labels: Any) -> Any:
        rows = ops.take(ops.relu(ops.linear(x, w, b)), labels, axis=0)
        return ops.sum(ops.square(rows))

    def both(values: list[Any]) -> tuple[list[Any], list[Any]]:
        arrays = [np.array(v) for v in values]
        numbers = [Tensor(a.shape, [_exactly(n) for n in a.ravel().tolist()]) for a in arrays]
        return values, numbers

    ours, theirs = both([[[1.0, -2.0], [0.5, 1.0]], [1.0, -1.0]])
    fast = scalar_trainer(loss, ours, [True, True], **CPU, precision="fp64")
    slow = spec.train.scalar_trainer(loss, theirs, [True, True])
    data = both([[[1.0, 2.0], [-3.0, 1.0], [2.0, 0.0], [0.0, 1.0]], [0, 1, 1, 0]])
    pieces = train.split(data[0], 2, "sum"), spec.train.split(data[1], 2, "sum")
    lr = [0.25, 0.125].__getitem__
    for k, (mine, reference) in enumerate((data, pieces)):
        got = fast.loss_and_backward(mine)
        expected = slow.loss_and_backward(reference)
        assert flat([got[0], *got[1]]) == flat([expected[0], *expected[1]])
        hyper: dict[str, Any] = {"momentum": 0.5, "groups": [{"params": [1], "lr": 0.5**k}]}
        got_loss = fast.step_with_loss(lr, mine, **hyper)
        assert flat([got_loss]) == flat([slow.step_with_loss(lr, reference, **hyper)])
        assert flat(fast.params.values()) == flat(slow.params.values())
    for trainer in (fast, slow):
        trainer.params.params[1].requires_grad = False
        trainer.step(2.0**-4, pieces[trainer is slow])
    assert flat(fast.params.values()) == flat(slow.params.values())
    assert fast.steps == slow.steps == 3


def _exactly(number: Any) -> Any:
    return number if isinstance(number, int) else Fraction(number)


def flat(tensors: Any) -> list[Any]:
    """List the entries of tensors of either side as exact numbers."""
    return [
        [Fraction(x) for x in (t.flatten().tolist() if isinstance(t, torch.Tensor) else t.data)]
        for t in tensors
    ]
