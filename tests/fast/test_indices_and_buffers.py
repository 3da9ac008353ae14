"""Ops that return indices or update buffers, made for the purpose: no page does all of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fast import CompiledSession, Rejected, Session, SessionError, checkpoint
from fast.autodiff import grad, hvp, value_and_grad, vjp
from fast.checkpoint import header, snapshot
from fast.device import flags
from fast.device.counters import counters
from fast.device.named import NamedBuffer
from fast.kernels.page import REQUIRED, Op
from fast.ops import OPS
from fast.ref import IndexRef, Ref
from tests.fast.compiled.test_compiled_memory import storages

CPU: dict[str, Any] = {"provider": "aten", "device": "cpu"}
X = [[1.0, 5.0, 2.0], [7.0, 0.5, -1.0]]
KINDS = (Session, CompiledSession)


def refuse_nothing(*inputs: Tensor, **attributes: Any) -> None:
    """Refuse nothing."""


def largest(x: Tensor) -> Any:
    """Return the largest of each row, and where it is."""
    z, at = x.max(dim=1)
    return (z, at), (x.shape, at)


def largest_vjp(saved: Any, cotangents: Any, needs: Any) -> Any:
    (g, none), (shape, at) = cotangents, saved
    assert none is None
    return (g.new_zeros(shape).scatter(1, at[:, None], g[:, None]),)


def place(x: Tensor) -> Any:
    """Return where the largest of a vector is, and nothing else."""
    return (x.argmax(),), (x.abs(),)


def centered(x: Tensor, mean: Tensor, count: Tensor, *, rate: float) -> Any:
    """Subtract the buffer of means; move it towards the input unless the rate is 0."""
    moved = (mean + rate * (x.mean(0) - mean), count + 1) if rate else (None, None)
    return (x - mean, *moved), (mean,)


def centered_vjp(saved: Any, cotangent: Tensor, needs: Any) -> Any:
    """Return the cotangent, times the mean that the op has read over itself."""
    (mean,) = saved
    return cotangent * (mean + 1) / (mean + 1), None, None


OWN = {
    "largest": Op(
        "largest", refuse_nothing, largest, largest_vjp, largest, largest_vjp,
        inputs=("x",), results=2, indices=(1,),
    ),
    "place": Op(
        "place", refuse_nothing, place, largest_vjp, place, largest_vjp,
        inputs=("x",), indices=(0,),
    ),
    "centered": Op(
        "centered", refuse_nothing, centered, centered_vjp, centered, centered_vjp,
        inputs=("x", "mean", "count"), buffers=(1, 2), attributes={"rate": REQUIRED},
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the ops into the table."""
    for name, op in OWN.items():
        monkeypatch.setitem(OPS, name, op)
    yield


def op(s: Any, name: str, *inputs: Any, **attributes: Any) -> Any:
    return s.apply(name, inputs, attributes)


def buffers(s: Session) -> tuple[NamedBuffer, NamedBuffer]:
    return s.buffer([1.0, 1.0, 1.0], name="mean"), s.buffer(0.0, name="count")


def read_at_largest(s: Any, y: Ref, x: Ref) -> Ref:
    """Add up the largest of each row of x, times y where they are."""
    z, at = op(s, "largest", x)
    return s.sum(s.mul(z, s.take(y, at, axis=0)))  # type: ignore[no-any-return]


def largest_alone(s: Any, y: Ref, x: Ref) -> Ref:
    z, _ = op(s, "largest", x)
    return s.sum(z)  # type: ignore[no-any-return]


@pytest.mark.holds("Integers that an op has returned")
def test_integers_are_indices_and_nothing_else() -> None:
    s = Session(**CPU)
    x = s.input(X, requires_grad=True)
    z, at = op(s, "largest", x)
    assert type(at) is IndexRef and at.shape == (2,) and at.dtype is torch.int64
    assert s.value(at).tolist() == [1, 0] and s.value(at).dtype is torch.int64
    assert s.shape_of(at) == (2,)
    y = s.input([10.0, 20.0, 30.0], requires_grad=True)
    grads = s.backward(s.sum(s.add(z, s.take(y, at, axis=0))))
    assert s.grad(grads, x).tolist() == [[0, 1, 0], [1, 0, 0]]
    assert s.grad(grads, y).tolist() == [1, 1, 0]
    length = len(s._tape)
    with pytest.raises(Rejected, match=r"square: x takes numbers .*indices of later ops"):
        op(s, "square", at)
    with pytest.raises(Rejected, match="add: y takes numbers"):
        op(s, "add", y, at)
    with pytest.raises(Rejected, match="backward takes numbers"):
        s.backward(at)  # type: ignore[arg-type]
    with pytest.raises(Rejected, match="where C2"):
        s.where(at, z, z)
    with pytest.raises(Rejected, match="takes numbers of this session; integers that an op has"):
        _ = z @ at
    with pytest.raises(SessionError, match="another session"):
        Session(**CPU).value(at)
    with pytest.raises(SessionError, match="another session"):
        t = Session(**CPU)
        t.take(t.input([1.0]), at, axis=0)
    assert len(s._tape) == length
    s.reset_tape()
    with pytest.raises(SessionError, match="before reset_tape"):
        s.value(at)
    with pytest.raises(SessionError, match="before reset_tape"):
        s.take(s.input([1.0, 2.0]), at, axis=0)
    assert repr(at).endswith("dead)")


def test_an_op_may_return_integers_alone() -> None:
    s = Session(**CPU)
    x = s.input([1.0, 5.0, 2.0], requires_grad=True)
    weight = s._tape.bytes
    at = op(s, "place", x)
    assert s._tape.bytes - weight == 8, "what it saves is kept by nobody"
    assert type(at) is IndexRef and s.value(at).item() == 1
    assert s._tape.rules[at.id] is None
    assert s.value(s.take(x, at, axis=0)).item() == 5.0


@pytest.mark.holds("Integers that an op has returned")
def test_dense_gradients_leave_integers_out() -> None:
    s = Session(**CPU)
    x = s.input(X, requires_grad=True)
    z, at = op(s, "largest", x)
    dense = s.backward_dense(s.sum(z))
    assert [*dense] == [x.id, z.id, 3] and len(dense) == 3
    for key in (at, at.id):
        assert key not in dense
        with pytest.raises(Rejected, match="entry 2 holds integers, which have none"):
            s.grad(dense, key)


@pytest.mark.holds("Integers that an op has returned")
def test_a_replay_computes_integers_anew() -> None:
    found = []
    for kind in KINDS:
        s = kind(**CPU)
        y, kept = s.param([10.0, 20.0, 30.0]), []
        for turn in range(3):
            x = torch.tensor(X).roll(turn, 1)
            with s.backward(s.run(read_at_largest, [y], [x])) as grads:
                kept.append(s.grad(grads, y))
        found.append(kept)
        if isinstance(s, CompiledSession):
            assert s.recordings == 1
    assert torch.equal(torch.stack(found[0]), torch.stack(found[1]))
    assert not torch.equal(found[0][0], found[0][1])


def test_a_replay_refuses_what_does_not_fit_this_time() -> None:
    s = CompiledSession(**CPU)
    y = s.param([10.0, 20.0])
    s.run(read_at_largest, [y], [X])
    with pytest.raises(Rejected, match=r"take C3.*got 2"):
        s.run(read_at_largest, [y], [[[1.0, 2.0, 3.0], [1.0, 2.0, 0.0]]])
    assert s.value(s.run(read_at_largest, [y], [X])).item() == 5 * 20 + 7 * 10


@pytest.mark.usefixtures("settled")
def test_a_replay_weighs_and_drops_integers() -> None:
    s = CompiledSession(**CPU)
    y = s.param([10.0, 20.0, 30.0])
    for _ in range(2):
        s.run(read_at_largest, [y], [X])
    held = storages(s)
    # The rule of take keeps the indices, which `storages` leaves out as it does labels.
    weight = s._tape.bytes - 16, len(s._tape) + s._tape.extra - 1
    assert (sum(held.values()), len(held)) == weight
    for _ in range(2):
        s.run(largest_alone, [y], [X])
    assert s._tape.values[3].tolist() == [torch.iinfo(torch.int64).min] * 2


@pytest.mark.holds("Integers that an op has returned")
def test_derivatives_of_programs_with_integers() -> None:
    def program(s: Any, y: Ref, x: Ref) -> Ref:
        return read_at_largest(s, s.square(y), x)

    y = [1.0, 2.0, 3.0]
    assert grad(program, (0, 1), **CPU)(y, X)[0].tolist() == [14.0, 20.0, 0.0]
    found = hvp(program, [y, X], [[1.0, 1.0, 1.0], [[0.0, 1.0, 1.0], [2.0, 0.0, 0.0]]], **CPU)
    # Of x_at y_at^2: the direction moves y_at by 1, and the largest by 1 and by 2.
    assert found[0] is not None and found[0].tolist() == [14.0 + 2 * 2, 10.0 + 4.0, 0.0]
    assert found[1] is not None and found[1].tolist() == [[0.0, 4.0, 0.0], [2.0, 0.0, 0.0]]


@pytest.mark.holds("Named buffers, which ops update")
def test_a_buffer_is_state_of_its_session() -> None:
    s = Session(**CPU, precision="bf16")
    mean, count = buffers(s)
    other = s.buffer([[0.1]])
    assert [b.name for b in s.buffers] == ["mean", "count", "buffer2"]
    assert other.dtype is torch.float32 and other.shape == (1, 1)
    mean.set([1, 2, 3])
    read = mean.value()
    read.zero_()
    s.reset_tape()
    assert mean.value().tolist() == [1.0, 2.0, 3.0] and count.value().item() == 0.0
    for bad, said in (([1.0], r"needs the shape \(3,\), got \(1,\)"), ("x", "of the world str")):
        with pytest.raises(Rejected, match=said):
            mean.set(bad)
    for name, said in (("mean", "is taken"), (3, "a name is a str")):
        with pytest.raises(Rejected, match=said):
            s.buffer([0.0], name=name)  # type: ignore[arg-type]
    assert mean.value().tolist() == [1.0, 2.0, 3.0] and len(s.buffers) == 3


@pytest.mark.holds("Named buffers, which ops update")
def test_an_op_updates_its_buffers() -> None:
    s = Session(**CPU)
    mean, count = buffers(s)
    x = s.input(X, requires_grad=True)
    z = op(s, "centered", x, mean, count, rate=0.5)
    assert type(z) is Ref
    assert s.value(z).tolist() == [[0.0, 4.0, 1.0], [6.0, -0.5, -2.0]]
    assert mean.value().tolist() == [2.5, 1.875, 0.75] and count.value().item() == 1
    grads = s.backward(s.sum(s.square(z)))
    assert s.grad(grads, x).tolist() == [[0.0, 8.0, 2.0], [12.0, -1.0, -4.0]]
    assert mean.value().tolist() == [2.5, 1.875, 0.75], "a backward pass writes nothing"
    held = mean.contents
    op(s, "centered", x, mean, count, rate=0.0)
    assert mean.contents is held and count.value().item() == 1


def test_what_an_op_has_read_of_a_buffer_stays() -> None:
    s = Session(**CPU)
    mean, count = buffers(s)
    x = s.input(X, requires_grad=True)
    z = op(s, "centered", x, mean, count, rate=0.0)
    mean.set([-1.0, -1.0, -1.0])
    # The rule divides by the mean and 1, which would be 0 now.
    assert s.grad(s.backward(s.sum(z)), x).tolist() == [[1.0] * 3] * 2


@pytest.mark.holds("Named buffers, which ops update")
def test_what_fails_updates_nothing() -> None:
    s = Session(**CPU)
    (mean, count), other = buffers(s), Session(**CPU).buffer([1.0, 1.0, 1.0])
    x, ref = s.input(X), s.input([1.0, 1.0, 1.0])
    op(s, "centered", x, mean, count, rate=1.0)
    before = mean.value().tolist(), count.value().item(), len(s._tape), s._tape.bytes

    def raises(*inputs: Tensor, **attributes: Any) -> Any:
        raise ValueError("in the middle")

    def misfits(x: Tensor, mean: Tensor, count: Tensor, *, rate: float) -> Any:
        return (x - mean, mean + 1, count.double()), ()

    good = s._bound["centered"]
    for value, said in ((raises, "in the middle"), (misfits, "'count': .*float32.*got .*float64")):
        s._bound["centered"] = good._replace(value=value)
        with pytest.raises(ValueError, match=said):
            op(s, "centered", x, mean, count, rate=1.0)
        assert mean.value().tolist() == before[0]
    s._bound["centered"] = good
    for given, said in (
        ((x, ref, count), "centered: mean is a buffer, which buffer.. makes, got Ref"),
        ((x, [1.0], count), "centered: mean is a buffer, .*got list"),
        ((x, mean, mean), "got it twice"),
        ((mean, mean, count), "centered: x is a ref of this session; got NamedBuffer"),
    ):
        with pytest.raises(Rejected, match=said):
            op(s, "centered", *given, rate=1.0)
    with pytest.raises(SessionError, match=r"'buffer0'.* is not a buffer of this session"):
        op(s, "centered", x, other, count, rate=1.0)
    assert (mean.value().tolist(), count.value().item(), len(s._tape), s._tape.bytes) == before


def test_after_an_index_out_of_range_nothing_is_written() -> None:
    s = Session(**CPU)
    mean, count = buffers(s)
    flags.word(s.options.device).fill_((flags.code_of("take") << 48) + 9)
    try:
        op(s, "centered", s.input(X), mean, count, rate=1.0)
        with pytest.raises(Rejected, match="take C3"):
            mean.value()
    finally:
        s.clear_flag()
    assert mean.value().tolist() == [1.0, 1.0, 1.0] and count.value().item() == 0


@pytest.mark.holds("Named buffers, which ops update")
def test_a_replay_updates_buffers_anew() -> None:
    found = []
    for kind in KINDS:
        s = kind(**CPU)
        mean, count = buffers(s)
        weights = s.param([1.0, -1.0, 2.0])

        def program(s: Any, w: Ref, x: Ref, held: Any = (mean, count)) -> Ref:
            z = op(s, "centered", s.mul(x, s.broadcast_to(w, shape=(2, 3))), *held, rate=0.25)
            op(s, "centered", s.square(x), *held, rate=0.25)  # feeds the buffers alone
            return s.sum(s.square(op(s, "centered", z, *held, rate=0.5)))  # type: ignore[no-any-return]

        for turn in range(3):
            out = s.run(program, [weights], [torch.tensor(X) + turn])
            with s.backward(out) as grads:
                found.append([s.value(out), s.grad(grads, weights), mean.value(), count.value()])
        mean.set([0.0, 0.0, 0.0])
        found.append([s.value(s.run(program, [weights], [X])), mean.value()])
        if isinstance(s, CompiledSession):
            assert s.recordings == 1
            rules = {id(rule): rule for rule in s._tape.rules if rule and rule[0] is centered_vjp}
            means = {rule[1][0].untyped_storage()._cdata for rule in rules.values()}
            weighed = [size for key, size in storages(s).items() if key not in means]
            assert len(means) == 2, "those that ops have read are counted as the buffer's"
            assert sum(weighed) == s._tape.bytes
            assert len(weighed) == len(s._tape) + s._tape.extra
    for eager, replayed in zip(found[:4], found[4:], strict=True):
        assert all(torch.equal(a, b) for a, b in zip(eager, replayed, strict=True))
    assert found[2][3].item() == 9


def test_a_program_that_is_recorded_makes_no_buffer() -> None:
    s = CompiledSession(**CPU)
    with pytest.raises(SessionError, match="may not call buffer"):
        s.run(lambda s: s.buffer([1.0]), [], [])
    assert s.buffers == []


@pytest.mark.holds("Named buffers, which ops update")
def test_derivatives_of_programs_leave_buffers_as_they_were() -> None:
    s = Session(**CPU)
    mean, count = buffers(s)

    def program(ops: Any, x: Ref) -> Ref:
        z = op(ops, "centered", x, mean, count, rate=1.0)
        return ops.sum(ops.square(op(ops, "centered", z, mean, count, rate=1.0)))  # type: ignore[no-any-return]

    held = mean.contents
    # The second reads the mean of x, which the first has left: it is a constant to both modes.
    rest = (torch.tensor(X) - 1 - torch.tensor(X).mean(0)).mul(2)
    for found in (grad(program, session=s)(X), value_and_grad(program, session=s)(X)[1]):
        assert isinstance(found, Tensor) and torch.equal(found, rest)
    with vjp(program, X, session=s)[1] as pullback:
        (due,) = pullback()
        assert due is not None and torch.equal(due, rest)
    (moved,) = hvp(program, [X], [X], session=s)
    assert moved is not None and torch.equal(moved, torch.tensor(X).mul(2))
    with pytest.raises(SessionError, match="not a buffer of this session"):
        grad(program, **CPU)(X)
    assert mean.contents is held and count.value().item() == 0


@pytest.mark.usefixtures("settled")
def test_buffers_are_counted_while_they_are_held() -> None:
    s = Session(**CPU)
    before = counters.snapshot()
    mean, count = buffers(s)
    assert counters.live_bytes - before.live_bytes == 12 + 4
    x = s.input(X, requires_grad=True)
    held = counters.live_bytes
    op(s, "centered", x, mean, count, rate=1.0)
    assert counters.live_bytes - held == 24 + 12, "the rule keeps the means that the op has read"
    s.reset_tape()
    mean.set([0.0, 0.0, 0.0])
    assert counters.live_bytes - before.live_bytes == 12 + 4
    assert counters.live_buffers - before.live_buffers == 2
    del s, mean, count, x
    gc.collect()
    assert counters.live_bytes == before.live_bytes


def saved(path: Path) -> Path:
    s = Session(**CPU)
    s.param([1.0, 2.0], name="w")
    buffers(s)[0].set([4.0, float("nan"), 6.0])
    checkpoint.save(path, s)
    return path


@pytest.mark.holds("Named buffers, which ops update")
def test_checkpoints_hold_buffers(tmp_path: Path) -> None:
    path = saved(tmp_path / "run")
    s = Session(**CPU)
    s.param([0.0, 0.0], name="w")
    mean, count = buffers(s)
    count.set(7.0)
    checkpoint.load(path, s)
    assert mean.value().nan_to_num(5.0).tolist() == [4.0, 5.0, 6.0] and count.value().item() == 0


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"mean": [1.0, 1.0, 1.0]}, "buffer/count: unknown"),
        ({"mean": [1.0, 1.0, 1.0], "count": 0.0, "more": 1.0}, "buffer/more: missing"),
        ({"mean": [1.0], "count": 0.0}, r"buffer/mean: the session's buffer is .* shape \(1,\)"),
        ({}, "buffer/mean: unknown"),
    ],
)
def test_a_load_that_does_not_fit_changes_nothing(
    tmp_path: Path, held: dict[str, Any], said: str
) -> None:
    path = saved(tmp_path / "run")
    s = Session(**CPU)
    w = s.param([0.0, 0.0], name="w")
    made = [s.buffer(value, name=name) for name, value in held.items()]
    contents = [buffer.contents for buffer in made]
    with pytest.raises(Rejected, match=said):
        checkpoint.load(path, s)
    assert w.value().tolist() == [0.0, 0.0]
    assert all(b.contents is c for b, c in zip(made, contents, strict=True))


def test_a_load_that_is_interrupted_puts_buffers_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path / "run")
    s = Session(**CPU)
    s.param([0.0, 0.0], name="w")
    mean, count = buffers(s)
    contents = mean.contents, count.contents
    whole = NamedBuffer.set

    def interrupted(buffer: NamedBuffer, value: Any) -> None:
        if buffer.name == "count":
            raise KeyboardInterrupt
        whole(buffer, value)

    monkeypatch.setattr(NamedBuffer, "set", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.load(path, s)
    assert mean.contents is contents[0] and count.contents is contents[1]


def test_a_file_without_buffers_is_what_it_was() -> None:
    s = Session(**CPU)
    s.param([1.0], name="w")
    contents = snapshot.read(s)
    text = header.write(contents, {})
    assert "buffers" not in text
    assert header.read(text, header.tensors(contents))[0].buffers == {}
    s.buffer([1.0], name="b")
    contents = snapshot.read(s)
    text = header.write(contents, {}).replace('["b"]', '["b", "b"]')
    with pytest.raises(Rejected, match="buffers/b: it is listed twice"):
        header.read(text, header.tensors(contents))
