"""Constructors and functions of `fast` answer calls that they cannot take by what they take."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fast
import fast.loops
import fast.train
from fast import Rejected, autodiff, checkpoint
from fast.loops import Batches, Csv, EarlyStop, JsonLines, TensorBoard
from fast.optim import schedules

HANDED_OUT = {
    "Buffer",
    "GradMap",
    "IndexRef",
    "MicroBatches",
    "NamedBuffer",
    "Param",
    "Ref",
    "ScalarTrainer",
}
"""What sessions and functions make, and nobody else."""


def public() -> dict[str, Any]:
    """Return what the public modules of a training loop offer to be called."""
    found = {f"fast.{name}": getattr(fast, name) for name in fast.__all__}
    for module in (fast.loops, fast.train, checkpoint):
        found |= {f"{module.__name__}.{name}": getattr(module, name) for name in module.__all__}
    for module in (schedules, autodiff):
        found |= {
            f"{module.__name__}.{name}": value
            for name, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__ and name[0] != "_"
        }
    return {
        name: value
        for name, value in found.items()
        if callable(value)
        and not (inspect.isclass(value) and issubclass(value, BaseException))
        and name.rpartition(".")[2] not in HANDED_OUT
    }


@pytest.mark.parametrize("name", public())
def test_a_call_that_does_not_fit_is_answered_by_what_is_taken(name: str) -> None:
    asked, short = public()[name], name.rpartition(".")[2]
    kinds = [one.kind for one in inspect.signature(asked).parameters.values()]
    some = inspect.Parameter.VAR_KEYWORD in kinds
    wrong = " is missing; it takes " if some else "there is no argument 'as_torch'; it takes "
    with pytest.raises(Rejected, match=rf"^{short}: .*{wrong}") as e:
        asked(as_torch=1)
    assert isinstance(e.value, TypeError)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda path: Batches(np.ones((4, 2)), batch_size=2),
            "Batches: there is no argument 'batch_size'; it takes any number of arrays, and by "
            "name size, seed=0, shuffle=True, rest=False",
        ),
        (lambda path: EarlyStop(3).stop(), "stop: score is missing; it takes score"),
        (
            lambda path: JsonLines.write(None, {"loss": 1.0}),
            "write: 1 arguments without a name are too many; it takes values by name, as **row",
        ),
        (
            lambda path: Csv.write(None, {"loss": 1.0}),
            "write: 1 arguments without a name are too many; it takes values by name, as **row",
        ),
        (
            lambda path: JsonLines(path, mode="a"),
            "JsonLines: there is no argument 'mode'; it takes path, append=False, before=None",
        ),
        (
            lambda path: TensorBoard.write(None, loss=1.0),
            "write: step is missing; it takes step, and by name others, as **row",
        ),
    ],
)
def test_sentences(call: Any, says: str, tmp_path: Path) -> None:
    with pytest.raises(Rejected) as e:
        call(tmp_path / "m")
    assert str(e.value) == says


def test_an_error_of_what_is_called_is_its_own() -> None:
    def loss(ops: Any, x: Any) -> Any:
        return len(3)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="has no len"):
        autodiff.grad(loss)(1.0)
