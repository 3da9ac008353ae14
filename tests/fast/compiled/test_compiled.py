"""Programs recorded once and replayed: bit for bit what the eager session does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.sessions.drawn import PROGRAMS
from equivalence.sessions.texts import Step, run
from fast import CompiledSession, Rejected, Session
from fast.compiled.session import MOST_PLANS
from fast.protocol import Ops
from fast.ref import IndexRef, Ref
from fast.runtime.gradmap import GradMap
from fast.train import scalar_trainer, split
from spec.tensor import is_tensor
from tests.fast.compiled.replays import CONFIGURATIONS, CPU, batch, noisy, trainers, twins
from tests.support import same
from tests.turns import in_turns

pytestmark = pytest.mark.slow


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


# The programs have labels and masks of their own, which never change.
OWN_DATA = pytest.mark.filterwarnings("ignore::fast.errors.Frozen")


@OWN_DATA
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
@given(program=PROGRAMS, frozen=st.booleans())
def test_a_replay_is_the_eager_pass_bit_for_bit(
    precision: str, program: list[Step], frozen: bool
) -> None:
    compare("aten", precision, program, frozen)


@OWN_DATA
@settings(max_examples=10)
@given(program=PROGRAMS, frozen=st.booleans())
def test_a_replay_of_kernels_is_the_eager_pass_bit_for_bit(
    program: list[Step], frozen: bool
) -> None:
    compare("triton", "fp32", program, frozen)


def compare(provider: str, precision: str, program: list[Step], frozen: bool) -> None:
    """Run a program thrice in both sessions, and compare everything that comes of it."""
    loss = classified(program)
    found, names = [], []
    for session in twins(provider, precision):
        params = [session.param(batch(k)[0], requires_grad=k == 7 or not frozen) for k in (7, 8)]
        kept, named = [], []
        for k in range(3):
            out = session.run(loss, params, batch(k))
            named += [repr(Ref(session._tape, e)) for e in range(len(session._tape))]
            with session.backward(out) as grads, session.backward_dense(out) as dense:
                kept += [session.value(out), *map(session.value, uses(session, grads))]
                kept += [session.grad(grads, ref) for ref in uses(session, grads)]
                kept += [session.grad(dense, Ref(session._tape, e)) for e in range(len(dense))]
            kept.append(torch.tensor(session.random_counter))
            session.sgd_step(0.5, session.backward(out))
            kept += [p.value() for p in params]
        found.append(kept)
        names.append(named)
        if isinstance(session, CompiledSession):
            assert session.recordings == 1
    assert len(found[0]) == len(found[1])
    assert all(map(same, *found))
    assert names[0] == names[1]


def uses(session: Session, grads: GradMap) -> list[Ref]:
    return [Ref(session._tape, leaf) for leaf in grads]


@pytest.mark.holds("A trainer of a scalar loss")
@pytest.mark.parametrize(("provider", "precision"), in_turns(CONFIGURATIONS[::-1], 2))
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


def test_a_recording_keeps_attributes_as_they_were() -> None:
    def program(ops: Any, x: Any) -> Any:
        axes, shape = [0], [2]
        total = ops.sum(x, axes=axes) * ops.rand_uniform(shape=shape, seed=1)
        axes.append(1)
        shape.append(3)
        return total * ops.sum(x, axes=axes)

    found = [
        [s.value(s.run(program, [], [[[0.0, 1.0], [2.0, 3.0]]])) for _ in "ab"] for s in twins()
    ]
    assert all(map(same, *found))


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


def test_what_comes_in_may_come_from_an_iterator_and_a_truth_from_numpy() -> None:
    for s in twins():
        w = s.param([1.0, 2.0])

        def program(ops: Any, w: Any, flag: Any) -> Any:
            return ops.sum(w) if flag else ops.mean(w)

        for flag, expected in ((np.bool_(True), 3.0), (np.bool_(False), 1.5)) * 2:
            out = s.run(program, iter([w]), iter([flag]))  # type: ignore[arg-type]
            assert s.value(out).item() == expected


def test_outside_of_run_it_is_an_eager_session() -> None:
    s = CompiledSession(**CPU)
    w = s.param([3.0])
    loss = s.sum(s.square(s.use(w) - s.input([1.0])))
    s.sgd_step(0.25, s.backward(loss))
    assert (s.value(s.const(2.0)).item(), w.value().tolist(), s.recordings) == (2.0, [2.0], 0)


@pytest.mark.holds("A trainer of a scalar loss")
def test_a_trainer_asks_for_an_interpreter_by_name() -> None:
    def loss(ops: Any, w: Any) -> Any:
        return ops.sum(w)

    assert type(scalar_trainer(loss, [[1.0]], **CPU).session) is Session
    assert type(scalar_trainer(loss, [[1.0]], None, "compiled", **CPU).session) is CompiledSession
    given = CompiledSession(**CPU)
    assert scalar_trainer(loss, [[1.0]], None, "compiled", session=given).session is given
    assert scalar_trainer(loss, [[1.0]], session=given).session is given
    for name in ("graph", ["eager"]):
        with pytest.raises(Rejected, match=r"one of eager, compiled.*; got .* and NoneType"):
            scalar_trainer(loss, [[1.0]], None, name, **CPU)  # type: ignore[arg-type]
    for name, session in (("compiled", Session(**CPU)), ("eager", given)):
        with pytest.raises(
            Rejected, match=f"which is given; got '{name}' and {type(session).__name__}"
        ):
            scalar_trainer(loss, [[1.0]], None, name, session=session)


def test_a_program_may_return_several_refs() -> None:
    """As the eager one does: values, gradients from either, integers among them, and no more."""

    def program(ops: Any, w: Any, x: Any, labels: Any) -> Any:
        logits = ops.matmul(x, w)
        return ops.cross_entropy(logits, labels), logits, ops.argmax(logits, axis=1), logits * 2.0

    found = []
    for session in twins():
        w = session.param(batch(7)[0])
        kept = []
        for k in range(3):
            loss, logits, best, twice = session.run(program, [w], batch(k))
            assert isinstance(best, IndexRef)
            kept += [session.value(one) for one in (loss, logits, best, twice)]
            for start in (loss, session.sum(logits), session.sum(twice)):
                with session.backward(start) as grads:
                    kept.append(session.grad(grads, w))
        found.append(kept)
    assert all(map(torch.equal, *found))
