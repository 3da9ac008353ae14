"""Gradient maps: ownership, release, unreached leaves, seeds, accumulation."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fast import Rejected, Released, Session, SessionError
from fast.device.counters import counters


def session() -> Session:
    return Session(provider="aten", device="cpu")


def forms(s: Session, loss: Any) -> list[Any]:
    return [s.backward(loss), s.backward_dense(loss)]


@pytest.mark.holds("Release gradients, on any exit")
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


@pytest.mark.holds("Gradients by trainable leaf")
def test_two_maps_may_live_at_once() -> None:
    s = session()
    x = s.use(s.param([1.0, 2.0]))
    one, two = s.backward(s.sum(x)), s.backward(s.sum(s.add(x, x)))
    assert s.grad(one, x).tolist() == [1.0, 1.0]
    assert s.grad(two, x).tolist() == [2.0, 2.0]


@pytest.mark.holds("Gradients of the trainable leaves")
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


@pytest.mark.holds("Gradients by trainable leaf")
def test_a_map_outlives_its_tape() -> None:
    s = session()
    w = s.param([1.0, 2.0])
    x = s.use(w)
    grads = s.backward(s.sum(x))
    s.reset_tape()
    assert grads[x.id].tensor.tolist() == grads[w].tensor.tolist() == [1.0, 1.0]
    s.sgd_step(1.0, grads)
    assert w.value().tolist() == [0.0, 1.0]


@pytest.mark.holds("Gradients by trainable leaf", "Constants", "Look a gradient up")
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


@pytest.mark.holds("Gradients of every entry on the device, with a seed or from a scalar loss")
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


@pytest.mark.holds(
    "Sizes are checked before use",
    "Gradients of every entry on the device, with a seed or from a scalar loss",
)
def test_seeds_are_checked() -> None:
    s = session()
    x = s.input([1.0, 2.0], requires_grad=True)
    released = s.upload([1.0, 1.0])
    released.release()
    with pytest.raises(Rejected, match=r"shape \(2,\); without a seed"):
        s.backward(x)
    with pytest.raises(Rejected, match=r"shape \(2,\) of entry 0, got \(3,\)"):
        s.backward(x, [1.0, 2.0, 3.0])
    for bad in (torch.ones(2).to_sparse(), torch.ones(2, device="meta")):
        with pytest.raises(Rejected, match="a dense one that holds its numbers"):
            s.backward(x, bad)
    with pytest.raises(Released):
        s.backward(x, released)
    assert s.grad(s.backward(x, [1.0, 2.0]), x).tolist() == [1.0, 2.0]


@pytest.mark.holds("Gradients of the trainable leaves")
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
    assert len(s.store._pool) == 1


@pytest.mark.holds("Take one contribution to a leaf")
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


def test_a_map_takes_parameters_in_that_came_after_it() -> None:
    s = session()
    w = s.param([1.0, 2.0])
    x = s.use(w)
    grads = s.backward(s.sum(x))
    lent = grads[x]
    later = s.use(s.param([3.0] * 100))
    assert not grads.reached(later)
    assert s.grad(grads, later).tolist() == [0.0] * 100
    s.backward(s.add(s.sum(x), s.sum(later)), into=grads)
    assert s.grad(grads, x).tolist() == [2.0, 2.0]
    assert s.grad(grads, later).tolist() == [1.0] * 100
    assert not lent.released
    s.sgd_step(1.0, grads)
    assert [p.value()[0].item() for p in s.params] == [-1.0, 2.0]


@pytest.mark.usefixtures("settled")
def test_a_zero_that_was_asked_for_does_not_hide_a_later_gradient() -> None:
    s = session()
    x, y = s.use(s.param([1.0, 2.0])), s.use(s.param([3.0]))
    z = s.input([1.0], requires_grad=True)
    grads = s.backward(s.sum(x))
    live = counters.live_bytes
    assert [s.grad(grads, leaf).item() for leaf in (y, z)] == [0.0, 0.0]
    s.backward(s.sum(y), into=grads)
    assert [s.grad(grads, leaf).item() for leaf in (y, z)] == [1.0, 0.0]
    # The zero of y is gone, that of z was asked for again, and the loss is a scalar.
    assert counters.live_bytes - live == 4 + 4


def test_zeros_have_the_dtype_that_a_gradient_would_have() -> None:
    s = Session(provider="aten", precision="bf16", device="cpu")
    w = s.param([1.0])
    leaves = s.use(w), s.use(w), s.input([1.0], requires_grad=True)
    loss = s.sum(s.input([1.0], requires_grad=True))
    for leaf in leaves:
        loss_of_leaf = s.sum(leaf)
        with s.backward(loss) as unreached, s.backward(loss_of_leaf) as reached:
            assert unreached[leaf].dtype is reached[leaf].dtype


def test_a_pass_adds_to_maps_of_its_own_session_only() -> None:
    s, other = session(), session()
    strange = other.backward(other.sum(other.use(other.param([5.0, 5.0]))))
    loss = s.sum(s.use(s.param([1.0, 2.0])))
    with pytest.raises(SessionError, match="into: these gradients are of another session"):
        s.backward(loss, into=strange)
    with pytest.raises(Rejected, match="into: a map that backward"):
        s.backward(loss, into=s.backward_dense(loss))  # type: ignore[arg-type]
    assert not strange.released
    assert strange[0].tensor.tolist() == [1.0, 1.0]


@pytest.mark.holds("Gradients by trainable leaf")
def test_a_parameter_stands_for_its_first_trainable_leaf() -> None:
    s = session()
    w = s.param([1.0, 2.0], requires_grad=False)
    s.use(w)
    w.requires_grad = True
    first, second = s.use(w), s.use(w)
    grads = s.backward(s.sum(s.add(first, s.mul(second, second))))
    assert s.grad(grads, first).tolist() == grads[w].tensor.tolist() == [1.0, 1.0]
    assert s.grad(grads, second).tolist() == [2.0, 4.0]


@pytest.mark.parametrize("provider", ["aten", "triton"])
def test_an_update_reads_a_gradient_arena_that_has_grown_where_it_lies_now(provider: str) -> None:
    s = Session(provider=provider, device="cpu")
    w = s.param([1.0] * 64)
    grads = s.backward(s.use(w), [1.0] * 64)
    # The parameter that comes now makes the arena grow when it is next taken, which is later.
    s.param([3.0])
    s.sgd_step(1.0, grads)
    grads.release()
    s.reset_tape()
    s.sgd_step(1.0, s.backward(s.use(w), [10.0] * 64))
    assert w.value()[0].item() == 1.0 - 1.0 - 10.0


def test_what_is_no_gradients_is_refused_by_name() -> None:
    s = session()
    x = s.input([1.0], requires_grad=True)
    with pytest.raises(Rejected, match=r"grad: takes what backward\(\) .* got dict"):
        s.grad({x.id: torch.ones(1)}, x)  # type: ignore[arg-type]
