"""Training by hand: lists of parameters, a trainer over both interpreters, means over data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest

from spec.autodiff import grad
from spec.linked import GraphSession
from spec.op import Rejected
from spec.optim import adam, adamw
from spec.refusals import Unmoved
from spec.session import Ref, Session
from spec.tensor import tensor
from spec.train import (
    INTERPRETERS,
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


def distance(ops: Any, w: Any, b: Any, x: Any) -> Any:
    """The squared distance of w + b from x."""
    return ops.sum(ops.square(w + b - x))


Make = Callable[..., ScalarTrainer]


@pytest.fixture(params=sorted(INTERPRETERS))
def two_params(request: pytest.FixtureRequest) -> Make:
    """Return what makes a trainer of two parameters whose sum should become x."""

    def make(requires_grad: list[bool] | None = None, loss: Any = distance) -> ScalarTrainer:
        return scalar_trainer(loss, [tensor([3.0]), tensor([1.0])], requires_grad, request.param)

    return make


@pytest.fixture(params=[Session, GraphSession])
def session(request: pytest.FixtureRequest) -> Any:
    """Return an empty session of either kind."""
    return request.param()


X = [tensor([2.0])]
"""With w = 3 and b = 1 the loss is 4 and both gradients are 4."""


@pytest.mark.holds("Loss and gradients of a trainer")
def test_loss_and_gradients_by_hand(two_params: Make) -> None:
    trainer = two_params()
    assert trainer.forward(X) == tensor(4.0)
    assert trainer.backward(X) == [tensor([4.0]), tensor([4.0])]
    assert trainer.loss_and_backward(X) == (tensor(4.0), [tensor([4.0]), tensor([4.0])])
    assert trainer.params.values() == [tensor([3.0]), tensor([1.0])], "nothing was stepped"
    assert trainer.steps == 0


def test_a_trainer_hands_out_its_parameters_in_order(two_params: Make) -> None:
    trainer = two_params()
    assert trainer.get_params() == [tensor([3.0]), tensor([1.0])]
    trainer.step(0.125, X)
    assert trainer.get_params(sync=False) == trainer.params.values() == trainer.get_params()
    assert trainer.get_params() == [tensor([2.5]), tensor([0.5])]


@pytest.mark.holds("Steps of a trainer")
def test_steps_by_hand(two_params: Make) -> None:
    trainer = two_params()
    assert trainer.step_with_loss(0.125, X) == tensor(4.0)
    assert trainer.params.values(sync=False) == [tensor([2.5]), tensor([0.5])]
    assert trainer.step(0.125, X) is None
    assert trainer.params.values() == [tensor([2.25]), tensor([0.25])]
    assert trainer.step_with_loss(0.0, X) == tensor(0.25)
    assert trainer.steps == 3


def test_a_frozen_parameter_has_gradient_zero_and_stays(two_params: Make) -> None:
    trainer = two_params([True, False])
    assert trainer.backward(X) == [tensor([4.0]), tensor([0.0])]
    trainer.step(0.25, X)
    assert trainer.params.values() == [tensor([2.0]), tensor([1.0])]


def test_a_parameter_that_is_not_reached_has_gradient_zero_and_is_skipped(two_params: Make) -> None:
    trainer = two_params(loss=lambda ops, w, b, x: ops.sum(ops.square(w - x)))
    assert trainer.backward(X) == [tensor([2.0]), tensor([0.0])]
    trainer.adamw_step(X, lr=0.5)
    assert trainer.params.params[1].version == 0, "not even weight decay moves it"


def test_states_live_across_steps(two_params: Make) -> None:
    trainer = two_params([True, False])
    trainer.step(0.25, X, momentum=0.5)
    # w = 2: gradient 2, buffer 0.5 * 4 + 2 = 4
    trainer.step(0.25, X, momentum=0.5)
    assert trainer.params.values()[0] == tensor([1.0])


@pytest.mark.holds("Steps of a trainer")
@pytest.mark.parametrize(
    ("method", "page", "hyper"),
    [
        ("adam_step", adam, adam.Adam(0.5)),
        ("adamw_step", adamw, adamw.AdamW(0.5)),
    ],
)
def test_steps_of_adam_are_the_pages(two_params: Make, method: str, page: Any, hyper: Any) -> None:
    trainer = two_params([True, False])
    step = getattr(trainer, method)
    assert step(X, lr=0.5, with_loss=True) == tensor(4.0)
    w = tensor([3.0])
    expected, _ = page.update(w, tensor([4.0]), page.init(w), hyper)
    assert trainer.params.values()[0] == expected
    assert step(X, lr=0.5) is None
    assert trainer.session.state(trainer.params.params[0]).step == 2


@pytest.mark.holds("One program, every interpreter", "A trainer of a scalar loss")
def test_both_interpreters_take_the_same_steps() -> None:
    def loss(ops: Any, w: Any, v: Any, x: Any) -> Any:
        hidden = ops.dropout(ops.tanh(ops.matmul(x, w)), p=0.5, seed=3)
        return ops.mean(ops.square(ops.matmul(hidden, v)))

    start = [tensor([[0.5, -1.0, 2.0]]), tensor([[1.0], [0.5], [-1.5]])]
    batch = [tensor([[1.0], [-2.0]])]
    runs: list[list[Any]] = []
    for interpreter in INTERPRETERS:
        trainer = scalar_trainer(loss, start, interpreter=interpreter)
        losses = [trainer.adamw_step(batch, lr=0.1, with_loss=True) for _ in range(4)]
        runs.append([*losses, *trainer.params.values(), trainer.session.random_counter])
    assert runs[0] == runs[1]
    assert runs[0][-1] == 4, "each step draws anew"


def test_a_rate_may_be_a_schedule_and_groups_name_parameters_by_position(two_params: Make) -> None:
    trainer, seen = two_params(), []

    def rate(step: int) -> float:
        seen.append(step)
        return 0.25 if step == 1 else 0.0

    trainer.step(rate, X)
    assert trainer.params.values() == [tensor([3.0]), tensor([1.0])]
    trainer.step(rate, X)
    assert trainer.params.values() == [tensor([2.0]), tensor([0.0])]
    trainer.step(0.0, [tensor([0.0])], groups=[{"params": [1], "lr": lambda step: step / 8}])
    assert trainer.params.values() == [tensor([2.0]), tensor([-1.0])]
    assert (seen, trainer.steps) == ([0, 1], 3)


def test_each_run_starts_a_new_record(two_params: Make) -> None:
    trainer = two_params()
    trainer.forward(X)
    nodes = len(trainer.session.tape)
    trainer.step(0.25, X)
    assert len(trainer.session.tape) == nodes


@pytest.mark.holds("Loss and gradients of a trainer")
def test_a_loss_that_is_no_scalar_is_refused(two_params: Make) -> None:
    trainer = two_params(loss=lambda ops, w, b, x: ops.square(w))
    for run in (trainer.forward, trainer.backward, lambda x: trainer.step(0.5, x)):
        with pytest.raises(Rejected, match=r"^trainer: the loss is a scalar; got shape \(1,\)$"):
            run(X)
    assert trainer.params.values() == [tensor([3.0]), tensor([1.0])]
    assert trainer.steps == 0


@pytest.mark.holds("A trainer of a scalar loss")
def test_an_unknown_interpreter_is_refused() -> None:
    with pytest.raises(Rejected, match=r"^trainer: the interpreter is one of eager, graph; got"):
        scalar_trainer(distance, [], interpreter="compiled")


ROWS = [tensor([[Fraction(k), Fraction(k * k)] for k in range(5)])]


def spread_out(ops: Any, w: Any, b: Any, x: Any) -> Any:
    """The mean over the rows of (x w + b)^2."""
    return ops.mean(ops.square(ops.matmul(x, w) + b))


@pytest.mark.parametrize("interpreter", sorted(INTERPRETERS))
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_batch_in_pieces_takes_the_step_of_the_whole(interpreter: str, count: int) -> None:
    start = [tensor([[Fraction(1)], [Fraction(-2)]]), tensor([Fraction(3)])]
    whole, pieces = (scalar_trainer(spread_out, start, None, interpreter) for _ in range(2))
    batch = split(ROWS, count)
    assert whole.forward(ROWS) == pieces.forward(batch)
    assert whole.loss_and_backward(ROWS) == pieces.loss_and_backward(batch)
    assert whole.step_with_loss(Fraction(1, 2), ROWS) == pieces.step_with_loss(
        Fraction(1, 2), batch
    )
    assert whole.params.values() == pieces.params.values()
    assert pieces.params.params[0].version == 1, "one update"


def test_pieces_of_a_sum_weigh_1_and_unweighted_ones_alike() -> None:
    sizes = [piece[0].shape[0] for piece in split(ROWS, 3).pieces]
    assert sizes == [1, 2, 2]
    assert split(ROWS, 3, "sum").weights == [1, 1, 1]
    assert split(ROWS, 3).weights == [Fraction(1, 5), Fraction(2, 5), Fraction(2, 5)]
    trainer = scalar_trainer(lambda ops, w, x: ops.sum(w * x), [tensor(Fraction(1))])
    parts = [[tensor(Fraction(k))] for k in (3, 5)]
    assert trainer.forward(MicroBatches(parts)) == tensor(4)
    assert trainer.forward(MicroBatches(parts, [1, 10])) == tensor(53)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda t: split(ROWS, 6), "split: the inputs have one extent .*the extents .5. and 6"),
        (lambda t: split(ROWS, 0), "split: the inputs have one extent"),
        (lambda t: split([*ROWS, tensor([1.0])], 1), r"split: .*got the extents \[5, 1\]"),
        (lambda t: split([tensor(1.0)], 1), r"split: .*got the extents \[None\]"),
        (lambda t: split([], 1), "split: the inputs have one extent"),
        (lambda t: split(ROWS, 1, "none"), "split: the reduction is 'mean' or 'sum'; got 'none'"),
        (lambda t: t.forward(MicroBatches([])), "trainer: at least one micro-batch"),
        (lambda t: t.step(0.5, MicroBatches([X], [])), "trainer: .*; got 1 and 0 weights"),
    ],
)
def test_pieces_that_make_no_batch_are_refused(ask: Any, message: str) -> None:
    trainer = scalar_trainer(distance, [tensor([3.0]), tensor([1.0])])
    with pytest.raises(Rejected, match=f"^{message}"):
        ask(trainer)
    assert trainer.params.values() == [tensor([3.0]), tensor([1.0])]


@pytest.mark.holds("Parameters and inputs onto the tape, gradients off it")
def test_helpers_record_and_read_in_order(session: Any) -> None:
    params = ParamList([tensor([3.0]), tensor([1.0])], [True, False])
    leaves = use_params(session, params)
    inputs = use_inputs(session, [*X, tensor([5.0])])
    assert [ref.id for ref in (*leaves, *inputs)] == [0, 1, 2, 3]
    assert [session.value(ref) for ref in inputs] == [*X, tensor([5.0])]
    loss = distance(session, *leaves, inputs[0])
    refs = [inputs[1], *reversed(leaves)]
    assert gradients_of(session, loss, refs) == [tensor([0.0]), tensor([0.0]), tensor([4.0])]


@pytest.mark.holds("A list of parameters, trainable or frozen")
def test_flags_are_as_many_as_values() -> None:
    with pytest.raises(Rejected, match=r"^params: one requires_grad flag for each of the 2"):
        ParamList([tensor(1.0), tensor(2.0)], [True])


@pytest.mark.holds("Values of the list")
def test_values_are_set_all_or_none() -> None:
    params = ParamList([tensor(1.0), tensor([2.0])])
    params.set_values([tensor(5.0), tensor([6.0])])
    assert params.values() == [tensor(5.0), tensor([6.0])]
    for bad in ([tensor(7.0)], [tensor(7.0), tensor(8.0)], [tensor(7.0), tensor([8.0])] * 2):
        with pytest.raises(Rejected, match=r"^params: values of the shapes"):
            params.set_values(bad)
    assert params.values() == [tensor(5.0), tensor([6.0])]


@pytest.mark.holds("One step of the list")
def test_a_list_steps_by_its_gradients_all_or_none() -> None:
    params = ParamList([tensor(1.0), tensor(2.0)], [True, False])
    params.sgd_step(0.5, [tensor(1.0), tensor(1.0)])
    assert params.values() == [tensor(0.5), tensor(2.0)]
    with pytest.warns(Unmoved, match="the gradients do not reach param0$") as told:
        params.sgd_step(0.5, [None, None])
    assert told[0].filename == __file__
    assert [param.version for param in params.params] == [1, 0]
    with pytest.raises(Rejected, match=r"^params: one gradient for each of 2; got 1$"):
        params.sgd_step(0.5, [tensor(1.0)])
    both = ParamList([tensor(1.0), tensor(2.0)])
    with pytest.raises(Rejected, match=r"^grad: "):
        both.sgd_step(0.5, [tensor(1.0), tensor([1.0])])
    assert both.values() == [tensor(1.0), tensor(2.0)]
    assert len(params) == 2


@pytest.mark.holds("One step of the list")
def test_a_list_steps_with_hyper_parameters_and_states(session: Any) -> None:
    params = ParamList([tensor(3.0), tensor(1.0)], session=session)
    ref = session.use(params.params[1])
    for _ in range(2):
        params.sgd_step(0.5, [tensor(1.0), None], momentum=0.5)
    # buffers 1, 1.5
    assert params.values() == [tensor(1.75), tensor(1.0)]
    assert session.state(params.params[0]).momentum_buffer == tensor(1.5)
    assert session.value(ref) == tensor(1.0), "the session's record is left alone"
    assert session.params_by_leaf == {ref.id: params.params[1]}
    before = params.values()
    with pytest.raises(Rejected, match=r"^sgd C1: momentum"):
        params.sgd_step(0.5, [tensor(1.0), None], momentum=-1.0)
    assert params.values() == before
    assert session.params_by_leaf == {ref.id: params.params[1]}
    ParamList([tensor(1.0)]).sgd_step(0.5, [tensor(1.0)], max_norm=0.5)


def test_a_trainer_and_its_list_share_the_states(two_params: Make) -> None:
    trainer, by_list = two_params([True, False]), two_params([True, False])
    for _ in range(2):
        trainer.step(0.25, X, momentum=0.5)
    by_list.params.sgd_step(0.25, by_list.backward(X), momentum=0.5)
    by_list.step(0.25, X, momentum=0.5)
    assert by_list.params.values() == trainer.params.values()


@pytest.mark.holds("The mean of losses over a list, an array or a dataset, all alike")
def test_a_mean_adds_left_to_right_then_scales_once(session: Any) -> None:
    data = [2.0**53, 1.0, -(2.0**53), 1.0]
    # (2^53 + 1) - 2^53 + 1: the first 1 is lost, the second is not
    mean = mean_scalar_over(session, "batch", data, lambda x: session.const(tensor(x)))
    assert session.value(mean) == tensor(0.25)


@pytest.mark.holds("The mean of losses over a list, an array or a dataset, all alike")
def test_the_data_are_read_once_and_in_order() -> None:
    session, seen = Session(), []

    def loss_of(x: int) -> Ref:
        seen.append(x)
        return session.input(tensor(Fraction(x)), requires_grad=True)

    mean = mean_scalar_over(session, "batch", iter([3, 1, 2]), loss_of)
    assert seen == [3, 1, 2]
    assert session.value(mean) == tensor(2)
    assert set(session.backward(mean).values()) == {tensor(Fraction(1, 3))}


class Dataset:
    """Examples that can be counted and asked for by position, and nothing else."""

    def __init__(self, examples: list[float]) -> None:
        """Hold the examples."""
        self.examples = examples

    def __len__(self) -> int:
        """Count them."""
        return len(self.examples)

    def __getitem__(self, k: int) -> float:
        """Return one of them."""
        return self.examples[k]


class Stream:
    """Examples that can only be iterated over."""

    def __init__(self, examples: list[float]) -> None:
        """Hold the examples."""
        self.examples = examples

    def __iter__(self) -> Iterator[float]:
        """Return each in turn."""
        return iter(self.examples)


EXAMPLES = [0.1, 0.2, 0.3, 1e16, -1e16]


@pytest.mark.holds("The mean of losses over a list, an array or a dataset, all alike")
@pytest.mark.parametrize("form", [list, tuple, Dataset, Stream, iter])
def test_every_form_of_data_gives_the_mean_of_the_list(session: Any, form: Any) -> None:
    w = session.use(session.param(tensor(3.0)))

    def mean(data: Any) -> Any:
        return mean_scalar_over(
            session, "batch", data, lambda x: ops_square(session, w, session.const(tensor(x)))
        )

    plain, other = mean(EXAMPLES), mean(form(EXAMPLES))
    assert session.value(plain) == session.value(other)
    assert session.backward(plain) == session.backward(other)


def ops_square(ops: Any, w: Any, x: Any) -> Any:
    """The square of w x."""
    return ops.square(w * x)


def test_a_mean_is_differentiated_by_the_functions_of_autodiff() -> None:
    def f(ops: Any, w: Any) -> Any:
        return mean_scalar_over(
            ops, "batch", [1, 2], lambda x: ops_square(ops, w, ops.const(tensor(Fraction(x))))
        )

    assert grad(f)(tensor(Fraction(3))) == tensor(2 * 3 * Fraction(5, 2))


@pytest.mark.holds("The mean of losses over a list, an array or a dataset, all alike")
@pytest.mark.parametrize("data", [[], (), Dataset([]), Stream([])])
def test_no_data_have_no_mean(session: Any, data: Any) -> None:
    with pytest.raises(Rejected, match=r"^fold 3: empty dataset$"):
        mean_scalar_over(session, "fold 3", data, lambda x: x)
    assert len(session.tape) == 0


@pytest.mark.parametrize("losses", [[[1.0, 2.0]], [[]], [1.0, [1.0]]])
def test_a_mean_is_of_scalars(session: Any, losses: list[Any]) -> None:
    with pytest.raises(Rejected, match=r"^batch: the loss of an example is a scalar; got shape"):
        mean_scalar_over(session, "batch", losses, lambda x: session.const(tensor(x)))
