"""The eager tape against torch on a CPU: one thread, interleaved pairs, medians.

Five questions: what a whole training step costs, whether replaying it costs no more, what recording
and propagating a chain of small ops costs, what two pages cost that compute much, and whether the
ten-thousandth node of a tape costs what the hundredth did.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from benchmarks.report import Row, environment, fails, save, show
from benchmarks.targets import (
    CHAIN,
    DROPOUT,
    EAGER,
    EAGER_AS_IT_IS,
    GELU,
    GELU_AS_IT_IS,
    INDUCTOR,
    INDUCTOR_AS_IT_IS,
    REPLAY,
    held,
)
from benchmarks.timing import paired
from fast import OPS, CompiledSession, Session
from fast.commands.digits import images
from fast.commands.networks import NETWORKS, digits_mlp
from fast.device.counters import counters

BATCH, HIDDEN, LR = 32, 128, 1e-3
FLAT_TIME, FLAT_MEMORY = 1.25, 1.1
"""How much more than at 100 nodes a node may cost at 1,000 or 10,000 (a list that grows is not
free of charge, but it has no business being superlinear)."""

DROPPED = {"p": 0.3, "seed": 3, "counter": 1}


def main(path: Path | None, pairs: int) -> int:
    """Measure, print and, if asked, save every row, and name the missed targets.

    The exit code is 1 if one of them is not known to be missed, or is missed by more than is known.
    """
    torch.set_num_threads(1)
    results: dict[str, Any] = {"schema": 1, "environment": environment("cpu"), "rows": []}
    for row in rows(pairs):
        show(row)
        results["rows"].append(row)
        if path is not None:
            save(path, results)
    return int(any(map(fails, results["rows"])))


def rows(pairs: int) -> Iterator[Row]:
    """All rows, cheapest question last."""
    name = "digits training step, eager tape / torch eager"
    yield {
        **versus(name, EAGER, our_step(), their_step(), pairs), **held(EAGER_AS_IT_IS)
    }  # fmt: skip
    yield versus(
        "digits training step, replayed / eager tape", REPLAY, run_step(CompiledSession),
        run_step(Session), pairs,
    )  # fmt: skip
    compiled = run_step(partial(CompiledSession, engine="inductor"))
    name = "digits training step, engine inductor / torch eager"
    yield {
        **versus(name, INDUCTOR, compiled, their_step(), pairs), **held(INDUCTOR_AS_IT_IS)
    }  # fmt: skip
    yield versus(
        "chain of 20 ops, eager tape / torch autograd", CHAIN, our_chain(), their_chain(), pairs
    )
    gelu = passes("gelu", GELU, (256, 512), {}, functional.gelu, pairs)
    yield {**gelu, **held(GELU_AS_IT_IS)}
    yield passes("dropout", DROPOUT, (1024, 64), DROPPED, partial(functional.dropout, p=0.3), pairs)
    yield from per_node(pairs)


def versus(
    name: str, target: float, ours: Callable[[], object], theirs: Callable[[], object], pairs: int
) -> Row:
    """One row of two ways to do one thing."""
    ratio, first, second = paired(ours, theirs, pairs)
    return {
        "name": name,
        "ratio": ratio,
        "target": target,
        "ours_us": first * 1e6,
        "theirs_us": second * 1e6,
        "pairs": pairs,
    }


def passes(
    page: str,
    target: float,
    shape: tuple[int, int],
    attributes: dict[str, Any],
    theirs: Callable[..., torch.Tensor],
    pairs: int,
) -> Row:
    """One row of both passes of a page on ATen, beside torch's function."""
    x, g = torch.randn(shape), torch.randn(shape)
    name = f"{page} of {shape[0]} x {shape[1]}, both passes / torch"
    ours = our_passes(page, attributes, x, g)
    return versus(name, target, ours, their_passes(theirs, x, g), pairs)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """One batch of the handwritten digits."""
    x, labels = images()
    return torch.from_numpy(x[:BATCH]), torch.from_numpy(labels[:BATCH])


def our_step() -> Callable[[], object]:
    """A training step on the eager tape: forward, backward, AdamW, tape reset."""
    session = Session(provider="aten")
    params = [
        session.param(v, name=n) for n, v in NETWORKS["perceptron"].parameters(HIDDEN, 0).items()
    ]
    x, labels = batch()

    def step() -> None:
        w1, b1, w2, b2 = (session.use(p) for p in params)
        loss = digits_mlp(session, w1, b1, w2, b2, session.input(x), labels)
        session.adamw_step(LR, grads=session.backward(loss))
        session.reset_tape()

    return step


def run_step(kind: Callable[..., Session]) -> Callable[[], object]:
    """A training step through `run`, as trainers take it."""
    session = kind(provider="aten")
    params = [
        session.param(v, name=n) for n, v in NETWORKS["perceptron"].parameters(HIDDEN, 0).items()
    ]
    data = batch()

    def step() -> None:
        loss = session.run(digits_mlp, params, data)
        session.adamw_step(LR, grads=session.backward(loss))
        session.reset_tape()

    return step


def their_step() -> Callable[[], object]:
    """The same step in torch eager, with its fused AdamW."""
    arrays = NETWORKS["perceptron"].parameters(HIDDEN, 0).values()
    params = [torch.from_numpy(array).requires_grad_() for array in arrays]
    optimizer = torch.optim.AdamW(params, lr=LR, fused=True)
    x, labels = batch()

    def step() -> None:
        w1, b1, w2, b2 = params
        loss = digits_mlp(functional, w1, b1, w2, b2, x, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def chain(ops: Any, x: Any, y: Any) -> Any:
    """Twenty ops in a row: add, mul, tanh and relu, five times."""
    for _ in range(5):
        x = ops.relu(ops.tanh(ops.mul(ops.add(x, y), y)))
    return x


def our_chain() -> Callable[[], object]:
    """The chain forward and backward on the eager tape."""
    session = Session(provider="aten")
    x, y, seed = (torch.rand(32, 128) for _ in range(3))

    def run() -> None:
        out = chain(session, session.input(x, requires_grad=True), session.input(y))
        session.backward(out, seed).release()
        session.reset_tape()

    return run


def their_chain() -> Callable[[], object]:
    """The chain forward and backward through torch's autograd."""
    x, y, seed = (torch.rand(32, 128) for _ in range(3))

    def run() -> None:
        chain(torch, x.detach().requires_grad_(), y).backward(seed)

    return run


def our_passes(
    page: str, attributes: dict[str, Any], x: torch.Tensor, g: torch.Tensor
) -> Callable[[], object]:
    """Both passes of one page's ATen twin."""
    op = OPS[page]

    def run() -> None:
        _, saved = op.aten_value(x, **attributes)
        op.aten_vjp(saved, g, (True,))

    return run


def their_passes(
    function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, g: torch.Tensor
) -> Callable[[], object]:
    """Both passes of one function through torch's autograd."""

    def run() -> None:
        function(x.detach().requires_grad_()).backward(g)

    return run


def tape_of(nodes: int) -> Callable[[], object]:
    """Record so many nodes, propagate through all of them, and reset."""
    session = Session(provider="aten")
    x, y, seed = (torch.rand(8) for _ in range(3))

    def run() -> None:
        out, other = session.input(x, requires_grad=True), session.input(y)
        for _ in range(nodes):
            out = session.add(out, other)
        session.backward(out, seed).release()
        session.reset_tape()

    return run


def per_node(pairs: int) -> Iterator[Row]:
    """Time and memory of a node on long tapes, against a tape of 100 nodes."""
    base = partial(repeat, tape_of(100))
    for nodes in (1_000, 10_000):
        ratio, ours, theirs = paired(tape_of(nodes), base(nodes // 100), max(5, pairs // 3))
        yield {
            "name": f"time per tape node, {nodes} nodes / 100 nodes",
            "ratio": ratio,
            "target": FLAT_TIME,
            "ours_us": ours / nodes * 1e6,
            "theirs_us": theirs / nodes * 1e6,
        }
    least = memory(100) / 100
    for nodes in (1_000, 10_000):
        most = memory(nodes) / nodes
        yield {
            "name": f"memory per tape node, {nodes} nodes / 100 nodes",
            "ratio": most / least,
            "target": FLAT_MEMORY,
            "ours_bytes": most,
            "theirs_bytes": least,
        }


def repeat(action: Callable[[], object], times: int) -> Callable[[], object]:
    """Do an action so many times."""

    def run() -> None:
        for _ in range(times):
            action()

    return run


def memory(nodes: int) -> float:
    """The peak bytes of Python objects and of buffers while a tape of so many nodes lives."""
    run = tape_of(nodes)
    run()
    counters.reset_peak()
    before = counters.snapshot().live_bytes
    # Last of all: Python's lists of free objects would hide what a short tape needs, and the
    # counters fill them when they are read.
    gc.collect()
    tracemalloc.start()
    run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak + counters.snapshot().peak_bytes - before
