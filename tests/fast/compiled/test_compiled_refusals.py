"""What a recorded program may not do, and what a replay refuses as the eager pass would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fast import CompiledSession, Frozen, Rejected, Session, SessionError
from fast.errors import Unsupported
from tests.fast.compiled.replays import CPU, trainers, twins
from tests.support import same


def test_a_refusal_that_a_program_expects_leaves_no_trace() -> None:
    s = CompiledSession(**CPU)

    def program(ops: Any, x: Any) -> Any:
        with pytest.raises(Rejected, match="take"):
            ops.take(x, [9], axis=0)
        return ops.take(x, [1], axis=0)

    for x in ([1.0, 2.0], [3.0, 4.0]):
        assert s.value(s.run(program, [], [x])).tolist() == x[1:]
    assert s.recordings == 1


def test_params_and_inputs_of_a_run_are_lists() -> None:
    s, other = CompiledSession(**CPU), CompiledSession(**CPU)
    w, foreign = s.param([1.0, 2.0], name="w"), other.param([1.0])
    x = [3.0, 4.0]

    def program(ops: Any, w: Any, x: Any) -> Any:
        return ops.mul(w, x)

    kept = s.run(program, [w], [x])
    for params, inputs, says in (
        ({"w": w}, [x], r"params is a list of parameters, .* \[\*params.values\(\)\]; got dict$"),
        (w, [x], r"params is a list of parameters, .* such as \[x\]; got Param$"),
        ([w], {"x": x}, r"inputs is a list of data, .* \[\*inputs.values\(\)\]; got dict$"),
        ([w], torch.ones(1, 2), r"inputs is a list of data, .* such as \[x\]; got Tensor$"),
        ([w], np.ones((1, 2)), r"inputs is a list of data, .* such as \[x\]; got ndarray$"),
        ([w], None, r"inputs is a list of data, .*; got NoneType$"),
        ([w], "x", r"inputs is a list of data, .*; got str$"),
    ):
        with pytest.raises(Rejected, match=rf"^run: {says}"):
            s.run(program, params, inputs)  # type: ignore[arg-type]
    for wrong in (foreign, "w", torch.ones(2), kept, None):
        with pytest.raises(SessionError, match=r"^run: params .* is not a parameter of this sess"):
            s.run(program, [wrong], [x])  # type: ignore[list-item]
    assert s.value(kept).tolist() == [3.0, 8.0], "a refusal leaves the tape as it was"
    assert s.value(s.run(program, (w,), (x,))).tolist() == [3.0, 8.0] and s.recordings == 1


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


def test_a_refused_replay_leaves_the_counter_where_the_program_would() -> None:
    """Noise that nothing reads stands before the refusal, and draws as much as any other."""

    def loss(ops: Any, w: Any, b: Any, x: Any, labels: Any) -> Any:
        hidden = ops.dropout(ops.linear(x, w, b), p=0.5, seed=1)
        ops.rand_normal(shape=(2,), seed=9)
        return ops.cross_entropy(hidden, labels)

    found = []
    for trainer in trainers(loss):
        kept = []
        for labels in ([0], [7], [1], [1]):
            try:
                kept.append(trainer.step_with_loss(0.5, [[[1.0, 2.0]], labels]).item())
            except Rejected as refusal:
                kept.append(str(refusal))
            kept.append(trainer.session.random_counter)
        found.append(kept)
    assert found[0] == found[1]
    assert found[0][1::2] == [2, 4, 6, 8]


def test_what_nothing_reads_is_refused_all_the_same() -> None:
    def program(ops: Any, x: Any, rows: Any) -> Any:
        ops.take(ops.exp(x), rows, axis=0)
        ops.rand_uniform(shape=(1,), seed=1)
        return ops.sum(x)

    for s in twins():
        s.run(program, [], [[1.0, 2.0], [0]])
        with pytest.raises(Rejected, match=r"^take C3"):
            s.run(program, [], [[1.0, 2.0], [2]])
        s.random_counter = 2**64 - 1
        s.run(program, [], [[1.0, 2.0], [0]])
        assert s.random_counter == 2**64
        with pytest.raises(Rejected, match=r"^rand_uniform C3.*got 18446744073709551616"):
            s.run(program, [], [[1.0, 2.0], [0]])
        assert s.random_counter == 2**64


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
            "call random_counter",
        ),
        (lambda s, ops, w, labels: ops.param([1.0]), "call param"),
        (lambda s, ops, w, labels: labels == 1, "values of integer inputs are not known"),
        (lambda s, ops, w, labels: labels != 1, "values of integer inputs are not known"),
        (lambda s, ops, w, labels: 1 if labels else 2, "values of integer inputs are not known"),
        (lambda s, ops, w, labels: ops.const(labels), "values of integer inputs are not known"),
        (lambda s, ops, w, labels: labels[0], "values of integer inputs are not known"),
        (lambda s, ops, w, labels: list(labels), "values of integer inputs are not known"),
        (lambda s, ops, w, labels: labels.tolist(), "values of integer inputs are not known"),
        (lambda s, ops, w, labels: np.asarray(labels), "values of integer inputs are not known"),
        (
            lambda s, ops, w, labels: ops.exp(labels),
            "exp: x is a ref of this session; got Indices; integers that run",
        ),
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
    assert (s.recordings, s.random_counter, len(s.params)) == (0, 0, 1)
    assert s.value(s.run(lambda ops, w: ops.sum(w), [w], [])).item() == 3.0
    assert w.value().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("returns", [None, {}, (), (1, 2), 3.0])
def test_a_program_returns_refs(returns: Any) -> None:
    s = CompiledSession(**CPU)
    for out in (returns, s.input(1.0), (s.input(1.0), None)):
        with pytest.raises(Rejected, match=r"a program returns a ref of the session that runs it"):
            s.run(lambda ops, out=out: out, [], [])
    assert s.recordings == 0


def test_data_from_outside_are_told_of_when_they_are_recorded() -> None:
    s = CompiledSession(**CPU)
    w, data, labels = s.param([[1.0, 2.0]]), torch.ones(1, 2), torch.tensor([1])

    def reads(ops: Any, w: Any) -> Any:
        return ops.cross_entropy(w * ops.const(data), labels)

    def lists(ops: Any, w: Any) -> Any:
        return ops.cross_entropy((w * ops.const([[1.0, 1.0]]))[:, ::-1], [1])

    with pytest.warns(Frozen) as told:
        s.run(reads, [w], [])
    says = [str(warning.message) for warning in told]
    assert [line.split(" reads")[0] for line in says] == [
        "compiled: const", "compiled: cross_entropy: labels"
    ]  # fmt: skip
    assert {warning.filename for warning in told} == {__file__}
    s.run(reads, [w], [])
    s.run(lists, [w], [])
    assert s.recordings == 2


def test_integers_of_one_recording_are_no_others() -> None:
    s, seen = CompiledSession(**CPU), []

    def program(ops: Any, x: Any, rows: Any) -> Any:
        seen.append(rows)
        return ops.sum(ops.take(x, seen[0], axis=0))

    assert s.value(s.run(program, [], [[1.0, 2.0], [1]])).item() == 2.0
    with pytest.raises(SessionError, match=r"^take: indices: these integers were given .* is over"):
        s.run(program, [], [[1.0, 2.0], [0, 1]])
    with pytest.raises(SessionError, match=r"were given to a program for one recording"):
        s.take(s.input([1.0]), seen[0], axis=0)


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


@pytest.mark.parametrize("session", [Session, CompiledSession])
@pytest.mark.parametrize("floats", [np.array([0.0, 1.0]), [0.0, 1.0], torch.tensor([0.0, 1.0])])
def test_labels_that_are_floats_are_told_to_be_integers(session: Any, floats: Any) -> None:
    s = session(**CPU)
    w = s.param(np.ones((2, 3)))
    with pytest.raises(Rejected, match=r"; labels is a ref, .* labels.astype\(numpy.int64\)$") as e:
        s.run(lambda ops, w, y: ops.cross_entropy(w, y), [w], [floats])
    assert "run() of floats" in str(e.value)
    with pytest.raises(Rejected, match=r"; mask is a ref, .* mask.astype\(bool\)$"):
        s.run(lambda ops, w, m: ops.where(m, w, w), [w], [[[0.0, 1.0, 0.0]] * 2])


@pytest.mark.parametrize(
    "program",
    [
        lambda ops, w, x: ops.sum(ops.linear(x, w)),
        lambda ops, w, x: ops.sum(w * x),
        lambda ops, w, x: ops.sum(x * w),
        lambda ops, w, x: ops.sum(x / 255),
        lambda ops, w, x: ops.sum(1 - x),
        lambda ops, w, x: ops.sum(x @ w),
        lambda ops, w, x: ops.sum(abs(x)),
        lambda ops, w, x: ops.sum(w) if x > 0 else w,
    ],
)
def test_pixels_that_are_integers_are_told_to_be_floats(program: Any) -> None:
    s = CompiledSession(**CPU)
    w = s.param(np.ones((2, 3)))
    pixels = np.arange(6).reshape(2, 3)
    with pytest.raises(Unsupported, match=r"hand in floats, such as x.astype\(numpy.float32\)"):
        s.run(program, [w], [pixels])
    s.run(lambda ops, w, x: ops.sum(w * x), [w], [pixels.astype(np.float32)])
