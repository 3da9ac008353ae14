"""Parameters: which copy is current, what crosses, and versions."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from fast import Rejected, Released, Session, SessionError, Stale, Unmoved
from fast.device import bridge
from fast.device.counters import counters


def session() -> Session:
    return Session(provider="aten", device="cpu")


@pytest.mark.holds("Use a parameter, once or more often")
@pytest.mark.usefixtures("settled")
def test_the_mirror_is_made_at_first_use_and_survives_a_reset() -> None:
    s = session()
    before = counters.snapshot()
    w = s.param([1.0, 2.0], name="w")
    assert (w.current, w.version) == ("host", 0)
    s.use(w)
    assert w.current == "both"
    assert counters.uploads - before.uploads == 1
    s.reset_tape()
    s.use(w)
    assert counters.uploads - before.uploads == 1
    assert w.value().tolist() == [1.0, 2.0]
    assert counters.downloads == before.downloads


@pytest.mark.holds("Bring a parameter's host copy up to date")
@pytest.mark.usefixtures("settled")
def test_readback_synchronizes_once() -> None:
    s = session()
    w = s.param([1.0, 2.0])
    s.sgd_step(0.5, s.backward(s.sum(s.use(w))))
    assert w.current == "device"
    before = counters.downloads
    assert w.value().tolist() == [0.5, 1.5]
    assert w.current == "both"
    w.sync()
    assert w.value().tolist() == [0.5, 1.5]
    assert counters.downloads - before == 1


@pytest.mark.holds("Replace a parameter's device mirror", "Overwrite a parameter's host value")
def test_set_invalidates_the_mirror_and_set_device_the_host_copy() -> None:
    s = session()
    w = s.param([1.0, 2.0])
    s.use(w)
    w.set([3.0, Fraction(1, 3)])
    assert (w.current, w.version) == ("host", 1)
    s.reset_tape()
    assert s.value(s.use(w)).tolist() == w.value().tolist() == [3.0, 0.3333333432674408]
    buffer = s.upload([5.0, 6.0])
    w.set_device(buffer)
    assert (w.current, w.version) == ("device", 2)
    buffer.release()
    assert w.value().tolist() == [5.0, 6.0]


@pytest.mark.holds("Bring a parameter's host copy up to date")
def test_a_value_is_a_copy() -> None:
    s = session()
    host = torch.tensor([1.0, 2.0])
    w = s.param(host)
    host.zero_()
    w.value().zero_()
    assert w.value().tolist() == [1.0, 2.0]


@pytest.mark.usefixtures("settled")
def test_a_mirror_is_a_slice_of_the_arena() -> None:
    s = session()
    w = s.param([1.0, 2.0])
    before = counters.live_bytes
    mirror = w.mirror()
    assert counters.live_bytes == before
    assert mirror.tensor.data_ptr() == s.store.masters.flat.data_ptr()
    mirror.release()
    assert w.value().tolist() == [1.0, 2.0]


@pytest.mark.holds("Make a parameter, trainable or frozen")
def test_parameters_made_later_leave_the_earlier_ones_alone() -> None:
    s = session()
    first = s.param([1.0, 2.0])
    x = s.use(first)
    s.sgd_step(1.0, s.backward(s.sum(x)))
    later = [s.param([float(k)] * 100) for k in range(10)]
    s.reset_tape()
    assert s.value(s.use(first)).tolist() == [0.0, 1.0]
    for k, w in enumerate(later):
        assert s.value(s.use(w)).tolist() == [float(k)] * 100


@pytest.mark.holds("After an optimizer step: what is stale, and what stays")
@pytest.mark.parametrize("change", ["set", "set_device", "step"])
def test_backward_over_an_older_version_is_stale(change: str) -> None:
    s = session()
    w = s.param([1.0, 2.0], name="weights")
    loss = s.sum(s.square(s.use(w)))
    if change == "set":
        w.set([3.0, 4.0])
    elif change == "set_device":
        w.set_device(s.upload([3.0, 4.0]))
    else:
        s.sgd_step(1.0, s.backward(loss))
    for run in (s.backward, s.backward_dense):
        with pytest.raises(Stale, match="'weights' was used at version 0 and is at version 1"):
            run(loss)
    s.reset_tape()
    fresh = s.use(w)
    assert s.grad(s.backward(s.sum(fresh)), fresh).tolist() == [1.0, 1.0]


@pytest.mark.holds("After an optimizer step: what is stale, and what stays")
def test_reading_a_leaf_that_an_update_overwrote_is_stale() -> None:
    s = session()
    w = s.param([1.0, 2.0], name="weights")
    x = s.use(w)
    loss, view = s.sum(x), s.reshape(x, shape=(2, 1))
    s.sgd_step(1.0, s.backward(loss))
    assert s.value(loss).item() == 3.0
    assert s.value(view).tolist() == [[1.0], [2.0]]
    with pytest.raises(Stale, match="'weights'"):
        s.value(x)


@pytest.mark.holds("Read a value back")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_leaf_is_stale_by_its_own_parameter_wherever_its_memory_lies(precision: str) -> None:
    s = Session(provider="aten", precision=precision, device="cpu")
    w, other = s.param([1.0, 2.0], name="weights"), s.param([3.0])
    x, y = s.use(w), s.use(other)
    s.sgd_step(1.0, s.backward(s.sum(x)))
    assert s.value(y).tolist() == [3.0]
    s.param([0.0] * 1000)
    with pytest.raises(Stale, match="'weights'"):
        s.value(x)
    assert s.value(y).tolist() == [3.0]
    assert s.value(s.use(w)).tolist() == [0.0, 1.0]


@pytest.mark.holds("Make a parameter, trainable or frozen")
def test_freezing_stops_gradients_and_updates() -> None:
    s = session()
    w, b = s.param([1.0, 2.0]), s.param([1.0, 1.0], requires_grad=False)
    loss = s.sum(s.mul(s.use(w), s.use(b)))
    grads = s.backward(loss)
    w.requires_grad = False
    with pytest.warns(
        Unmoved, match=r"^sgd_step: no parameter was updated: all are frozen$"
    ) as told:
        s.sgd_step(1.0, grads)
    assert told[0].filename == __file__
    assert w.version == b.version == 0
    w.requires_grad = True
    s.sgd_step(1.0, grads)
    assert (w.value().tolist(), w.version, b.version) == ([0.0, 1.0], 1, 0)


def test_a_name_that_was_not_given_is_free() -> None:
    s = session()
    names = [s.param([1.0], name=n).name for n in ("param1", None, "param3", None, None, "", None)]
    assert names == ["param1", "param2", "param3", "param4", "param5", "", "param6"]
    assert [p.name for p in s.params] == names


def test_a_parameter_has_a_name_and_is_trainable_or_frozen() -> None:
    s = session()
    for name in (1, b"w", ["w"], object()):
        with pytest.raises(Rejected, match="param: a name is a str, got"):
            s.param([1.0], name=name)  # type: ignore[arg-type]
        with pytest.raises(Rejected, match="input: a name is a str, got"):
            s.input([1.0], name=name)  # type: ignore[arg-type]
    for flag in ("no", 0, 1, None):
        with pytest.raises(Rejected, match="param 'w': requires_grad is True or False, got"):
            s.param([1.0], name="w", requires_grad=flag)  # type: ignore[arg-type]
        with pytest.raises(Rejected, match="input: requires_grad is True or False, got"):
            s.input([1.0], requires_grad=flag)  # type: ignore[arg-type]
    assert (s.params, s.store._names, len(s._tape), s.store.masters.layout.total) == (
        [],
        set(),
        0,
        0,
    )
    assert s.param([1.0], name="w").requires_grad


def test_a_refused_device_value_names_what_would_be_taken() -> None:
    for precision, made in (("bf16", "fp32"), ("fp64", "fp64")):
        s = Session(provider="aten", precision=precision, device="cpu")
        w = s.param([1.0, 2.0])
        given = s.upload([3.0, 4.0]) if precision == "bf16" else torch.ones(2)
        wanted = rf"fast\.device\.bridge\.upload\(data, '{made}', 'cpu'\)"
        with pytest.raises(Rejected, match=wanted):
            w.set_device(given)
        w.set_device(bridge.upload([3.0, 4.0], made, "cpu"))
        assert w.value().tolist() == [3.0, 4.0]


@pytest.mark.holds(
    "Replace a parameter's device mirror",
    "Sizes are checked before use",
    "Make a parameter, trainable or frozen",
)
def test_refusals_change_nothing() -> None:
    s = session()
    w = s.param([1.0, 2.0], name="w")
    released = s.upload([1.0, 2.0])
    released.release()
    with pytest.raises(Rejected, match=r"shape \(2,\), got \(3,\)"):
        w.set([1.0, 2.0, 3.0])
    with pytest.raises(Rejected, match="rectangular"):
        w.set([[1.0], [2.0, 3.0]])
    with pytest.raises(Rejected, match=r"shape \(2,\), got \(1, 2\)"):
        w.set_device(s.upload([[1.0, 2.0]]))
    with pytest.raises(Rejected, match="float64"):
        w.set_device(torch.zeros(2, dtype=torch.float64))
    with pytest.raises(Rejected, match="list"):
        w.set_device([1.0, 2.0])  # type: ignore[arg-type]
    with pytest.raises(Released):
        w.set_device(released)
    with pytest.raises(Rejected, match="True or False"):
        w.requires_grad = None  # type: ignore[assignment]
    with pytest.raises(Rejected, match="'w' is taken"):
        s.param([1.0], name="w")
    with pytest.raises(SessionError, match="not a parameter of this session"):
        session().use(w)
    assert (w.value().tolist(), w.version, w.current, len(s.params)) == ([1, 2], 0, "host", 1)


def test_a_name_is_given_once() -> None:
    s = session()
    w = s.param([1.0], name="w")
    with pytest.raises(Rejected, match=r"^param 'w': a name is given once, by param\(value, name="):
        w.name = "v"
    assert w.name == "w"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_gradient_of_a_parameter_is_the_sum_over_its_uses(precision: str) -> None:
    s = Session(provider="aten", precision=precision)
    w, v = s.param([2.0, 3.0]), s.param([1.0, 1.0])
    first, second = s.use(w), s.use(w)
    loss = s.sum(first * second * second)
    s.use(v)
    sparse, dense = s.backward(loss), s.backward_dense(loss)
    for grads in (sparse, dense):
        assert s.grad(grads, w).tolist() == [12.0, 27.0]
        assert s.grad(grads, first).tolist() == [4.0, 9.0]
        assert s.grad(grads, second).tolist() == [8.0, 18.0]
        assert s.grad(grads, v).tolist() == [0.0, 0.0]
    before = w.value()
    s.sgd_step(1.0, sparse)
    assert (before - w.value()).tolist() == s.grad(sparse, w).tolist()
