"""Whole steps as CUDA graphs: the same bits as a replay's, and how long they and torch's take.

Graph and replay take the same steps from the same start. A work counts only where every loss and
parameter is equal, bit for bit; then a step is timed as a user writes it, in turn with a replayed
one. Then one without clipping is timed in turn with two of torch's: eager with its fused AdamW, and
the same step as one graph that is captured by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.engines import APART, LR, torch_step
from benchmarks.report import Row
from benchmarks.timing import paired
from benchmarks.works import WORKS, Work
from fast import CompiledSession

STEPS = 8
"""So many steps both take first: a graph is captured in the third, and then started."""

WARM = 3
"""So many steps torch takes before one is captured."""

PAIRS = 20
MOST_NORM = 1.0


class Training:
    """One engine at work on a GPU, or on a CPU for a dry run."""

    def __init__(
        self, work: Work, device: str, engine: str, most: float | None = MOST_NORM
    ) -> None:
        """Start with the work's parameters; an engine that cannot run here is Unavailable.

        Gradients are clipped to the norm `most`, if it is one.
        """
        self.most = most
        self.session = CompiledSession(provider="triton", engine=engine, device=device)
        self.params = [self.session.param(value) for value in work.parameters()]
        self.data = tuple(torch.from_numpy(part).to(device) for part in work.data())
        self.work = work
        self.loss: Any = None

    def step(self) -> None:
        """Take a step; nothing is read on the host."""
        self.loss = self.session.run(self.work.ours, self.params, self.data)
        grads = self.session.backward(self.loss)
        self.session.adamw_step(LR, grads=grads, max_norm=self.most)

    def timed(self) -> None:
        """Take a step, and wait for it."""
        self.step()
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def seen(self) -> list[Tensor]:
        """Read the loss and the parameters."""
        return [self.session.value(self.loss), *[p.value() for p in self.params]]


def calls(dry_run: bool) -> Iterator[tuple[str, Callable[..., list[Row]], tuple[Any, ...]]]:
    """Yield what there is to do: the name of a row, and what returns it.

    A dry run takes a replay for a graph, and times nothing.
    """
    for at, work in enumerate(WORKS[:1] if dry_run else WORKS):
        yield f"{work.name}: one graph / replay, whole step", beside_replay, (at, dry_run)
        for other in () if dry_run else THEIRS:
            yield f"{work.name}: one graph / {other}, whole step", beside_torch, (at, other)


def beside_replay(at: int, dry_run: bool) -> list[Row]:
    """Compare a work's graph with its replay."""
    device, engine = ("cpu", "replay") if dry_run else ("cuda", "graph")
    name = f"{WORKS[at].name}: one graph / replay, whole step"
    return [compared(name, partial(Training, WORKS[at], device), engine, dry_run)]


def beside_torch(at: int, other: str) -> list[Row]:
    """Time a work's graph in turn with a step of torch's; both start anew, and clip nothing."""
    work = WORKS[at]
    mine, theirs = Training(work, "cuda", "graph", None), THEIRS[other](work)
    for _ in range(STEPS):
        mine.step()
        found = theirs()
    if not work.draws:
        torch.testing.assert_close(mine.seen()[0].cpu(), found.detach().cpu(), rtol=APART, atol=0.0)
    ratio, own, its = paired(mine.timed, partial(waited, theirs), PAIRS)
    row = {"name": f"{work.name}: one graph / {other}, whole step", "status": "equal"}
    return [{**row, "ratio": ratio, "target": None, "ours_us": own * 1e6, "theirs_us": its * 1e6}]


def captured(work: Work) -> Callable[[], Tensor]:
    """The same step of torch's as one graph, captured as its manual says."""
    step = torch_step(work, device="cuda", capturable=True)
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(WARM):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    return Replay(graph, loss, step)


class Replay:
    """A graph's start, which keeps what the graph reads and writes: the closure of its step."""

    def __init__(self, graph: Any, loss: Tensor, step: Callable[[], Tensor]) -> None:
        """Take a graph that has not been started yet, after as many steps as warmed it up."""
        self.graph, self.loss, self.step = graph, loss, step
        self.taken = WARM

    def __call__(self) -> Tensor:
        """Start the graph, but for the steps that are taken already, so that losses compare."""
        if self.taken:
            self.taken -= 1
        else:
            self.graph.replay()
        return self.loss


THEIRS: Mapping[str, Callable[[Work], Callable[[], Tensor]]] = {
    "torch eager": partial(torch_step, device="cuda"),
    "a graph of torch's": captured,
}
"""The steps of torch's that a graph is timed beside."""


def waited(step: Callable[[], object]) -> None:
    """Take a step, and wait for it."""
    step()
    torch.cuda.synchronize()


def compared(name: str, start: Callable[[str], Training], engine: str, dry_run: bool) -> Row:
    """Take steps by both engines, compare them bit for bit, and time them."""
    try:
        ours, theirs = start(engine), start("replay")
        for step in range(1 if dry_run else STEPS):
            ours.step()
            theirs.step()
            if not all(map(torch.equal, ours.seen(), theirs.seen())):
                return {"name": name, "status": "differs", "step": step}
        if dry_run:
            return {"name": name, "status": "equal", "steps": 1}
        ratio, mine, its = paired(ours.timed, theirs.timed, PAIRS)
    except Exception as error:
        return {"name": name, "status": "error", "error": f"{type(error).__name__}: {error}"}
    return {
        "name": name,
        "status": "equal",
        "steps": STEPS,
        "ratio": ratio,
        "target": None,
        "ours_us": mine * 1e6,
        "theirs_us": its * 1e6,
    }
