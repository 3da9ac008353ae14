"""Named buffers in a run: what an op makes of them is judged, and all else leaves them alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from equivalence.budgets.violation import Violation
from equivalence.sessions.stateful.run import Run, settled
from fast.device.named import NamedBuffer
from fast.ops import OPS

Value = Callable[..., Any]


def begun(precision: str = "fp32") -> Run:
    """Return a run with a batch, its parameters, and two buffers."""
    run = Run("aten", precision)
    run.use(run.param((3,), 1))
    run.input((3,), 5, True)
    run.input((2, 3), 7, True)
    run.buffer((3,), 1)
    run.buffer((3,), 2)
    return run


def trained(run: Run, training: bool = True) -> int:
    return run.op("batch_norm", (2, 0, 1, "b0", "b1"), eps=1.0, training=training)  # type: ignore[no-any-return]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16", "fp64"])
def test_a_run_with_statistics_is_clean(precision: str) -> None:
    with settled():
        run = begun(precision)
        trained(run)
        trained(run, training=False)
        grads = run.backward(trained(run), 3, "torch")
        run.step("sgd", grads, lr=0.25)
        run.save()
        run.set_buffer(0, 9)
        run.read_buffer(1)
        run.broken_value("batch_norm", (2, 1, 1, "b0", "b1"), eps=1.0)
        run.load()
        run.save()
        run.resume()
        run.end()


def twice_as_far(value: Value) -> Value:
    """Move the statistics by twice the momentum."""

    def run(*inputs: Any, momentum: float = 0.1, **told: Any) -> Any:
        return value(*inputs, momentum=2 * momentum, **told)

    return run


def population(value: Value) -> Value:
    """Keep the population variance."""

    def run(x: Any, *lines: Any, momentum: float = 0.1, **told: Any) -> Any:
        (z, mean, var), saved = value(x, *lines, momentum=momentum, **told)
        n = x.shape[0] * x.shape[2:].numel()
        spread = (var - lines[3] * (1 - momentum)) * (n - 1) / n
        return (z, mean, lines[3] * (1 - momentum) + spread), saved

    return run


def exchanged(value: Value) -> Value:
    """Keep the mean in place of the variance, and the variance in place of the mean."""

    def run(*inputs: Any, **told: Any) -> Any:
        (z, mean, var), saved = value(*inputs, **told)
        return (z, var, mean), saved

    return run


def in_place(value: Value) -> Value:
    """Write into what it was handed, before it is known whether the call succeeds."""

    def run(*inputs: Any, **told: Any) -> Any:
        made = value(*inputs, **told)
        inputs[3].add_(1)
        return made

    return run


@pytest.mark.parametrize("wrong", [twice_as_far, population, exchanged, in_place])
def test_wrong_statistics_are_seen(
    wrong: Callable[[Value], Value], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = OPS["batch_norm"]
    run = begun()
    monkeypatch.setitem(OPS, "batch_norm", replace(page, aten_value=wrong(page.aten_value)))
    with pytest.raises(Violation):
        trained(run)
        run.broken_value("batch_norm", (2, 1, 1, "b0", "b1"), eps=1.0)


def test_a_load_that_forgets_a_buffer_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    run = begun()
    run.save()
    run.set_buffer(1, 9)
    monkeypatch.setattr(NamedBuffer, "set", lambda buffer, value: None)
    with pytest.raises(Violation, match="buffer 1"):
        run.load()


def test_a_reader_that_gets_the_memory_itself_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    run = begun()

    def lent(buffer: NamedBuffer) -> torch.Tensor:
        return buffer.contents

    monkeypatch.setattr(NamedBuffer, "value", lent)
    with pytest.raises(Violation, match="buffer 0"):
        run.read_buffer(0)


def test_a_sum_of_masters_to_which_nothing_is_added_stays() -> None:
    """It need not be a number of 16 bits; a sum that is rounded to them is wrong, or within."""
    run = Run("aten", "bf16")
    run.use(run.param((33,), 40))
    run.op("square", (0,))
    held = run.backward(1, 25, "torch")
    for seed in (58, 75, 88):
        run.backward(1, seed, "torch", held)
    run.op("sub", (1, 1))
    run.backward(2, 16, "torch", held)
    slots = run.model.grads[held].slots  # type: ignore[union-attr]
    assert not torch.equal(slots[0], slots[0].bfloat16().float())
