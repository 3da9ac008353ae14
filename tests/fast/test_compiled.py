"""Programs recorded once and replayed: bit for bit what the eager session does, and no more."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import CompiledSession, Rejected, Session, SessionError, counters
from fast.compiled import MOST_PLANS
from fast.gradmap import GradMap
from fast.ops import OPS
from fast.protocol import Ops
from fast.ref import Ref
from fast.train import ScalarTrainer, scalar_trainer, split
from spec.tensor import is_tensor
from tests.spec.programs import PROGRAMS, Step, run

CPU: dict[str, Any] = {"provider": "aten", "device": "cpu"}
CONFIGURATIONS = [("aten", "fp32"), ("aten", "bf16"), ("aten", "fp64"), ("triton", "fp32")]


class Arrays(Ops[Ref]):
    """A session to which the reference's tensors of integers and booleans are arrays."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def apply(self, name: str, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Ref:
        data = tuple(np.reshape(x.data, x.shape) if is_tensor(x) else x for x in inputs)
        return self._session.apply(name, data, attributes)


def classified(program: list[Step]) -> Callable[..., Ref]:
    """A loss: a random program of two parameters and an input, its rows scored against labels."""

    def loss(ops: Any, w: Any, v: Any, x: Any, labels: Any) -> Any:
        return ops.cross_entropy(run(program, Arrays(ops), [w, v, x]), labels)

    return loss


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are equal bit for bit, but for the payload of a NaN."""
    return a.dtype == b.dtype and torch.equal(a.isnan(), b.isnan()) and a.nan_to_num().equal(
        b.nan_to_num()
    )  # fmt: skip


def twins(provider: str = "aten", precision: str = "fp32") -> tuple[Session, CompiledSession]:
    options = {"provider": provider, "precision": precision, "device": "cpu"}
    return Session(**options), CompiledSession(**options)  # type: ignore[arg-type]


def batch(seed: int) -> list[Any]:
    source = np.random.default_rng(seed)
    return [source.standard_normal((2, 2)).astype(np.float32), source.integers(0, 2, 2)]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
@given(program=PROGRAMS, frozen=st.booleans())
def test_a_replay_is_the_eager_pass_bit_for_bit(
    precision: str, program: list[Step], frozen: bool
) -> None:
    compare("aten", precision, program, frozen)


@settings(max_examples=10)
@given(program=PROGRAMS, frozen=st.booleans())
def test_a_replay_of_kernels_is_the_eager_pass_bit_for_bit(
    program: list[Step], frozen: bool
) -> None:
    compare("triton", "fp32", program, frozen)


def compare(provider: str, precision: str, program: list[Step], frozen: bool) -> None:
    """Run a program thrice in both sessions, and compare everything that comes of it."""
    loss = classified(program)
    found = []
    for session in twins(provider, precision):
        params = [session.param(batch(k)[0], requires_grad=k == 7 or not frozen) for k in (7, 8)]
        kept = []
        for k in range(3):
            out = session.run(loss, params, batch(k))
            with session.backward(out) as grads, session.backward_dense(out) as dense:
                kept += [session.value(out), *map(session.value, uses(session, grads))]
                kept += [session.grad(grads, ref) for ref in uses(session, grads)]
                kept += [session.grad(dense, Ref(session._tape, e)) for e in range(len(dense))]
            kept.append(torch.tensor(session.random_counter))
            session.sgd_step(0.5, session.backward(out))
            kept += [p.value() for p in params]
        found.append(kept)
        if isinstance(session, CompiledSession):
            assert session.recordings == 1
    assert len(found[0]) == len(found[1])
    assert all(map(same, *found))


def uses(session: Session, grads: GradMap) -> list[Ref]:
    return [Ref(session._tape, leaf) for leaf in grads]


def noisy(ops: Any, w: Any, b: Any, x: Any, labels: Any) -> Any:
    """A loss with what a recording could get wrong: noise, a constant, a row chosen by labels."""
    ops.rand_uniform(shape=(3,), seed=1)
    hidden = ops.dropout(ops.relu(ops.linear(x, w, b) * 0.5), p=0.25, seed=2)
    late = hidden + ops.rand_normal(shape=(2,), seed=3) * ops.constant(0.125)
    return ops.cross_entropy(late, labels)


def trainers(loss: Callable[..., Any], **options: Any) -> tuple[ScalarTrainer, ScalarTrainer]:
    start = [[[1.0, -2.0], [0.5, 1.0]], [0.25, -1.0]]
    made = [
        scalar_trainer(loss, start, interpreter=interpreter, **{**CPU, **options})
        for interpreter in ("eager", "compiled")
    ]
    return made[0], made[1]


@pytest.mark.parametrize(("provider", "precision"), CONFIGURATIONS)
def test_a_life_of_training_is_the_eager_one(provider: str, precision: str) -> None:
    """It freezes, thaws, overwrites, and takes whole and split batches by turns."""
    lives = []
    for trainer in trainers(noisy, provider=provider, precision=precision):
        kept: list[Any] = []
        for k in range(6):
            data: Any = batch(k)
            if k == 2:
                trainer.params.params[1].requires_grad = False
            if k == 4:
                trainer.params.params[0].set([[0.5, 0.5], [1.0, -1.0]])
                trainer.params.params[1].requires_grad = True
            if k % 2:
                data = split([np.repeat(d, 3, 0) for d in data], 2)
            kept += [trainer.forward(data), *trainer.backward(data)]
            kept.append(trainer.step_with_loss(lambda t: 0.5 / (t + 1), data, momentum=0.5))
            kept.append(trainer.adamw_step(data, lr=0.125, max_norm=1.0, with_loss=True))
            kept += trainer.params.values()
        session = trainer.session
        states = [session.optimizer_state("adamw", p) for p in trainer.params.params]
        lives.append((kept, states, session.random_counter, session.providers()))
    (ours, states, *rest), (theirs, other_states, *other_rest) = lives
    assert all(map(same, ours, theirs))
    assert rest == other_rest
    for a, b in zip(states, other_states, strict=True):
        assert a["step"] == b["step"] == 6 - 2 * (a is states[1])
        assert same(a["exp_avg"], b["exp_avg"])
        assert same(a["exp_avg_sq"], b["exp_avg_sq"])


def test_a_program_is_recorded_once_for_each_combination_of_shapes_and_kinds() -> None:
    s, calls = CompiledSession(**CPU), []

    def program(ops: Any, w: Any, x: Any, labels: Any, times: int) -> Any:
        calls.append(times)
        for _ in range(times):
            w = w * x
        return ops.sum(ops.take(w, labels, axis=0))

    w = s.param([1.0, 2.0, 3.0])

    def result(*data: Any) -> list[float]:
        return [float(s.value(s.run(program, [w], data)))]

    one, other = [2.0, 3.0, 5.0], torch.tensor([4.0, 4.0, 4.0])
    assert result(one, [0, 2], 1) == [2.0 + 15.0]
    assert result(other, torch.tensor([1, 1]), 1) == [8.0 + 8.0]
    assert calls == [1]
    assert result(one, [0, 2], 2) == [4.0 + 75.0]
    assert result(one, [0, 2, 1], 2) == [4.0 + 75.0 + 18.0]
    w.requires_grad = False
    assert result(one, [0, 2, 1], 2) == [4.0 + 75.0 + 18.0]
    assert calls == [1, 2, 2, 2]
    assert s.recordings == 4
    w.requires_grad = True
    assert result(other, np.array([1, 1]), 1) == [8.0 + 8.0]
    assert s.recordings == 4
    s.collect()
    assert result(one, [0, 2], 1) == [2.0 + 15.0]
    assert s.recordings == 5


def test_recordings_tell_kinds_of_data_apart() -> None:
    s = CompiledSession(**CPU)

    def program(ops: Any, w: Any, chosen: Any, flag: int) -> Any:
        mask = chosen.dtype is torch.bool
        kept = ops.where(chosen, w, -w) if mask else ops.take(w, chosen, axis=0)
        return kept if isinstance(flag, bool) else kept * ops.constant(10)

    w = s.param([1.0, 2.0])
    cases: list[tuple[Any, Any, list[float]]] = [
        ([1, 0], 1, [20.0, 10.0]),
        ([True, False], 1, [10.0, -20.0]),
        ([1, 0], True, [2.0, 1.0]),
        (torch.tensor([1, 0], dtype=torch.int32), 1, [20.0, 10.0]),
    ]
    for _ in range(2):
        for chosen, flag, expected in cases:
            assert s.value(s.run(program, [w], [chosen, flag])).tolist() == expected
    assert s.recordings == 4


def test_naturals_of_a_program_are_its_own() -> None:
    s = CompiledSession(**CPU)

    def program(ops: Any, x: Any) -> Any:
        rows = ops.nat_vec([2, 0])
        first = ops.take(x, rows, axis=0)
        ops.set_nat_vec(rows, [1, 1])
        return first + ops.take(x, rows, axis=0)

    for x in ([1.0, 2.0, 4.0], [8.0, 16.0, 32.0]):
        assert s.value(s.run(program, [], [x])).tolist() == [x[2] + x[1], x[0] + x[1]]
    assert s.recordings == 1


def test_a_refusal_that_a_program_expects_leaves_no_trace() -> None:
    s = CompiledSession(**CPU)

    def program(ops: Any, x: Any) -> Any:
        with pytest.raises(Rejected, match="take"):
            ops.take(x, [9], axis=0)
        return ops.take(x, [1], axis=0)

    for x in ([1.0, 2.0], [3.0, 4.0]):
        assert s.value(s.run(program, [], [x])).tolist() == x[1:]
    assert s.recordings == 1


def test_of_many_recordings_the_one_unused_for_longest_goes_first() -> None:
    s = CompiledSession(**CPU)

    def program(ops: Any, n: int) -> Any:
        return ops.constant(n)

    for n in (*range(MOST_PLANS), 0, MOST_PLANS, 0):
        assert s.value(s.run(program, [], [n])).item() == n
    assert s.recordings == MOST_PLANS + 1
    assert len(s._plans) == MOST_PLANS
    s.run(program, [], [1])
    assert s.recordings == MOST_PLANS + 2


def test_labels_are_checked_in_every_replay() -> None:
    trainer = trainers(lambda ops, w, b, x, labels: ops.cross_entropy(ops.linear(x, w, b), labels))[
        1
    ]
    x = [[1.0, 2.0]]
    trainer.step(0.5, [x, [1]])
    before = trainer.params.values()
    with pytest.raises(Rejected, match=r"cross_entropy C.*2"):
        trainer.step(0.5, [x, [2]])
    assert all(map(same, before, trainer.params.values()))
    assert len(trainer.session._tape) == 0
    trainer.step(0.5, [x, [0]])
    assert not same(before[0], trainer.params.values()[0])
    assert trainer.session.recordings == 1  # type: ignore[attr-defined]


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
    plan._calls = [
        call._replace(value=watched) if call.value is square.aten_value else call
        for call in plan._calls
    ]
    with pytest.raises(Rejected, match="take") as caught:
        s.run(program, [], [[1.0, 2.0], [5]])
    assert len(kept) == 1 and kept[0]() is None, caught.value
    assert len(s._tape) == 1


def test_every_replay_draws_anew_and_counts_what_it_leaves_out() -> None:
    def program(ops: Any, x: Any) -> Any:
        ops.rand_uniform(shape=(2,), seed=5)
        drawn = ops.rand_uniform(shape=(4,), seed=5)
        ops.rand_uniform(shape=(2,), seed=5)
        return drawn + x

    eager, compiled = twins()
    found = [[s.value(s.run(program, [], [[0.0] * 4])) for _ in range(3)] for s in twins()]
    assert all(map(same, *found))
    assert not same(found[0][1], found[0][2])
    compiled.run(program, [], [[0.0] * 4])
    compiled.random_counter = eager.random_counter = 2**40
    values = [s.value(s.run(program, [], [[0.0] * 4])) for s in (eager, compiled)]
    assert same(*values)
    assert eager.random_counter == compiled.random_counter == 2**40 + 3


def test_a_replay_runs_only_what_feeds_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    s = CompiledSession(**CPU)
    ran: list[str] = []

    def program(ops: Any, x: Any) -> Any:
        ops.exp(x)
        ops.tanh(ops.exp(x))
        return ops.sum(ops.square(x))

    bind = CompiledSession.apply
    monkeypatch.setattr(
        CompiledSession, "apply", lambda s, name, *rest: (ran.append(name), bind(s, name, *rest))[1]
    )
    s.run(program, [], [[1.0, 2.0]])
    assert ran == ["exp", "exp", "tanh", "square", "sum"]
    assert [call.value.__module__ for call in next(iter(s._plans.values()))._calls] == [
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
    (constant,) = (buffer.tensor for buffer in plan._constants)
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
    blanks = {id(blank) for plan in plans for blank in plan._blanks}
    values = [value for value in tape.values if id(value) not in blanks]
    masters = s.masters.flat.untyped_storage()._cdata
    constants = {b.tensor.untyped_storage()._cdata for plan in plans for b in plan._constants}
    shadow = s._shadow.arena.flat.untyped_storage()._cdata if s._shadow else None
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


def skip_a_call(ops: Any) -> None:
    ops.random_counter += 1


@pytest.mark.parametrize(
    ("does", "says"),
    [
        (lambda s, ops, w, labels: ops.value(w), "call value"),
        (lambda s, ops, w, labels: ops.backward(w), "call backward"),
        (lambda s, ops, w, labels: ops.input([1.0]), "call input"),
        (lambda s, ops, w, labels: ops.use(s.params[0]), "call use"),
        (lambda s, ops, w, labels: ops.reset_tape(), "call reset_tape"),
        (lambda s, ops, w, labels: ops.collect(), "call collect"),
        (lambda s, ops, w, labels: ops.run(len, [], []), "call run"),
        (lambda s, ops, w, labels: ops.sgd_step(0.5, {0: [1.0]}), "call an update"),
        (
            lambda s, ops, w, labels: setattr(ops, "random_counter", 5 + ops.random_counter),
            "move its random counter",
        ),
        (lambda s, ops, w, labels: labels[0], "values of integer inputs are not known"),
        (lambda s, ops, w, labels: list(labels), "values of integer inputs are not known"),
        (lambda s, ops, w, labels: labels.tolist(), "values of integer inputs are not known"),
        (lambda s, ops, w, labels: np.asarray(labels), "values of integer inputs are not known"),
        (lambda s, ops, w, labels: ops.exp(labels), "takes a ref of this session, got Indices"),
        (lambda s, ops, w, labels: ops.where(labels, w, w), "mask: booleans are needed"),
    ],
)
def test_what_a_replay_could_not_repeat_is_refused(does: Any, says: str) -> None:
    s = CompiledSession(**CPU)
    w = s.param([1.0, 2.0])

    def program(ops: Any, w: Any, labels: Any) -> Any:
        assert (labels.shape, labels.dtype, len(labels)) == ((2,), torch.int64, 2)
        does(s, ops, w, labels)
        return ops.sum(w)

    for _ in range(2):
        with pytest.raises((SessionError, Rejected, AttributeError), match=says):
            s.run(program, [w], [[0, 1]])
    assert s.recordings == 0
    assert s.value(s.run(lambda ops, w: ops.sum(w), [w], [])).item() == 3.0
    assert w.value().tolist() == [1.0, 2.0]


def test_a_program_without_a_hash_and_a_foreign_parameter_are_refused() -> None:
    s = CompiledSession(**CPU)

    class Program:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, ops: Any) -> Any:
            return ops.constant(1)

    with pytest.raises(Rejected, match=r"found again by its hash, got a Program"):
        s.run(Program(), [], [])
    foreign = Session(**CPU).param([1.0])
    with pytest.raises(SessionError, match=r"is not a parameter of this session"):
        s.run(lambda ops, w: ops.sum(w), [foreign], [])
    with pytest.raises(SessionError, match=r"is not a parameter of this session"):
        s.run(lambda ops, w: ops.sum(w), ["w"], [])  # type: ignore[list-item]


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


def test_outside_of_run_it_is_an_eager_session() -> None:
    s = CompiledSession(**CPU)
    w = s.param([3.0])
    loss = s.sum(s.square(s.use(w) - s.input([1.0])))
    s.sgd_step(0.25, s.backward(loss))
    assert (s.value(s.const(2.0)).item(), w.value().tolist(), s.recordings) == (2.0, [2.0], 0)


def test_a_trainer_asks_for_an_interpreter_by_name() -> None:
    def loss(ops: Any, w: Any) -> Any:
        return ops.sum(w)

    assert type(scalar_trainer(loss, [[1.0]], **CPU).session) is Session
    assert type(scalar_trainer(loss, [[1.0]], None, "compiled", **CPU).session) is CompiledSession
    given = CompiledSession(**CPU)
    assert scalar_trainer(loss, [[1.0]], None, "compiled", session=given).session is given
    assert scalar_trainer(loss, [[1.0]], session=given).session is given
    with pytest.raises(Rejected, match=r"one of eager, compiled.*got 'graph' and NoneType"):
        scalar_trainer(loss, [[1.0]], None, "graph", **CPU)
    with pytest.raises(Rejected, match=r"is of that kind; got 'compiled' and Session"):
        scalar_trainer(loss, [[1.0]], None, "compiled", session=Session(**CPU))
