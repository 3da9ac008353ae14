"""Whole steps as CUDA graphs, on a stand-in for a GPU: bit for bit what a replay does.

The stand-in repeats what a graph would (emulated.py). That a real one does the same is for `make
gpu` to show.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fast import CompiledSession, Unavailable
from fast.compiled.graph import captured
from tests.fast.compiled.emulated import Emulator

pytestmark = pytest.mark.slow


def net(ops: Any, w: Any, b: Any, v: Any, x: Any, labels: Any) -> Any:
    hidden = ops.dropout(ops.linear(x, w, b), p=0.25, seed=5)
    return ops.cross_entropy(hidden @ v, labels)


def started(engine: str, precision: str = "fp32") -> tuple[CompiledSession, list[Any]]:
    session = CompiledSession("triton", precision, "cpu", engine=engine)
    numbers = np.random.default_rng(0)
    shapes = {"w": (4, 3), "b": (4,), "v": (4, 3)}
    return session, [session.param(numbers.normal(size=s), name=n) for n, s in shapes.items()]


def batch(step: int, rows: int = 4) -> list[Any]:
    numbers = np.random.default_rng(step)
    return [numbers.normal(size=(rows, 3)), numbers.integers(0, 3, size=rows)]


def adamw(session: CompiledSession, params: list[Any], step: int, grads: Any) -> None:
    session.adamw_step(0.1 / (1 + step), grads=grads)


def clipped(session: CompiledSession, params: list[Any], step: int, grads: Any) -> None:
    session.adam_step(0.01, grads=grads, max_norm=0.125, grad_scale=2.0)


def plain(session: CompiledSession, params: list[Any], step: int, grads: Any) -> None:
    session.sgd_step(0.1 / (1 + step), grads=grads)


def momentum(session: CompiledSession, params: list[Any], step: int, grads: Any) -> None:
    groups = [{"params": params[:1], "lr": 0.5 / (1 + step)}]
    session.sgd_step(0.1, grads=grads, momentum=0.5, groups=groups)


def trained(
    engine: str, update: Callable[..., None], steps: int = 5, shapes: int = 1
) -> list[Tensor]:
    session, params = started(engine)
    found: list[Any] = []
    for step in range(steps):
        loss = session.run(net, params, batch(step, 4 + step % shapes))
        update(session, params, step, session.backward(loss))
        found += [session.value(loss), *[p.value() for p in params]]
    return found


replayed = cache(partial(trained, "replay"))


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("update", [adamw, clipped, momentum])
def test_steps_are_those_of_a_replay(emulator: Emulator, update: Callable[..., None]) -> None:
    assert same(trained("graph", update), replayed(update))
    assert emulator.captures == 1 and emulator.starts > 1


def test_16_bits_have_masters(emulator: Emulator) -> None:
    seen = []
    for engine in ("graph", "replay"):
        session, params = started(engine, "bf16")
        found: list[Any] = []
        for step in range(5):
            loss = session.run(net, params, batch(step))
            plain(session, params, step, session.backward(loss))
            found += [session.value(loss), *[p.value() for p in params]]
        seen.append(found)
    assert same(*seen)
    assert emulator.captures == 1


def test_each_shape_has_a_graph(emulator: Emulator) -> None:
    assert same(trained("graph", plain, 8, 2), replayed(plain, 8, 2))
    assert emulator.captures == 2 and emulator.starts > 2


def test_what_is_asked_for_before_the_update_is_there(emulator: Emulator) -> None:
    seen = []
    for engine in ("graph", "replay"):
        session, params = started(engine)
        found = []
        for step in range(5):
            loss = session.run(net, params, batch(step))
            if step == 1:
                found.append(session.value(loss))
            grads = session.backward(loss)
            if step in (2, 4):
                found.append(session.grad(grads, params[0]))
            plain(session, params, step, grads)
            if step == 3:
                params[1].set(np.ones(4))
            found += [session.value(loss), *[p.value() for p in params]]
        seen.append(found)
    assert same(*seen)


def test_pieces_of_a_batch_and_tied_parameters(emulator: Emulator) -> None:
    seen = []
    for engine in ("graph", "replay"):
        session, (w, b, v) = started(engine)
        found: list[Any] = []
        for step in range(7):
            params = [w, b, v] if step < 5 else [w, b, w]
            grads = session.backward(session.run(net, params, batch(step)))
            grads = session.backward(session.run(net, params, batch(step + 1)), into=grads)
            plain(session, params, step, grads)
            found += [p.value() for p in (w, b, v)]
        seen.append(found)
    assert same(*seen)
    assert emulator.captures == 1


def test_gradients_that_are_held_stay_what_they_were(emulator: Emulator) -> None:
    session, params = started("graph")
    other, others = started("replay")
    held, kept = [], []
    for step in range(5):
        for s, p, into in ((session, params, held), (other, others, kept)):
            grads = s.backward(s.run(net, p, batch(step)))
            adamw(s, p, step, grads)
            into.append((s, grads, p))
    for (s, grads, p), (t, expected, q) in zip(held, kept, strict=True):
        assert torch.equal(s.grad(grads, p[2]), t.grad(expected, q[2]))


@pytest.mark.parametrize("position", [3, 4, 5], ids=["data", "labels", "counter"])
def test_data_that_are_baked_in_are_seen(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch, position: int
) -> None:
    real = captured.Graph.run

    def planted(self: captured.Graph, given: list[Tensor]) -> list[Tensor]:
        kept = self._fixed[position]
        return real(self, [kept if k == position else t for k, t in enumerate(given)])

    monkeypatch.setattr(captured.Graph, "run", planted)
    assert not same(trained("graph", plain), replayed(plain))


def test_a_rate_that_is_baked_in_is_seen(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fast.optim import _hypers

    real = _hypers.HyperTable.write

    def planted(self: Any, hypers: Any) -> None:
        if not self._written:
            real(self, hypers)

    expected = replayed(plain)
    monkeypatch.setattr(_hypers.HyperTable, "write", planted)
    assert not same(trained("graph", plain), expected)


def test_a_device_without_graphs_is_refused() -> None:
    with pytest.raises(Unavailable, match=r"engine 'graph': it captures .* engine 'replay' runs"):
        CompiledSession(provider="aten", engine="graph", device="cpu")
