"""What a replay runs, holds, frees and moves: no more than its result needs."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

from fast import CompiledSession, Rejected, Session, SessionError, counters
from fast.ops import OPS
from fast.ref import Ref
from tests.fast.compiled.replays import CPU, batch, held, noisy, trainers


def test_a_dropped_value_does_not_live_through_the_next_call() -> None:
    s = CompiledSession(**CPU)

    def program(ops: Any, x: Any) -> Any:
        return ops.sum(ops.tanh(ops.square(ops.exp(x))))

    s.run(program, [], [[1.0, 2.0]])
    (plan,) = s._plans.values()
    results: list[Any] = []

    def watched(value: Any) -> Any:
        def run(*inputs: Any, **attributes: Any) -> Any:
            seen.append([result() is not None for result in results])
            result, saved = value(*inputs, **attributes)
            results.append(weakref.ref(result))
            return result, saved

        return run

    seen: list[list[bool]] = []
    plan.calls = [call._replace(value=watched(call.value)) for call in plan.calls]
    assert s.value(s.run(program, [], [[1.0, 2.0]])).isfinite()
    assert seen == [[], [True], [False, True], [False, False, True]]


def test_a_replay_that_fails_frees_what_it_has_made() -> None:
    s = CompiledSession(**CPU)

    def program(ops: Any, x: Any, rows: Any) -> Any:
        return ops.take(ops.square(ops.exp(x)), rows, axis=0)

    s.run(program, [], [[1.0, 2.0], [0]])
    square, kept = OPS["square"], []

    def watched(x: torch.Tensor) -> Any:
        kept.append(weakref.ref(x))
        return square.aten_value(x)

    (plan,) = s._plans.values()
    plan.calls = [
        call._replace(value=watched) if call.value is square.aten_value else call
        for call in plan.calls
    ]
    with pytest.raises(Rejected, match="take") as caught:
        s.run(program, [], [[1.0, 2.0], [5]])
    assert len(kept) == 1 and kept[0]() is None, caught.value
    assert len(s._tape) == 1


def test_a_replay_runs_only_what_feeds_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    s = CompiledSession(**CPU)
    ran: list[str] = []

    def program(ops: Any, x: Any) -> Any:
        ops.exp(x)
        ops.sqrt(ops.exp(x))
        return ops.sum(ops.square(x))

    bind = CompiledSession.apply
    monkeypatch.setattr(
        CompiledSession, "apply", lambda s, name, *rest: (ran.append(name), bind(s, name, *rest))[1]
    )
    s.run(program, [], [[1.0, 2.0]])
    assert ran == ["exp", "exp", "sqrt", "square", "sum"]
    assert [call.value.__module__ for call in next(iter(s._plans.values())).calls] == [
        "fast.ops.square",
        "fast.ops.sum",
    ]
    assert s.value(s.run(program, [], [[3.0, 4.0]])).item() == 25.0
    assert len(ran) == 5


@pytest.mark.usefixtures("settled")
def test_the_counters_know_what_a_replay_holds() -> None:
    """Squares save their inputs and tanh its result; what sub and add made, nothing needs."""

    def program(ops: Any, w: Any, x: Any, labels: Any) -> Any:
        near = ops.tanh(ops.sub(w, x) + ops.const([1.0] * 64))
        return ops.sum(ops.take(ops.square(near), labels, axis=0))

    s = CompiledSession(**CPU)
    w, labels = s.param([0.5] * 64), [*range(64)]
    size = 64 * 4
    tape = s.run(program, [w], [[1.0] * 64, labels]).tape
    ((_, plan),) = s._plans.items()
    (constant,) = (buffer.tensor for buffer in plan.constants)
    assert all(constant.data_ptr() != value.data_ptr() for value in tape.values)
    recorded = counters.snapshot()
    out = s.run(program, [w], [[2.0] * 64, labels])
    replayed = counters.snapshot()
    found = storages(s)
    assert (sum(found.values()), len(found)) == (s._tape.bytes, len(s._tape) + s._tape.extra)
    # The constant is the plan's now, and the results of sub, add, square and take are gone.
    assert recorded.live_bytes - replayed.live_bytes == 5 * size
    assert recorded.live_buffers - replayed.live_buffers == 5
    assert replayed.allocations - recorded.allocations == 7
    first = s.grad(s.backward(out), Ref(s._tape, 0))
    assert first.isfinite().all()
    s.reset_tape()
    counters.reset_peak()
    before = counters.snapshot().live_bytes
    s.run(program, [w], [[2.0] * 64, labels])
    # The input, tanh's result, and two more, when take reads the one and writes the other.
    assert counters.snapshot().peak_bytes - before == 4 * size


def storages(s: Session) -> dict[int, int]:
    """What a tape holds alone, by walking over it: no parameter, constant of a plan, or labels."""
    tape = s._tape
    saved = [t for rule in tape.rules if rule and len(rule) > 1 for t in rule[1]]
    plans = s._plans.values()  # type: ignore[attr-defined]
    blanks = {id(blank) for plan in plans for blank in plan.blanks}
    values = [value for value in tape.values if id(value) not in blanks]
    masters = s.store.masters.flat.untyped_storage()._cdata
    constants = {b.tensor.untyped_storage()._cdata for plan in plans for b in plan.constants}
    shadow = s.store.shadow.arena.flat.untyped_storage()._cdata if s.store.shadow else None
    found = {}
    for tensor in [*saved, *values]:
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
            storage = tensor.untyped_storage()
            if storage._cdata not in constants | {masters, shadow}:
                found[storage._cdata] = storage.nbytes()
    return found


@pytest.mark.usefixtures("settled")
def test_a_session_that_ends_has_given_everything_back() -> None:
    before = counters.snapshot()
    trainer = trainers(noisy)[1]
    for k in range(3):
        trainer.step(0.5, batch(k))
    assert trainer.session._plans  # type: ignore[attr-defined]
    del trainer
    gc.collect()
    after = counters.snapshot()
    assert (after.live_bytes, after.live_buffers) == (before.live_bytes, before.live_buffers)


def test_a_step_moves_the_batch_in_and_nothing_else() -> None:
    trainer = trainers(noisy)[1]
    trainer.step(0.5, batch(0))
    trainer.step(0.5, batch(1))
    before = counters.snapshot()
    trainer.step(0.5, batch(2))
    after = counters.snapshot()
    assert (after.uploads - before.uploads, after.downloads - before.downloads) == (2, 0)


def test_what_a_tape_shows_is_counted_also_if_its_recording_is_forgotten() -> None:
    s = CompiledSession(**CPU)

    def program(ops: Any) -> Any:
        return ops.const([1.0] * 1000)

    s.run(program, [], [])
    s.reset_tape()
    before = held()
    out = s.run(program, [], [])
    s.collect()
    assert held() == before
    assert s.value(out).sum() == 1000
    s.reset_tape()
    assert held() == (before[0] - 4000, before[1] - 1)


def test_refs_of_a_recording_end_with_its_tape() -> None:
    s, kept = CompiledSession(**CPU), []

    def program(ops: Any, x: Any) -> Any:
        kept.append(ops.square(x))
        return ops.sum(kept[-1])

    s.run(program, [], [[1.0, 2.0]])
    assert s.value(kept[0]).tolist() == [1.0, 4.0]
    out = s.run(program, [], [[3.0, 4.0]])
    with pytest.raises(SessionError, match=r"recorded before reset_tape"):
        s.value(kept[0])
    assert s.value(out).item() == 25.0
    assert s.value(Ref(s._tape, 1)).isnan().all(), "what was dropped does not pass for a value"
