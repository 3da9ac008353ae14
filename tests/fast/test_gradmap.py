"""Gradient maps: ownership, release, unreached leaves, seeds, accumulation."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fast import Rejected, Released, Session
from fast._counters import counters


def session() -> Session:
    return Session(provider="aten", device="cpu")


def forms(s: Session, loss: Any) -> list[Any]:
    return [s.backward(loss), s.backward_dense(loss)]


@pytest.mark.usefixtures("settled")
def test_release_is_idempotent_and_ends_every_use() -> None:
    s = session()
    x = s.use(s.param([1.0, 2.0]))
    y = s.input([1.0, 1.0], requires_grad=True)
    s.backward(s.sum(s.mul(x, y))).release()
    before = counters.snapshot()
    for grads in forms(s, s.sum(s.mul(x, y))):
        buffers = [grads[x], grads[y]]
        grads.release()
        grads.release()
        assert grads.released
        assert all(buffer.released for buffer in buffers)
        for use in (
            lambda g=grads: g[x],
            lambda g=grads: s.grad(g, x),
            lambda g=grads: g.reached(x),
        ):
            with pytest.raises(Released):
                use()
        with pytest.raises(Released):
            s.sgd_step(1.0, grads)
        with pytest.raises(Released), grads:
            pass
    s.reset_tape()
    after = counters.snapshot()
    assert after.live_bytes <= before.live_bytes


def test_with_releases_on_any_exit() -> None:
    s = session()
    loss = s.sum(s.use(s.param([1.0])))
    for grads in forms(s, loss):
        with pytest.raises(KeyError), grads:
            raise KeyError
        assert grads.released


@pytest.mark.usefixtures("settled")
def test_repeated_passes_allocate_no_gradients_again() -> None:
    s = session()
    loss = s.sum(s.use(s.param([1.0] * 100)))
    s.backward(loss).release()
    live = counters.live_bytes
    for _ in range(8):
        with s.backward(loss):
            assert counters.live_bytes == live
        s.backward(loss)
    assert counters.live_bytes == live


def test_two_maps_may_live_at_once() -> None:
    s = session()
    x = s.use(s.param([1.0, 2.0]))
    one, two = s.backward(s.sum(x)), s.backward(s.sum(s.add(x, x)))
    assert s.grad(one, x).tolist() == [1.0, 1.0]
    assert s.grad(two, x).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("form", ["backward", "backward_dense"])
def test_an_unreached_leaf_is_marked_and_zero(form: str) -> None:
    s = session()
    w, b = s.param([1.0, 2.0]), s.param([[3.0]])
    x, y, z = s.use(w), s.use(b), s.input([5.0], requires_grad=True)
    loss = s.sum(x)
    later = s.use(s.param([4.0]))
    grads = getattr(s, form)(loss)
    assert [grads.reached(leaf) for leaf in (x, y, z, later)] == [True, False, False, False]
    assert s.grad(grads, y).tolist() == [[0.0]]
    assert s.grad(grads, z).tolist() == [0.0]
    assert s.grad(grads, later).tolist() == [0.0]
    s.adamw_step(grads=grads)
    assert b.value().tolist() == [[3.0]]
    assert (w.version, b.version) == (1, 0)
    state = s.optimizer_state("adamw", b)
    assert state["step"] == 0
    assert not state["exp_avg"].any()


def test_a_map_outlives_its_tape() -> None:
    s = session()
    w = s.param([1.0, 2.0])
    x = s.use(w)
    grads = s.backward(s.sum(x))
    s.reset_tape()
    assert grads[x.id].tensor.tolist() == grads[w].tensor.tolist() == [1.0, 1.0]
    s.sgd_step(1.0, grads)
    assert w.value().tolist() == [0.0, 1.0]


def test_a_map_speaks_of_trainable_leaves_only() -> None:
    s = session()
    x, c = s.use(s.param([1.0])), s.input([1.0])
    loss = s.sum(s.mul(x, c))
    grads = s.backward(loss)
    assert list(grads) == [x.id]
    assert (len(grads), x.id in grads, c.id in grads) == (1, True, False)
    for ref in (c, loss, 99):
        with pytest.raises(Rejected, match="not a trainable leaf"):
            grads[ref]
    with pytest.raises(Rejected, match="'unused' was not used"):
        grads[s.param([1.0], name="unused")]
    dense = s.backward_dense(loss)
    assert [dense[k].tensor.tolist() for k in range(len(dense))] == [[1.0], [0.0], [1.0], 1.0]
    with pytest.raises(Rejected, match="no entry 4"):
        dense[4]
    with pytest.raises(Rejected, match="another session or of a tape that was reset"):
        dense[session().input([1.0])]


@pytest.mark.parametrize("kind", ["buffer", "tensor", "list"])
def test_a_seed_stays_the_callers(kind: str) -> None:
    s = session()
    x = s.input([1.0, 2.0], requires_grad=True)
    y = s.reshape(s.add(x, x), shape=(2, 1))
    data = [[3.0], [5.0]]
    seed = {"buffer": s.upload(data), "tensor": torch.tensor(data), "list": data}[kind]
    for _ in range(2):
        with s.backward(y, seed) as grads, s.backward_dense(y, seed) as dense:
            assert s.grad(grads, x).tolist() == s.grad(dense, x).tolist() == [6.0, 10.0]
            dense[y].tensor.zero_()
    assert s.value(s.input(seed)).tolist() == data


def test_seeds_are_checked() -> None:
    s = session()
    x = s.input([1.0, 2.0], requires_grad=True)
    released = s.upload([1.0, 1.0])
    released.release()
    with pytest.raises(Rejected, match=r"shape \(2,\); without a seed"):
        s.backward(x)
    with pytest.raises(Rejected, match=r"shape \(2,\) of entry 0, got \(3,\)"):
        s.backward(x, [1.0, 2.0, 3.0])
    with pytest.raises(Released):
        s.backward(x, released)
    assert s.grad(s.backward(x, [1.0, 2.0]), x).tolist() == [1.0, 2.0]


def test_gradients_of_split_batches_add_up() -> None:
    s = session()
    w = s.param([1.0, 2.0])
    grads = None
    for row in ([1.0, 2.0], [3.0, 4.0]):
        loss = s.sum(s.mul(s.use(w), s.input(row)))
        grads = s.backward(loss, into=grads)
        s.reset_tape()
    assert grads is not None
    assert grads[w].tensor.tolist() == [4.0, 6.0]
    twice = s.add(s.use(w), s.use(w))
    s.backward(s.sum(twice), into=grads)
    s.reset_tape()
    s.backward(s.sum(s.use(w)), into=grads)
    assert grads[w].tensor.tolist() == [7.0, 9.0]


@pytest.mark.usefixtures("settled")
def test_an_error_in_a_pass_returns_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    s = session()
    w = s.param([1.0, 2.0])
    loss = s.sum(s.square(s.use(w)))
    s.backward(loss).release()
    before = counters.snapshot()

    def broken(*anything: object) -> Any:
        raise RuntimeError("a broken rule")

    rules = s._tape.rules
    rules[1] = (broken, *rules[1][1:])
    for run in (s.backward, s.backward_dense):
        with pytest.raises(RuntimeError, match="a broken rule"):
            run(loss)
    after = counters.snapshot()
    assert (after.live_bytes, after.live_buffers) == (before.live_bytes, before.live_buffers)
    assert len(s._pool) == 1


@pytest.mark.parametrize("turns", [1, 2])
def test_a_rule_that_writes_gradients_in_place_agrees_with_dense_gradients(turns: int) -> None:
    """Linear's VJP writes to the arena: once for a matrix that is also its input, then to add."""
    s = session()
    w, b = s.param([[1.0, 2.0], [3.0, 4.0]]), s.param([5.0, 6.0])
    with s.backward(s.sum(s.linear(s.use(w), s.input([[7.0, 7.0]] * 2), s.use(b)))):
        pass  # What it leaves in the arena must not be taken for a contribution.
    s.reset_tape()
    x, bias = s.use(w), s.use(b)
    out = x
    for _ in range(turns):
        out = s.linear(out, x, bias)
    loss = s.sum(s.mul(out, s.input([[1.0, 2.0], [3.0, 5.0]])))
    sparse, dense = s.backward(loss), s.backward_dense(loss)
    for leaf in (x, bias):
        assert sparse.reached(leaf)
        assert s.grad(sparse, leaf).equal(s.grad(dense, leaf))
