"""What trainers, lists of parameters and batches refuse, and that nothing is changed by it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from fast import Rejected, Session
from fast.train import MicroBatches, ParamList, ScalarTrainer, scalar_trainer, split

CPU: dict[str, Any] = {"provider": "aten", "device": "cpu"}
X = [[2.0]]


def trainer(**options: Any) -> ScalarTrainer:
    """A trainer of two parameters whose sum should become x."""

    def distance(ops: Any, w: Any, b: Any, x: Any) -> Any:
        return ops.sum(ops.square(w + b - x))

    return scalar_trainer(distance, [[3.0], [1.0]], **{**CPU, **options})


@pytest.mark.parametrize("flags", [True, 5, "ab", {0: True, 1: False}, iter([True, True])])
def test_flags_are_a_list(flags: Any) -> None:
    s = Session(**CPU)
    with pytest.raises(Rejected, match=r"^params: one requires_grad flag, .* the 2 values"):
        ParamList([1.0, 2.0], flags, session=s)
    assert s.params == []


@pytest.mark.parametrize("values", [5, None, "12", {0: 1.0}])
def test_values_are_a_list(values: Any) -> None:
    with pytest.raises(Rejected, match=r"^params: a list of values"):
        ParamList(values, **CPU)


@pytest.mark.parametrize("taken", ["param1", "param2", "param3"])
def test_a_name_that_is_taken_leaves_no_half_of_a_list(taken: str) -> None:
    s = Session(**CPU)
    s.param(0.0, name=taken)
    with pytest.raises(Rejected, match=f"^params: the name '{taken}' is taken"):
        ParamList([1.0, 2.0, 3.0], session=s)
    assert [p.name for p in s.params] == [taken]
    if taken == "param3":
        ParamList([1.0, 2.0], session=s)
        assert [p.name for p in s.params] == [taken, "param1", "param2"]


@pytest.mark.parametrize("position", [-1, 2, 10**30, True, False])
@pytest.mark.parametrize("name", ["step", "step_with_loss", "adam_step", "adamw_step"])
def test_a_position_is_one_of_the_list(name: str, position: Any) -> None:
    made = trainer()
    before = made.params.values()
    groups = [{"params": [position], "lr": 1.0}]
    with pytest.raises(Rejected, match=r"^trainer: .* position, from 0 to 1; got"):
        if name.startswith("step"):
            getattr(made, name)(0.5, X, groups=groups)
        else:
            getattr(made, name)(X, groups=groups)
    assert all(map(torch.equal, before, made.params.values())) and made.steps == 0
    made.step(0.5, X, groups=({"params": (p for p in (0, made.params.params[1])), "lr": 0.0},))
    assert all(map(torch.equal, before, made.params.values()))


def test_params_are_had_from_the_trainer() -> None:
    made = trainer()
    made.step(0.125, X)
    assert [v.tolist() for v in made.get_params(sync=False)] == [[3.0], [1.0]]
    found = made.get_params()
    assert [v.tolist() for v in found] == [[2.5], [0.5]]
    found[0].zero_()
    assert [v.tolist() for v in made.get_params()] == [[2.5], [0.5]]


HUGE = 10**400


@pytest.mark.parametrize(
    "weight", [float("nan"), float("inf"), -float("inf"), True, HUGE, Fraction(HUGE), 1e39, "1",
               None, torch.ones(2), 10**5000], ids="abcdefghijk",
)  # fmt: skip
@pytest.mark.parametrize("name", ["forward", "backward", "loss_and_backward", "step", "adamw_step"])
def test_weights_are_finite_numbers(name: str, weight: Any) -> None:
    made = trainer()
    pieces = MicroBatches([X, X], [1.0, weight])
    with pytest.raises(Rejected, match=r"^trainer: .*weight"):
        getattr(made, name)(*[0.5] * (name == "step"), pieces)
    assert [v.tolist() for v in made.params.values()] == [[3.0], [1.0]] and made.steps == 0


def test_weights_may_be_of_any_kind_of_number() -> None:
    made = trainer()
    weights = [Fraction(1, 2), 1, np.float64(0.5), -1.0]
    assert made.forward(MicroBatches([X] * 4, weights)).item() == 4.0
    assert trainer(precision="fp64").forward(MicroBatches([X], [1e39])).item() == 4e39


@pytest.mark.parametrize("pieces", [5, None, "ab", iter([X])])
def test_pieces_are_a_list(pieces: Any) -> None:
    with pytest.raises(Rejected, match=r"^trainer: .*micro-batch"):
        trainer().forward(MicroBatches(pieces))
    if pieces is not None:
        with pytest.raises(Rejected, match=r"^trainer: .*weight"):
            trainer().forward(MicroBatches([X], pieces))


@pytest.mark.parametrize("batch", [None, 5, "ab", {0: X}, torch.ones(1, 1), np.ones((1, 1))])
@pytest.mark.parametrize("name", ["forward", "backward", "step", "adam_step"])
def test_a_batch_is_a_list_of_inputs(name: str, batch: Any) -> None:
    made = trainer()
    for given in (batch, MicroBatches([X, batch])):
        with pytest.raises(Rejected, match=r"^trainer: a batch is a list"):
            getattr(made, name)(*[0.5] * (name == "step"), given)
    assert [v.tolist() for v in made.params.values()] == [[3.0], [1.0]] and made.steps == 0


@pytest.mark.parametrize("values", [None, 5, "ab", {0: 1.0}, torch.ones(2), iter([1.0, 2.0])])
def test_new_values_are_a_list(values: Any) -> None:
    params = ParamList([1.0, 2.0], **CPU)
    with pytest.raises(Rejected, match=r"^params: a list of values"):
        params.set_values(values)


STRANGE: list[tuple[Callable[[], Any], str]] = [
    (lambda: split([[1.0, 2.0]], 2.0), "2.0 pieces"),  # type: ignore[arg-type]
    (lambda: split([[1.0, 2.0]], None), "None pieces"),  # type: ignore[arg-type]
    (lambda: split([[1.0, 2.0]], True), "True pieces"),
    (lambda: split([[1.0, 2.0]], "2"), "'2' pieces"),  # type: ignore[arg-type]
    (lambda: split(iter([[1.0, 2.0]]), 1), "a list of inputs"),  # type: ignore[arg-type]
    (lambda: split(5, 1), "a list of inputs"),  # type: ignore[arg-type]
    (lambda: split("ab", 1), "a list of inputs"),
    (lambda: split({0: [1.0]}, 1), "a list of inputs"),  # type: ignore[arg-type]
    (lambda: split(torch.ones(2, 2), 1), "a list of inputs"),  # type: ignore[arg-type]
    (lambda: split([[1.0, 2.0]], 1, ["mean"]), "reduction"),  # type: ignore[arg-type]
    (lambda: split([[1.0, 2.0]], 1, np.array(["mean", "sum"])), "reduction"),  # type: ignore[arg-type]
    (lambda: split([torch.ones(2).to_sparse()], 1), "dense tensors can be cut"),
]


@pytest.mark.parametrize("number", range(len(STRANGE)))
def test_what_cannot_be_split_is_refused(number: int) -> None:
    run, message = STRANGE[number]
    with pytest.raises(Rejected, match=f"^split: .*{message}"):
        run()


def test_features_of_integers_are_told_to_be_floats() -> None:
    for program in (lambda ops, w, x: ops.sum(ops.matmul(x, w)), lambda ops, w, x: ops.sum(x @ w)):
        made = scalar_trainer(program, [[[1.0], [2.0]]], **CPU)
        with pytest.raises((Rejected, TypeError), match="to compute with"):
            made.step(0.1, [torch.tensor([[1, 2]])])
        made.step(0.1, [torch.tensor([[1, 2]]).float()])
