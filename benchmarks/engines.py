"""Whole training steps by every engine, and updates alone: ours, torch's and JAX's. One thread.

A step is what a user writes: data of the host are handed in, both passes and AdamW are run, and the
loss stays where it is. Every engine is timed in turn with torch eager and its fused AdamW, in this
process. Before that each takes a few steps, and its losses are compared with torch eager's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from benchmarks.report import Row, environment, refused, save, show, version
from benchmarks.timing import made_in_turn, paired
from benchmarks.works import WORKS, Work
from fast import CompiledSession, Session
from fast import torch as fast_torch

LR, BETAS, EPS, DECAY = 1e-3, (0.9, 0.999), 1e-8, 1e-2
STEPS = 5
"""So many steps each engine takes before it is timed, and its losses are looked at."""

RUNS = 5
"""So often everything is timed; the median run is shown, and the least and the greatest ratio."""

APART = 1e-3
"""How far, relative to torch eager's, the last of those losses may be: a net that is wired
otherwise differs by more. That each step is right is the judge's to say."""

Step = Callable[[], object]
Engine = Callable[[Work], tuple[Step, Callable[[], float]]]
"""Returns a step, and how the loss of the last one is read."""


def ours(work: Work, kind: Callable[..., Session]) -> tuple[Step, Callable[[], float]]:
    """A session of ours; the loss is read after the update."""
    session = kind(provider="aten")
    params = [session.param(value) for value in work.parameters()]
    data = tuple(map(torch.from_numpy, work.data()))
    last: list[Any] = [None]

    def step() -> None:
        last[0] = session.run(work.ours, params, data)
        session.adamw_step(LR, grads=session.backward(last[0]))

    return step, lambda: float(session.value(last[0]))


def eager(work: Work, loss: Callable[..., Any] | None = None) -> tuple[Step, Callable[[], float]]:
    """Torch, with its fused AdamW; `loss` may be a compiled one."""
    taken = torch_step(work, loss)
    last: list[Any] = [None]

    def step() -> None:
        last[0] = taken()

    return step, lambda: float(last[0].detach())


def torch_step(
    work: Work,
    loss: Callable[..., Any] | None = None,
    device: str = "cpu",
    capturable: bool = False,
) -> Callable[[], torch.Tensor]:
    """Torch's step, with its fused AdamW; it returns the loss, and reads nothing on the host."""
    program = loss or work.torch
    params = [torch.from_numpy(value).to(device).requires_grad_() for value in work.parameters()]
    data = tuple(torch.from_numpy(part).to(device) for part in work.data())
    optimizer = torch.optim.AdamW(params, LR, BETAS, EPS, DECAY, fused=True, capturable=capturable)

    def step() -> torch.Tensor:
        found: torch.Tensor = program(*params, *data)
        optimizer.zero_grad(set_to_none=True)
        found.backward()
        optimizer.step()
        return found

    return step


def compiled_loss(work: Work) -> tuple[Step, Callable[[], float]]:
    """torch.compile of the loss, and torch's fused AdamW."""
    return eager(work, torch.compile(work.torch))


def compiled_step(work: Work) -> tuple[Step, Callable[[], float]]:
    """torch.compile of a whole step that is a function: gradients by torch.func, AdamW by hand."""
    count = len(work.shapes)

    @torch.compile
    def whole(rates: Any, params: Any, first: Any, second: Any, x: Any, labels: Any) -> Any:
        grads, loss = torch.func.grad_and_value(lambda p: work.torch(*p, x, labels))(params)
        return loss, *adamw(rates, params, grads, first, second, torch.sqrt)

    held = [torch.from_numpy(value) for value in work.parameters()]
    moments = [[torch.zeros_like(p) for p in held] for _ in range(2)]
    data = tuple(map(torch.from_numpy, work.data()))
    state: dict[str, Any] = {"step": 0, "params": held, "moments": moments, "loss": None}

    def step() -> None:
        state["step"] += 1
        rates = torch.from_numpy(rates_of(state["step"]))
        found = whole(rates, state["params"], *state["moments"], *data)
        state["loss"], after = found[0], found[1:]
        state["params"] = list(after[:count])
        state["moments"] = [list(after[count : 2 * count]), list(after[2 * count :])]

    return step, lambda: float(state["loss"])


def jax_step(work: Work) -> tuple[Step, Callable[[], float]]:
    """JAX's jit of a whole step, with donated buffers and data of the host."""
    import jax

    def whole(rates: Any, key: Any, params: Any, first: Any, second: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(lambda p: work.jax(key, *p, x, y))(params)
        count = len(params)
        after = adamw(rates, params, grads, first, second, jax.numpy.sqrt)
        return loss, after[:count], after[count : 2 * count], after[2 * count :]

    run = jax.jit(whole, donate_argnums=(2, 3, 4))
    params = [jax.numpy.array(value) for value in work.parameters()]
    zeros = [[jax.numpy.zeros_like(p) for p in params] for _ in range(2)]
    data, key = work.data(), jax.random.key(0)
    state: dict[str, Any] = {"step": 0, "held": (params, *zeros), "loss": None}

    def step() -> None:
        state["step"] += 1
        rates = rates_of(state["step"])
        folded = jax.random.fold_in(key, state["step"]) if work.draws else key
        state["loss"], *state["held"] = run(rates, folded, *state["held"], *data)
        state["loss"].block_until_ready()

    return step, lambda: float(state["loss"])


def rates_of(step: int) -> np.ndarray:
    """What AdamW multiplies by at a step, formed in double."""
    rate = LR / (1 - BETAS[0] ** step)
    return np.array([rate, (1 - BETAS[1] ** step) ** 0.5, 1 - LR * DECAY], np.float32)


def adamw(rates: Any, params: Any, grads: Any, first: Any, second: Any, sqrt: Any) -> list[Any]:
    """AdamW of all parameters, in the dialect of torch or JAX: parameters, then both moments."""
    first = [m + (1 - BETAS[0]) * (g - m) for m, g in zip(first, grads, strict=True)]
    second = [v * BETAS[1] + (1 - BETAS[1]) * g * g for v, g in zip(second, grads, strict=True)]
    moved = [
        p * rates[2] - rates[0] * m / (sqrt(v) / rates[1] + EPS)
        for p, m, v in zip(params, first, second, strict=True)
    ]
    return [*moved, *first, *second]


ENGINES: dict[str, Engine] = {
    "eager tape": partial(ours, kind=Session),
    "replay": partial(ours, kind=CompiledSession),
    "inductor": partial(ours, kind=partial(CompiledSession, engine="inductor")),
    "torch.compile, loss": compiled_loss,
    "torch.compile, step": compiled_step,
    "JAX jit, step": jax_step,
}
"""All engines but torch eager, beside which each is timed."""

TARGETS = {
    ("digits", "inductor"): 0.20,
    ("normed", "inductor"): 0.55,
    ("784-1024-1024-10", "inductor"): 1.03,
}
"""What ours are held to, beside torch eager."""


def main(
    path: Path | None, pairs: int, works: Sequence[str] = (), names: Sequence[str] = ()
) -> int:
    """Time every engine on every work; print, and if asked save, each row. Misses are shown.

    Works and engines may be named; then those alone are timed, and updates only where the work
    "updates" is named. A name that is not known is refused with exit code 2.
    """
    all_works = [*(work.name for work in WORKS), UPDATES]
    if refused(("works", works, all_works), ("engines", names, ENGINES)):
        return 2
    # One core for all: XLA's threads, which no setting of ours counts, stay on it, too.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    about = {**environment("cpu"), "jax": version("jax")}
    results: dict[str, Any] = {"schema": 1, "environment": about, "rows": []}
    results["updates"] = []
    chosen = [work for work in WORKS if not works or work.name in works]
    parts = [("rows", steps(pairs, chosen, names or [*ENGINES]))]
    if not works or UPDATES in works:
        parts.append(("updates", updates(pairs)))
    for kind, found in parts:
        for row in found:
            show(row)
            results[kind].append(row)
            if path is not None:
                save(path, results)
    return 0


def steps(pairs: int, works: Sequence[Work], names: Sequence[str]) -> Iterator[Row]:
    """All rows of these works by these engines."""
    for work in works:
        yield from rows(work, pairs, names)


UPDATES = "updates"
"""What updates alone are called where works are named."""


UPDATED: dict[str, tuple[list[tuple[int, ...]], float | None]] = {
    "10^5 parameters": ([(100_000,)], None),
    "10^6 parameters": ([(1_000, 1_000)], None),
    "10^7 parameters": ([(1_000, 10_000)], 1.05),
    "2,000 tensors of 16": ([(16,)] * 2_000, 0.7),
}
"""What an update alone is timed on, and what ours is held to beside torch's fused one."""


def updates(pairs: int) -> Iterator[Row]:
    """One row for each: fast.torch.AdamW beside torch's own, both fused and in place."""
    for name, (shapes, target) in UPDATED.items():
        ours = partial(an_update, partial(fast_torch.AdamW, provider="aten"), shapes)
        theirs = partial(an_update, partial(torch.optim.AdamW, fused=True), shapes)
        runs = sorted(made_in_turn(ours, theirs, pairs) for _ in range(RUNS))
        ratio, own, other = runs[RUNS // 2]
        yield {
            "name": f"AdamW of {name}: fast.torch / torch fused",
            "work": name,
            "ratio": ratio,
            "spread": [runs[0][0], runs[-1][0]],
            "target": target,
            "ours_us": own * 1e6,
            "theirs_us": other * 1e6,
            "pairs": pairs,
        }


def an_update(kind: Callable[..., Any], shapes: list[tuple[int, ...]]) -> Step:
    """A step of an optimizer whose gradients are there."""
    draw = torch.Generator().manual_seed(0)
    params = [torch.randn(shape, generator=draw).requires_grad_() for shape in shapes]
    for parameter in params:
        parameter.grad = torch.randn(parameter.shape, generator=draw)
    step: Step = kind(params, lr=LR).step
    return step


def rows(work: Work, pairs: int, names: Sequence[str], many: int = RUNS) -> Iterator[Row]:
    """All rows of a work by these engines, of so many runs; what is not installed has none."""
    base, read = eager(work)
    known = taken(base, read)
    for name in names:
        torch.compiler.reset()
        try:
            step, loss = ENGINES[name](work)
        except ImportError as error:
            print(f"{work.name}: {name}: left out, {error}", flush=True)
            continue
        start = perf_counter()
        step()
        first = perf_counter() - start
        found = taken(step, loss, STEPS - 1)
        if not work.draws and abs(found - known) > APART * abs(known):
            raise RuntimeError(f"{work.name}: {name}: the loss is {found}, and torch's {known}")
        runs = sorted(paired(step, base, pairs) for _ in range(many))
        ratio, own, theirs = runs[many // 2]
        yield {
            "name": f"{work.name}: {name} / torch eager",
            "work": work.name,
            "engine": name,
            "ratio": ratio,
            "spread": [runs[0][0], runs[-1][0]],
            "target": TARGETS.get((work.name, name)),
            "ours_us": own * 1e6,
            "theirs_us": theirs * 1e6,
            "first_step_s": first,
            "loss": found,
            "pairs": pairs,
        }


def taken(step: Step, loss: Callable[[], float], count: int = STEPS) -> float:
    """Take so many steps, and return the loss of the last one."""
    for _ in range(count):
        step()
    return loss()
