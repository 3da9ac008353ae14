"""Training by hand: lists of parameters, a trainer of a scalar loss, and means over data."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from spec.op import Rejected
from spec.optim import adamw
from spec.session import Ref, Session
from spec.tensor import tensor
from spec.train import ParamList, mean_scalar_over, scalar_trainer


def distance(ops: Any, w: Any, b: Any, x: Any) -> Any:
    """The squared distance of w + b from x."""
    return ops.sum(ops.square(w + b - x))


def two_params(requires_grad: list[bool] | None = None) -> Any:
    """A trainer of two parameters whose sum should become x."""
    return scalar_trainer(distance, [tensor([3.0]), tensor([1.0])], requires_grad)


X = [tensor([2.0])]
"""With w = 3 and b = 1 the loss is 4 and both gradients are 4."""


def test_loss_and_gradients_by_hand() -> None:
    trainer = two_params()
    assert trainer.forward(X) == tensor(4.0)
    assert trainer.backward(X) == [tensor([4.0]), tensor([4.0])]
    assert trainer.loss_and_backward(X) == (tensor(4.0), [tensor([4.0]), tensor([4.0])])
    assert trainer.params.values() == [tensor([3.0]), tensor([1.0])], "nothing was stepped"


def test_steps_by_hand() -> None:
    trainer = two_params()
    assert trainer.step_with_loss(0.125, X) == tensor(4.0)
    assert trainer.params.values() == [tensor([2.5]), tensor([0.5])]
    trainer.step(0.125, X)
    assert trainer.params.values() == [tensor([2.25]), tensor([0.25])]
    assert trainer.step_with_loss(0.0, X) == tensor(0.25)


def test_a_frozen_parameter_has_gradient_zero_and_stays() -> None:
    trainer = two_params([True, False])
    assert trainer.backward(X) == [tensor([4.0]), tensor([0.0])]
    trainer.step(0.25, X)
    assert trainer.params.values() == [tensor([2.0]), tensor([1.0])]


def test_states_live_across_steps() -> None:
    trainer = two_params([True, False])
    trainer.step(0.25, X, momentum=0.5)
    # w = 2: gradient 2, buffer 0.5 * 4 + 2 = 4
    trainer.step(0.25, X, momentum=0.5)
    assert trainer.params.values()[0] == tensor([1.0])


def test_an_adamw_step_is_the_pages() -> None:
    trainer = two_params([True, False])
    assert trainer.adamw_step(X, lr=0.5) == tensor(4.0)
    w = tensor([3.0])
    expected, _ = adamw.update(w, tensor([4.0]), adamw.init(w), adamw.AdamW(0.5))
    assert trainer.params.values()[0] == expected


def test_each_run_starts_a_new_tape() -> None:
    trainer = two_params()
    trainer.forward(X)
    nodes = len(trainer.session.tape)
    trainer.step(0.25, X)
    assert len(trainer.session.tape) == nodes


def test_a_loss_that_is_no_scalar_is_refused() -> None:
    trainer = scalar_trainer(lambda ops, w: ops.square(w), [tensor([3.0])])
    for run in (trainer.forward, trainer.backward, lambda x: trainer.step(0.5, x)):
        with pytest.raises(Rejected, match=r"^trainer: the loss is a scalar; got shape \(1,\)$"):
            run([])
    assert trainer.params.values() == [tensor([3.0])]


def test_flags_are_as_many_as_values() -> None:
    with pytest.raises(Rejected, match=r"^params: one requires_grad flag for each of the 2"):
        ParamList([tensor(1.0), tensor(2.0)], [True])


def test_values_are_set_all_or_none() -> None:
    params = ParamList([tensor(1.0), tensor([2.0])])
    params.set_values([tensor(5.0), tensor([6.0])])
    assert params.values() == [tensor(5.0), tensor([6.0])]
    for bad in ([tensor(7.0)], [tensor(7.0), tensor(8.0)], [tensor(7.0), tensor([8.0])] * 2):
        with pytest.raises(Rejected, match=r"^params: values of the shapes"):
            params.set_values(bad)
    assert params.values() == [tensor(5.0), tensor([6.0])]


def test_a_list_steps_by_its_gradients_all_or_none() -> None:
    params = ParamList([tensor(1.0), tensor(2.0)], [True, False])
    params.sgd_step(0.5, [tensor(1.0), tensor(1.0)])
    assert params.values() == [tensor(0.5), tensor(2.0)]
    with pytest.raises(Rejected, match=r"^params: one gradient for each of 2; got 1$"):
        params.sgd_step(0.5, [tensor(1.0)])
    both = ParamList([tensor(1.0), tensor(2.0)])
    with pytest.raises(Rejected, match=r"^grad: "):
        both.sgd_step(0.5, [tensor(1.0), tensor([1.0])])
    assert both.values() == [tensor(1.0), tensor(2.0)]
    assert len(params) == 2


def test_a_mean_adds_left_to_right_then_scales_once() -> None:
    session = Session()
    data = [2.0**53, 1.0, -(2.0**53), 1.0]
    # (2^53 + 1) - 2^53 + 1: the first 1 is lost, the second is not
    mean = mean_scalar_over(session, "batch", data, lambda x: session.input(tensor(x)))
    assert session.value(mean) == tensor(0.25)


def test_the_data_are_read_once_and_in_order() -> None:
    session, seen = Session(), []

    def loss_of(x: int) -> Ref:
        seen.append(x)
        return session.input(tensor(Fraction(x)), requires_grad=True)

    mean = mean_scalar_over(session, "batch", iter([3, 1, 2]), loss_of)
    assert seen == [3, 1, 2]
    assert session.value(mean) == tensor(2)
    assert set(session.backward(mean).values()) == {tensor(Fraction(1, 3))}


def test_no_data_have_no_mean() -> None:
    session = Session()
    with pytest.raises(Rejected, match=r"^fold 3: empty dataset$"):
        mean_scalar_over(session, "fold 3", [], lambda x: x)
    assert len(session.tape) == 0


@pytest.mark.parametrize("losses", [[[1.0, 2.0]], [[]], [1.0, [1.0]]])
def test_a_mean_is_of_scalars(losses: list[Any]) -> None:
    session = Session()
    with pytest.raises(Rejected, match=r"^batch: the loss of an example is a scalar; got shape"):
        mean_scalar_over(session, "batch", losses, lambda x: session.input(tensor(x)))
