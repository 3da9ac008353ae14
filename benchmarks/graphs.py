"""Whole steps as CUDA graphs, beside replays of the same kernels: the same bits, and how long.

Both take the same steps from the same start. A work counts only where every loss and parameter is
equal, bit for bit; then a step is timed as a user writes it, in turn with a replayed one.
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

PAIRS = 20
LR = 1e-3
MOST_NORM = 1.0


class Training:
    """One engine at work on a GPU, or on a CPU for a dry run."""

    def __init__(self, work: Work, device: str, engine: str) -> None:
        """Start with the work's parameters; an engine that cannot run here is Unavailable."""
        self.session = CompiledSession(provider="triton", engine=engine, device=device)
        self.params = [self.session.param(value) for value in work.parameters()]
        self.data = tuple(torch.from_numpy(part).to(device) for part in work.data())
        self.work = work
        self.loss: Any = None

    def step(self) -> None:
        """Take a step with clipping; nothing is read on the host."""
        self.loss = self.session.run(self.work.ours, self.params, self.data)
        grads = self.session.backward(self.loss)
        self.session.adamw_step(LR, grads=grads, max_norm=MOST_NORM)

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
