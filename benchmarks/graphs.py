"""Whole steps as CUDA graphs: the same bits as a replay's, and how long they and torch's take.

Graph and replay take the same steps from the same start. A work counts only where every loss and
parameter is equal, bit for bit; then a step is timed as a user writes it, in turn with a replayed
one. Then one without clipping is timed in turn with two of torch's: eager with its fused AdamW, and
the same step as one graph that is captured by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.report import Row
from benchmarks.timing import paired
from benchmarks.works import WORKS, Work
from fast import CompiledSession

STEPS = 8
"""So many steps both take first: a graph is captured in the third, and then started."""

WARM = 3
"""So many steps torch takes before one is captured."""

APART = 1e-3
"""How far, relative to torch's, a loss after those steps may be: a net that is wired otherwise
differs by more."""

PAIRS = 20
LR = 1e-3
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


def rows(dry_run: bool) -> Iterator[Row]:
    """Compare and time each work; a dry run takes a replay for a graph, and times nothing."""
    device, engine = ("cpu", "replay") if dry_run else ("cuda", "graph")
    for work in WORKS[:1] if dry_run else WORKS:
        name = f"{work.name}: one graph / replay, whole step"
        yield compared(name, partial(Training, work, device), engine, dry_run)
        if not dry_run:
            yield from beside_torch(work)


def beside_torch(work: Work) -> Iterator[Row]:
    """Time a graph in turn with torch eager, and with a graph of torch's; each starts anew."""
    for name, make in (("torch eager", eager), ("a graph of torch's", captured)):
        row: Row = {"name": f"{work.name}: one graph / {name}, whole step"}
        try:
            mine, theirs = Training(work, "cuda", "graph", None), make(work)
            for _ in range(STEPS):
                mine.step()
                found = theirs()
            if not work.draws:
                torch.testing.assert_close(mine.seen()[0], found, rtol=APART, atol=0.0)
            ratio, own, its = paired(mine.timed, partial(waited, theirs), PAIRS)
        except Exception as error:
            yield {**row, "status": "error", "error": f"{type(error).__name__}: {error}"}
            continue
        yield {
            **row, "status": "equal", "ratio": ratio, "target": None, "ours_us": own * 1e6,
            "theirs_us": its * 1e6,
        }  # fmt: skip


def eager(work: Work, capturable: bool = False) -> Callable[[], Tensor]:
    """Torch's step, with its fused AdamW; it returns the loss, which nobody reads on the host."""
    params = [torch.from_numpy(value).cuda().requires_grad_() for value in work.parameters()]
    data = tuple(torch.from_numpy(part).cuda() for part in work.data())
    rules = {"lr": LR, "weight_decay": 1e-2, "fused": True, "capturable": capturable}
    optimizer = torch.optim.AdamW(params, **rules)

    def step() -> Tensor:
        loss: Tensor = work.torch(*params, *data)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def captured(work: Work) -> Callable[[], Tensor]:
    """The same step of torch's as one graph, captured as its manual says."""
    step = eager(work, capturable=True)
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(WARM):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    taken = iter([loss] * WARM)

    def replay() -> Tensor:
        # Steps that were taken to warm up are not taken again, so that losses compare.
        if next(taken, None) is None:
            graph.replay()
        return loss

    return replay


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
