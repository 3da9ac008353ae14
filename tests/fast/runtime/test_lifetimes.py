"""Whole lives of a session, read off the counters: who owns what, until when, and what crosses."""

from __future__ import annotations

import gc
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from fast import OPS, Rejected, Released, Session, SessionError, Stale, counters
from fast.device import bridge
from fast.session import Ref

PROVIDERS = ["aten", "triton"]


def session(provider: str = "aten", precision: str = "fp32") -> Session:
    return Session(provider=provider, precision=precision, device="cpu")


def held() -> tuple[int, int]:
    """Return the bytes and the buffers that are owned now."""
    now = counters.snapshot()
    return now.live_bytes, now.live_buffers


@pytest.mark.holds("What crosses between host and device")
@pytest.mark.usefixtures("settled")
def test_the_counters_are_public() -> None:
    before = counters.snapshot()
    s = session()
    s.value(s.input([1.0, 2.0]))
    after = counters.snapshot()
    assert after.live_bytes > before.live_bytes
    assert after.live_buffers > before.live_buffers
    assert after.allocations > before.allocations
    assert after.peak_bytes >= after.live_bytes
    assert after.host_transfers - before.host_transfers == 2
    assert (after.uploads - before.uploads, after.downloads - before.downloads) == (1, 1)
    assert counters.host_transfers == after.host_transfers


ALIASES: dict[str, Callable[[Session, Ref], Ref]] = {
    "reshape": lambda s, x: s.reshape(x, shape=(3, 2)),
    "flatten": lambda s, x: s.reshape(x, shape=(6,)),
    "detach": lambda s, x: s.detach(x),
    "permute": lambda s, x: s.permute(x, axes=(1, 0)),
    "broadcast": lambda s, x: s.broadcast_to(x, shape=(2, 3)),
    "all of them": lambda s, x: s.detach(s.reshape(s.permute(x, axes=(1, 0)), shape=(6,))),
    "the leaf itself": lambda s, x: x,
}


@pytest.mark.holds("Free a tape's values, keep the mirrors")
@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_alias_lets_a_reset_free_a_mirror(provider: str) -> None:
    s = session(provider)
    w = s.param([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    s.use(w)
    s.reset_tape()
    before, uploads, address = held(), counters.uploads, w.mirror().tensor.data_ptr()
    for name, alias in ALIASES.items():
        for _ in range(2):
            with s.backward(s.sum(s.square(alias(s, s.use(w))))) as grads:
                assert len(grads) == 1
            s.reset_tape()
        s.collect()
        assert held() == before, name
    assert w.mirror().tensor.data_ptr() == address
    assert s.value(s.use(w)).tolist() == w.value().tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert counters.uploads == uploads, "the mirror was never uploaded again"


@pytest.mark.holds("Release a buffer")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_view_that_outlives_its_tape_is_no_ones_to_free(precision: str) -> None:
    s = session(precision=precision)
    w = s.param([1.0, 2.0])
    mirror = w.mirror()
    s.use(w)
    s.reset_tape()
    mirror.release()
    mirror.release()
    assert w.value().tolist() == [1.0, 2.0]
    assert w.mirror().tensor.tolist() == [1.0, 2.0]
    with pytest.raises(Released, match="of the parameter 'param0'"):
        _ = mirror.tensor


@pytest.mark.holds("Use a parameter, once or more often")
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("form", ["backward", "backward_dense"])
@pytest.mark.parametrize("optimizer", ["sgd_step", "adamw_step"])
def test_two_uses_add_up_and_make_one_update(provider: str, form: str, optimizer: str) -> None:
    steps: list[Any] = []
    for twice in (False, True):
        s = session(provider)
        w = s.param([1.0, 2.0])
        first = s.use(w)
        second = s.use(w) if twice else first
        loss = s.sum(s.mul(s.mul(first, second), second))
        with getattr(s, form)(loss) as grads:
            if twice:
                assert s.grad(grads, first).tolist() == [1.0, 4.0]
                assert s.grad(grads, second).tolist() == [2.0, 8.0]
            else:
                assert s.grad(grads, first).tolist() == [3.0, 12.0]
            getattr(s, optimizer)(0.25, grads=grads)
        assert w.version == 1
        state = s.optimizer_state(optimizer.removesuffix("_step"), w)
        assert state.get("step") in (None, 1), "one step, however many uses"
        steps.append((w.value().tolist(), str(state)))
    assert steps[0] == steps[1]


@pytest.mark.holds("Take one contribution to a leaf")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_contributions_that_are_aliases_add_up_in_memory_of_their_own(provider: str) -> None:
    s = session(provider)
    w = s.param([[1.0, 2.0], [3.0, 4.0]])
    x = s.use(w)
    y = s.add(x, x)
    z = s.add(s.reshape(y, shape=(4,)), s.reshape(s.permute(x, axes=(1, 0)), shape=(4,)))
    seed = torch.tensor([1.0, 2.0, 3.0, 4.0])
    for _ in range(2):
        with s.backward(z, seed) as sparse, s.backward_dense(z, seed) as dense:
            assert s.grad(sparse, x).tolist() == s.grad(dense, x).tolist() == [[3, 7], [8, 12]]
            sparse[x].tensor.zero_()
            assert s.grad(dense, x).tolist() == [[3, 7], [8, 12]]
            dense[y].tensor.zero_()
            assert s.grad(dense, z).tolist() == seed.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert w.value().tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.holds("Release gradients, on any exit")
@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("form", ["backward", "backward_dense"])
def test_an_error_anywhere_in_a_pass_releases_what_it_had_made(form: str) -> None:
    s = session()
    w, b = s.use(s.param([[1.0, 2.0]])), s.use(s.param([3.0]))
    h = s.relu(s.linear(s.input([[1.0, 2.0]]), w, b))
    loss = s.sum(s.mul(h, h))
    getattr(s, form)(loss).release()
    before = held()
    rules = s._tape.rules
    for name in ("linear", "relu", "mul", "sum"):
        at = next(k for k, rule in enumerate(rules) if rule and rule[0] is OPS[name].aten_vjp)
        plain = rules[at]
        assert plain is not None
        rules[at] = (_breaking(name, plain[0]), *plain[1:])
        with pytest.raises(RuntimeError, match=f"{name} broke") as caught:
            getattr(s, form)(loss)
        # The traceback, and with it every frame, is still alive here.
        assert caught.value.__traceback__ is not None
        assert held() == before
        rules[at] = plain
    with getattr(s, form)(loss) as grads:
        assert grads.reached(w)
        assert grads.reached(b)


def _breaking(name: str, vjp: Any) -> Any:
    """Run a rule, and raise when it has made its cotangents."""

    def broken(*arguments: Any) -> Any:
        vjp(*arguments)
        raise RuntimeError(f"{name} broke")

    return broken


@pytest.mark.holds("Gradients of the trainable leaves")
def test_gradients_added_to_an_earlier_pass_go_when_it_fails() -> None:
    s = session()
    w = s.param([1.0, 2.0])
    first = s.backward(s.sum(s.use(w)))
    s.reset_tape()
    loss = s.sum(s.square(s.use(w)))
    w.set([3.0, 4.0])
    with pytest.raises(Stale):
        s.backward(loss, into=first)
    assert not first.released, "a pass that was refused before it began changes nothing"
    s.reset_tape()
    loss = s.sum(s.square(s.use(w)))
    s._tape.rules[1] = (None, *s._tape.rules[1][1:])  # type: ignore[index]
    with pytest.raises(TypeError):
        s.backward(loss, into=first)
    assert first.released
    with pytest.raises(Released):
        s.sgd_step(1.0, first)
    assert w.value().tolist() == [3.0, 4.0]


@pytest.mark.holds("Release gradients, on any exit")
@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("leave", [None, KeyError, KeyboardInterrupt])
@pytest.mark.parametrize("form", ["backward", "backward_dense"])
def test_gradients_are_released_on_any_exit(form: str, leave: type[BaseException] | None) -> None:
    s = session()
    x = s.use(s.param([1.0, 2.0]))
    y = s.input([3.0], requires_grad=True)
    loss = s.add(s.sum(s.square(x)), s.sum(y))
    getattr(s, form)(loss).release()
    before = held()
    try:
        with getattr(s, form)(loss) as grads:
            inside = [grads[x], grads[y]]
            assert held()[0] > before[0]
            if leave is not None:
                raise leave
    except BaseException as error:
        assert type(error) is leave
    assert grads.released
    assert all(buffer.released for buffer in inside)
    grads.release()
    assert held() == before
    for use in (lambda: grads[x], lambda: s.grad(grads, y), lambda: s.sgd_step(1.0, grads)):
        with pytest.raises(Released):
            use()


@pytest.mark.holds("Release a buffer")
@pytest.mark.usefixtures("settled")
def test_everything_that_is_released_may_be_released_again() -> None:
    s = session()
    x = s.use(s.param([1.0, 2.0]))
    loss = s.sum(s.square(x))
    buffer = s.upload([1.0])
    before = held()
    gradients = [s.backward(loss), s.backward_dense(loss)]
    owned = [buffer.owned_copy(), *gradients, *(g[x] for g in gradients)]
    for thing in (*owned, *reversed(owned), *owned):
        thing.release()
        assert thing.released
    live = held()
    s.collect()
    assert held()[0] <= live[0]
    assert buffer.tensor.tolist() == [1.0]
    assert held()[1] <= before[1] + 1


@pytest.mark.holds("Gradients of every entry on the device, with a seed or from a scalar loss")
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kind", ["buffer", "tensor"])
def test_a_retained_seed_stays_usable(provider: str, kind: str) -> None:
    s = session(provider)
    w = s.param([1.0, 2.0])
    data = [3.0, 5.0]
    seed: Any = s.upload(data) if kind == "buffer" else torch.tensor(data)
    for _ in range(3):
        x = s.use(w)
        for out in (x, s.add(x, x), s.reshape(x, shape=(2,)), s.mul(x, x)):
            # The seed itself arrives at the leaf, and would be added to, were it not copied.
            grads = s.backward(out, seed)
            with s.backward(s.add(s.reshape(out, shape=(2,)), x), seed, into=grads):
                pass
            with s.backward_dense(out, seed) as dense:
                dense[out].tensor.zero_()
        s.reset_tape()
        assert (seed.tensor if kind == "buffer" else seed).tolist() == data
    if kind == "buffer":
        assert not seed.released
        seed.release()
        with pytest.raises(Released):
            s.backward(s.use(w), seed)


@pytest.mark.holds("After an optimizer step: what is stale, and what stays")
@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("change", ["set", "set_device", "sgd_step", "adamw_step"])
@pytest.mark.parametrize("form", ["backward", "backward_dense"])
def test_a_stale_version_raises_and_makes_nothing(change: str, form: str) -> None:
    s = session()
    w, other = s.param([1.0, 2.0], name="w"), s.param([5.0], name="other")
    y = s.use(other)
    early = s.sum(s.square(y))
    loss = s.sum(s.square(s.use(w)))
    if change in ("set", "set_device"):
        value: Any = [3.0, 4.0] if change == "set" else s.upload([3.0, 4.0])
        getattr(w, change)(value)
    else:
        with s.backward(loss) as grads:
            getattr(s, change)(0.5, grads=grads)
    before = held()
    with pytest.raises(Stale, match="'w' was used at version 0 and is at version 1"):
        getattr(s, form)(loss)
    assert held() == before
    with getattr(s, form)(early) as grads:
        assert s.grad(grads, y).tolist() == [10.0], "what w does not feed is not stale"


@pytest.mark.holds("After an optimizer step: what is stale, and what stays")
@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_step_frees_stale_values_and_keeps_every_mirror(provider: str) -> None:
    s = session(provider)
    w, frozen = s.param([1.0, 2.0]), s.param([3.0, 4.0], requires_grad=False)
    idle = s.param([5.0])

    def step() -> None:
        x = s.input([1.0, 1.0])
        loss = s.sum(s.square(s.add(s.mul(s.use(w), s.use(frozen)), x)))
        s.use(idle)
        with s.backward(loss) as grads:
            s.sgd_step(2.0**-6, grads, momentum=0.5)
        s.reset_tape()

    step()
    before, address = held(), frozen.mirror().tensor.data_ptr()
    uploads, downloads = counters.uploads, counters.downloads
    for _ in range(5):
        step()
    assert held() == before
    assert (counters.uploads - uploads, counters.downloads - downloads) == (5, 0)
    assert frozen.mirror().tensor.data_ptr() == address
    assert (w.version, frozen.version, idle.version) == (6, 0, 0)
    assert (frozen.value().tolist(), idle.value().tolist()) == ([3.0, 4.0], [5.0])


@pytest.mark.holds("Free a tape's values, keep the mirrors")
@pytest.mark.usefixtures("settled")
def test_a_reset_frees_what_ops_saved_as_well() -> None:
    s = session()
    w = s.param([[1.0, 2.0, 3.0]])
    s.use(w)
    s.reset_tape()
    before = held()
    x = s.use(w)
    # Of these the rules keep more than inputs and results.
    y = s.layer_norm(s.softmax(x), s.input([1.0] * 3), s.input([0.0] * 3))
    s.cross_entropy(y, [1], label_smoothing=0.25)
    s.nat_vec([1, 2])
    assert held()[0] > before[0]
    s.reset_tape()
    assert held() == before


@pytest.mark.holds("Return memory to the system")
@pytest.mark.usefixtures("settled")
def test_collecting_gives_spare_memory_back_and_changes_nothing() -> None:
    one, two = session(), session()
    found = []
    for s, collects in ((one, True), (two, False)):
        w = s.param([1.0, 2.0] * 100)
        for _ in range(3):
            with s.backward(s.sum(s.square(s.use(w)))) as grads:
                s.adamw_step(0.5, grads=grads)
            s.reset_tape()
            if collects:
                before = held()
                s.collect()
                # The gradients' memory alone was spare.
                assert before[0] - held()[0] >= 800
                s.collect()
        found.append(w.value().tolist())
    assert found[0] == found[1]


@pytest.mark.holds("A session: its options, its tape, its parameters, its naturals")
@pytest.mark.usefixtures("settled")
def test_a_session_that_is_dropped_leaves_nothing() -> None:
    before = held()
    s = session(precision="bf16")
    w = s.param([1.0, 2.0])
    loss = s.sum(s.use(w))
    grads, dense = s.backward(loss), s.backward_dense(loss)
    s.adamw_step(grads=grads)
    assert held()[0] > before[0]
    del s, w, loss, grads, dense
    gc.collect()
    assert held() == before


@pytest.mark.holds("Upload, download, one number")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (3, 3.0),
        (-0.5, -0.5),
        (Fraction(1, 3), 1 / 3),
        # By way of fewer digits this would round to 1.
        (1 + Fraction(1, 2**53) + Fraction(1, 2**90), 1 + 2.0**-52),
        (2**60 + 1, float(2**60)),
        (np.float32(0.25), 0.25),
        (np.array([[4.0]]), 4.0),
        (torch.tensor(5.0), 5.0),
        (bridge.upload([6.0]), 6.0),
    ],
)
def test_one_number_is_read_as_a_float(given: Any, expected: float) -> None:
    assert bridge.to_float(given) == expected


@pytest.mark.holds("Upload, download, one number")
def test_what_is_not_one_number_is_refused() -> None:
    for data in (torch.ones(2), np.zeros(0), bridge.upload([1.0, 2.0])):
        with pytest.raises(Rejected, match="to_float: one number is needed, got the shape"):
            bridge.to_float(data)
    for data in ("1", True, None, 1j):
        with pytest.raises(Rejected, match="numbers of the world"):
            bridge.to_float(data)
    released = bridge.upload([1.0])
    released.release()
    for read in (bridge.to_float, bridge.download):
        with pytest.raises(Released):
            read(released)
    with pytest.raises(Rejected, match="unknown dtype 'int8'; there are fp32"):
        bridge.upload([1.0], dtype="int8")


@pytest.mark.holds("Upload, download, one number")
def test_a_download_is_the_callers() -> None:
    buffer = bridge.upload([[1.0, 2.0]], dtype="bf16")
    host = bridge.download(buffer)
    assert (host.dtype, tuple(host.shape)) == (torch.bfloat16, (1, 2))
    host.zero_()
    assert bridge.download(buffer).tolist() == [[1.0, 2.0]]
    buffer.release()
    assert host.tolist() == [[0.0, 0.0]]


@pytest.mark.holds("Look a gradient up")
def test_gradients_name_what_they_do_not_know() -> None:
    s = session()
    x = s.use(s.param([1.0, 2.0]))
    loss = s.sum(x)
    sparse, dense = s.backward(loss), s.backward_dense(loss)
    later = s.input([1.0])
    for read, message in (
        (lambda: s.grad(dense, later), "there is no entry 2; the tape had 2"),
        (lambda: dense[-1], "there is no entry -1"),
        (lambda: s.grad(sparse, loss), r"node 1 is not a trainable leaf .* the leaves are \[0\]"),
        (lambda: s.grad(sparse, later), "node 2 is not a trainable leaf"),
    ):
        with pytest.raises(Rejected, match=message):
            read()
    s.reset_tape()
    with pytest.raises((Rejected, SessionError), match="of another session or of a tape"):
        s.grad(sparse, s.use(s.params[0]))


@pytest.mark.usefixtures("settled")
def test_a_rule_that_returns_another_shape_is_refused_naming_both() -> None:
    s = session()
    loss = s.sum(s.square(s.use(s.param([1.0, 2.0]))))
    before = held()
    plain = s._tape.rules[1]
    assert plain is not None
    s._tape.rules[1] = (lambda *given: (torch.ones(3),), *plain[1:])
    with pytest.raises(Rejected, match=r"node 1 .* shape \(3,\) .* 0, whose shape is \(2,\)"):
        s.backward(loss)
    s.collect()
    assert held()[0] <= before[0]
