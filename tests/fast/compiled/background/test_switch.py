"""The engine "auto": a replay until artifacts arrive, and the same numbers across the change.

Nothing is compiled beside these tests: what is asked for is noted, and arrives when a test lets it.
The numbers are small integers and quarters, for which every order of a sum gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fast import CompiledSession, Session, Stale, checkpoint
from fast.compiled import artifacts, inductor
from fast.compiled.background.compiler import Compiler
from tools.engine_features import FEATURES, ONE, Feature, parameters, session_of, squares

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("inductor"),
    pytest.mark.usefixtures("cache"),
]

Asked = dict[str, Callable[[], bytes]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Note what sessions want compiled; what a test removes from here has been."""
    found: Asked = {}

    def start(self: Compiler, key: str, graph: Any, given: Any) -> None:
        found[key] = lambda: inductor.built(graph, given)

    monkeypatch.setattr(Compiler, "start", start)
    monkeypatch.setattr(Compiler, "ready", lambda self, key: key not in found)
    return found


def arrive(asked: Asked) -> None:
    for key, make in [*asked.items()]:
        artifacts.fetch(key, make)
        del asked[key]


def program(ops: Any, w: Any, b: Any, x: Any, labels: Any, mask: Any) -> Any:
    """A layer whose numbers stay integers and halves: a mask, a draw, a constant, labels."""
    rows = (x.shape[0], 4)
    hidden = ops.relu(ops.linear(x, w, b)) * 0.5
    known = ops.where(mask, hidden, ops.constant(2.0, rows))
    kept = ops.dropout(known, p=0.5, seed=3) + ops.bernoulli_mask(keep_prob=0.5, shape=rows, seed=4)
    scores = kept @ w
    return ops.sum(ops.square(ops.take(scores, labels, axis=0))), scores


def data(rows: int, shift: int) -> list[Any]:
    x = np.arange(3.0 * rows).reshape(rows, 3) % 5 - 2 + shift % 2
    return [x, np.array([0, shift % rows, 1]), np.indices((rows, 4)).sum(0) % 3 != shift % 3]


def both(**options: Any) -> list[tuple[Any, list[Any]]]:
    sessions = (CompiledSession("aten", engine="auto", **options), Session("aten", **options))
    return [(session, parameters(session)) for session in sessions]


def trained(session: Any, params: list[Any], rows: int, step: int) -> list[Any]:
    """Take a step with momentum, groups, clipping and a scale, and tell everything after it."""
    loss, scores = session.run(program, params, data(rows, step))
    group = {"params": [params[1]], "lr": 2.0**-6 * (step % 3), "weight_decay": 0.5}
    hyper = {"momentum": 0.5, "groups": [group], "max_norm": 2.0**20, "grad_scale": 2.0}
    session.sgd_step(2.0**-5, session.backward(loss), **hyper)
    return [session.value(loss), session.value(scores), *told(session, params)]


def told(session: Any, params: list[Any]) -> list[Any]:
    states = [session.optimizer_state("sgd", p)["momentum_buffer"] for p in params]
    counts = [session.random_counter, *(p.version for p in params)]
    return [*(p.value() for p in params), *states, torch.tensor(counts)]


def level(params: list[Any]) -> None:
    """Bring parameters back to quarters, which also writes them by other means than a step."""
    for p in params:
        p.set((p.value().clamp(-4, 4) * 4).round() / 4)


def same(ours: list[Any], theirs: list[Any]) -> bool:
    return len(ours) == len(theirs) and all(map(torch.equal, ours, theirs))


def stale(session: Any, params: list[Any]) -> None:
    """Ask for what the artifact of a step that was taken has not kept: it is not made up."""
    loss, _ = session.run(program, params, data(2, 0))
    group = {"params": [params[1]], "weight_decay": 0.5}
    hyper = {"momentum": 0.5, "groups": [group], "max_norm": 2.0**20, "grad_scale": 2.0}
    session.sgd_step(2.0**-5, session.backward(loss), **hyper)
    assert session.engines[-1][0] == "inductor"
    known = session.value(loss)
    with pytest.raises(Stale):
        session.backward_dense(loss)
    assert session.value(loss) == known


def test_a_training_goes_on_bit_for_bit_when_an_artifact_takes_over(
    asked: Asked, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Two shapes take turns, of which one is compiled, so that the engines change at each step."""
    (session, params), (eager, others) = both()
    kept: list[list[Any]] = []
    for step in range(12):
        rows = 2 + step % 2
        if step == 6:
            assert len(asked) == 2 and session.engines == (("replay", 6),)
            one, *_ = asked  # The other never arrives.
            artifacts.fetch(one, asked.pop(one))
        kept.append(trained(session, params, rows, step))
        assert same(kept[-1], trained(eager, others, rows, step)), step
        if step % 3 == 2:
            level(params)
            level(others)
        if step == 8:
            checkpoint.save(tmp_path / "c", session)
    turns = (("inductor", 1), ("replay", 1)) * 3
    assert session.engines == (("replay", 6), *turns)
    assert capfd.readouterr().err == (
        "engine: inductor takes over from replay: both passes and sgd is compiled\n"
    )
    stale(session, params)
    checkpoint.load(tmp_path / "c", session)
    assert session.engines == (("replay", 6), *turns[:3])
    for step in range(9, 12):
        assert same(trained(session, params, 2 + step % 2, step)[:2], kept[step][:2])
    (other, fresh), (last, ended) = both()
    for s in (other, last):
        checkpoint.load(tmp_path / "c", s)
    for step in range(9, 12):
        assert same(
            trained(other, fresh, 2 + step % 2, step), trained(last, ended, 2 + step % 2, step)
        )


@pytest.mark.parametrize("feature", FEATURES, ids=lambda f: f.name)
def test_until_an_artifact_arrives_it_is_a_replay(feature: Feature, asked: Asked) -> None:
    """Each line of the table of docs/interpreters.md, also what the engine alone refuses."""
    found = []
    for engine in ("auto", None):
        session = session_of(feature, engine)
        found.append([*feature.training(session, parameters(session)), session.random_counter])
    for ours, theirs in zip(*found, strict=True):
        assert torch.equal(torch.as_tensor(ours), torch.as_tensor(theirs))


def looked(session: Any, params: list[Any], order: str) -> list[Any]:
    """Ask for a value, a pass and an update in an order."""
    found = []
    loss, scores = session.run(program, params, data(3, 1))
    if order == "value first":
        found.append(session.value(scores))
    if order == "seed":
        grads = session.backward(loss, seed=0.5)
    elif order == "an op after it":
        grads = session.backward(loss + session.sum(scores * 2.0))
    else:
        grads = session.backward(loss)
    if order == "gradients looked at":
        found += [session.grad(grads, p) for p in params]
    session.sgd_step(2.0**-5, grads)
    return [*found, session.value(loss), *(p.value() for p in params)]


ORDERS = ("value first", "seed", "an op after it", "gradients looked at", "at last")


@pytest.mark.parametrize("order", ORDERS)
def test_whoever_asks_first_is_given_the_same(order: str, asked: Asked) -> None:
    (session, params), (eager, others) = both()
    for _ in range(4):
        assert same(looked(session, params, order), looked(eager, others, order))
        level(params)
        level(others)
    assert asked, "what such a step needs has been asked for"
    assert session.engines == (("replay", 4),)


def test_a_counter_that_is_set_after_a_run_stays(asked: Asked) -> None:
    (session, params), (eager, others) = both()
    for _ in range(3):
        for s, own in ((session, params), (eager, others)):
            loss, _ = s.run(program, own, data(3, 0))
            s.random_counter = 100
            s.sgd_step(2.0**-5, s.backward(loss))
            assert s.random_counter == 100
        assert same([p.value() for p in params], [p.value() for p in others])


@pytest.mark.full
def test_every_artifact_may_arrive_at_any_time(asked: Asked) -> None:
    """All orders in one session, which are all compiled: forward passes, both, and whole steps."""
    (session, params), (eager, others) = both()
    for turn in range(4):
        for order in ORDERS:
            assert same(looked(session, params, order), looked(eager, others, order)), (turn, order)
            level(params)
            level(others)
        # What a look before the pass leaves to compile is asked for once the look is compiled.
        if turn in (1, 2):
            arrive(asked)
            session._compiler.engines.clear()  # type: ignore[union-attr]
    assert session.engines == (("inductor", len(ORDERS)),)


def test_the_plan_is_the_replays_until_there_is_an_artifact(asked: Asked) -> None:
    (session, params), _ = both()
    for _ in range(2):
        session.value(session.run(squares, params, [np.ones((3, 3))]))
    assert session.plan().parts[0].title == "forward pass, replayed"
    assert ONE in {feature.runs for feature in FEATURES}
