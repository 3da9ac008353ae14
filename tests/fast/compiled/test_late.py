"""The tape of a compiled step is written down when somebody looks, and says what it always said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from benchmarks.counts import counted
from fast import CompiledSession, Session, Stale, counters
from fast.compiled.late import LateTape
from fast.compiled.pending import Pending
from fast.optim._stated import StatedOptimizer
from fast.runtime.param import Param
from fast.runtime.updates import Active
from fast.tape import Tape

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("inductor"),
    pytest.mark.usefixtures("cache"),
]

W, B, X = [[1.0, 2.0], [3.0, -1.0]], [1.0, 2.0], torch.tensor([[1.0, 1.0], [2.0, -1.0]])
CALLS = 57
"""Python calls of a step of two parameters and AdamW, at most."""


def program(ops: Any, w: Any, b: Any, x: Any) -> Any:
    """A loss of a linear layer."""
    return ops.sum(ops.square(ops.linear(x, w, b)))


def trainer(kind: Callable[..., Any] = CompiledSession, steps: int = 0, **options: Any) -> Any:
    """A session with two parameters, after some steps."""
    session = kind("aten", "fp32", "cpu", **options)
    params = [session.param(value) for value in (W, B)]
    for _ in range(steps):
        step(session, params)
    return session, params


def step(session: Any, params: list[Param]) -> Any:
    """Take a step as a user writes it, and return the loss's ref."""
    loss = session.run(program, params, [X])
    session.adamw_step(0.1, grads=session.backward(loss))
    return loss


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was written down."""
    found: list[object] = []
    plain = Pending._write

    def noted(self: Pending, tape: Any) -> None:
        found.append(tape)
        plain(self, tape)

    monkeypatch.setattr(Pending, "_write", noted)
    return found


def test_a_loop_that_looks_at_nothing_writes_nothing_down(written: list[object]) -> None:
    session, params = trainer(engine="inductor", steps=4)
    assert not written
    loss = step(session, params)
    assert float(session.value(loss)) == float(session.value(loss))
    assert written == [loss.tape]
    del session
    assert len(written) == 1


def test_a_tape_that_goes_is_not_written_down(written: list[object]) -> None:
    tape = LateTape(object())
    tape.write = written.append
    del tape
    assert not written


def test_what_is_cleared_is_empty(written: list[object]) -> None:
    session, params = trainer(engine="inductor", steps=1)
    tape = step(session, params).tape
    session.reset_tape()
    assert (tape.values, tape.rules, tape.names, tape.uses, tape.leaves) == ([], [], [], {}, {})
    assert tape.session is None and not written


@pytest.mark.parametrize("looks", [False, True])
def test_the_counters_hear_of_a_tape_whoever_looks_at_it(looks: bool) -> None:
    session, params = trainer(engine="inductor", steps=2)
    session.reset_tape()
    before = counters.snapshot()
    for _ in range(3):
        loss = step(session, params)
        if looks:
            len(loss.tape)
    held = counters.snapshot()
    session.reset_tape()
    after = counters.snapshot()
    # A step's tape has a copy of the data, and the loss.
    assert held.allocations - before.allocations == 3 * 2
    assert held.live_buffers - before.live_buffers == 2
    assert held.live_bytes - before.live_bytes == X.nbytes + torch.zeros(()).nbytes
    assert after[:2] == before[:2]


@pytest.mark.parametrize("engine", ["inductor", "replay", None])
def test_a_parameter_that_is_used_after_the_run_is_used_again(engine: str | None) -> None:
    options = {} if engine is None else {"engine": engine}
    session, params = trainer(Session if engine is None else CompiledSession, 2, **options)
    once = session.grad(session.backward(session.run(program, params, [X])), params[1])
    loss = session.run(program, params, [X])
    again = session.use(params[1])
    grads = session.backward(session.add(loss, session.sum(session.square(again))))
    assert len(grads) == 3
    assert torch.equal(session.grad(grads, again), 2 * params[1].value())
    assert torch.equal(session.grad(grads, params[1]), once + 2 * params[1].value())


def test_a_parameter_is_used_again_beside_a_tape_that_is_looked_at_meanwhile() -> None:
    session, params = trainer(engine="inductor", steps=2)
    step(session, params)
    with session._on(Tape(session)):
        first = session.use(params[1])
        counters.snapshot()  # It asks every tape.
        again = session.use(params[1])
        grads = session.backward(session.sum(session.mul(first, again)))
    assert torch.equal(session.grad(grads, again), params[1].value())
    assert torch.equal(session.grad(grads, params[1]), 2 * params[1].value())


def test_a_leaf_of_a_parameter_that_has_moved_is_stale() -> None:
    session, params = trainer(engine="inductor", steps=2)
    loss = step(session, params)
    with pytest.raises(Stale):
        session.backward(loss)
    with pytest.raises(Stale):
        session.value(type(loss)(loss.tape, 0))
    assert session.value(loss).isfinite()


def freeze(session: Any, params: list[Param]) -> None:
    params[0].requires_grad = False


def thaw(session: Any, params: list[Param]) -> None:
    params[0].requires_grad = True


def write(session: Any, params: list[Param]) -> None:
    params[1].set([0.5, -0.5])


def write_on_the_device(session: Any, params: list[Param]) -> None:
    params[1].set_device(torch.tensor([0.25, 4.0]))


def add(session: Any, params: list[Param]) -> None:
    session.param([7.0] * 5000)


def load(session: Any, params: list[Param]) -> None:
    state = session.optimizer_state("adamw", params[1])
    state["exp_avg"] += 1.0
    state["step"] = 2
    session.load_optimizer_state("adamw", params[1], state)


EDITS = (load, freeze, write, thaw, write_on_the_device, add, load, freeze, add, thaw)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_what_is_done_between_steps_is_seen_by_the_next(precision: str) -> None:
    ends = []
    for forgetful in (False, True):
        session = CompiledSession("aten", precision, "cpu", engine="inductor")
        params = [session.param(value) for value in (W, B)]
        for edit in (*EDITS, None):
            for _ in range(3):
                if forgetful:
                    forget(session)
                step(session, params)
            if edit is not None:
                edit(session, params)
        ends.append([p.value() for p in session.params])
    for ours, theirs in zip(*ends, strict=True):
        assert torch.equal(ours, theirs)


def forget(session: CompiledSession) -> None:
    """Let a session find everything out anew in its next step."""
    session._again = None
    session._active = Active(b"", -1, (), b"")
    for optimizer in session.optimizers.values():
        assert isinstance(optimizer, StatedOptimizer)
        optimizer._known = None


def test_a_compiled_step_costs_no_more_than_it_did() -> None:
    session, params = trainer(engine="inductor")
    found = counted(lambda: step(session, params))
    assert found.calls <= CALLS, "what does a step pay for that it does not use?"
