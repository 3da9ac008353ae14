"""Every op that torch has, at three sizes, value and VJP, beside torch eager: one thread, in pairs.

A row is what a user writes: an op on parameters that lie on the device, in a session, and a pass
back from its result with a cotangent. Torch does it by its own call and `backward`. An op without
a gradient is its value alone. Before it is timed, results and gradients are compared with torch's.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.calls import COMPARED, ROWS, Call, call
from benchmarks.engines import APART, RUNS
from benchmarks.report import Row, environment, refused, save, show
from benchmarks.timing import paired
from fast import CompiledSession, Session

Step = Callable[[], None]
"""Computes both passes."""

Read = Callable[[], list[Tensor]]
"""Returns the result and the gradients of the last step."""

ENGINES: dict[str, Callable[..., Session]] = {
    "eager tape": Session,
    "inductor": partial(CompiledSession, engine="inductor"),
}


def main(
    path: Path | None, pairs: int, ops: Sequence[str], sizes: Sequence[str], names: Sequence[str]
) -> int:
    """Time these ops at these sizes by these engines, all where none are named, and print rows.

    Rows that a file holds already are kept, unless they are timed anew. A name that is not known
    is refused with exit code 2; misses of targets are shown.
    """
    if refused(("ops", ops, COMPARED), ("sizes", sizes, ROWS), ("engines", names, ENGINES)):
        return 2
    torch.set_num_threads(1)
    kept: dict[str, Row] = {}
    if path is not None and path.exists():
        kept = {row["name"]: row for row in json.loads(path.read_text("utf-8"))["rows"]}
    about = environment("cpu")
    for row in rows(pairs, ops or COMPARED, sizes or [*ROWS], names or [*ENGINES]):
        show(row)
        kept[row["name"]] = {**row, "commit": about["commit"], "date": about["date"]}
        if path is not None:
            save(path, {"schema": 1, "environment": about, "rows": [*kept.values()]})
    return 0


def rows(
    pairs: int, ops: Sequence[str], sizes: Sequence[str], names: Sequence[str], many: int = RUNS
) -> Iterator[Row]:
    """One row for each op, size and engine, of so many runs."""
    for op in ops:
        for size in sizes:
            found = call(op, size)
            base, theirs_read = theirs(found)
            base()
            for name in names:
                step, read = ours(found, ENGINES[name])
                step()
                compare(found, name, read(), theirs_read())
                runs = sorted(paired(step, base, pairs) for _ in range(many))
                ratio, own, other = runs[many // 2]
                yield {
                    "name": f"{op}, {size}: {name} / torch eager",
                    "op": op,
                    "size": size,
                    "shapes": [[*x.shape] for x in found.inputs],
                    "passes": 1 if found.cotangent is None else 2,
                    "engine": name,
                    "ratio": ratio,
                    "spread": [runs[0][0], runs[-1][0]],
                    "target": None,
                    "ours_us": own * 1e6,
                    "theirs_us": other * 1e6,
                    "pairs": pairs,
                }


def ours(found: Call, kind: Callable[..., Session]) -> tuple[Step, Read]:
    """Both passes in a session; numbers are parameters, indices are data, and state is buffers."""
    session = kind(provider="aten")
    every, moving = [*enumerate(found.inputs)], found.moving
    params = [session.param(x) for k, x in every if moving[k]]
    others = [x for x in found.inputs if not x.is_floating_point()]
    held = {k: session.buffer(x) for k, x in every if k in found.buffers}
    seed = found.cotangent
    last: list[Any] = []

    def program(ops: Any, *taken: Any) -> Any:
        numbers, rest = iter(taken[: len(params)]), iter(taken[len(params) :])
        inputs = [
            held[k] if k in held else next(numbers) if moves else next(rest)
            for k, moves in enumerate(moving)
        ]
        made = getattr(ops, found.op)(*inputs, **found.attributes)
        return functools.reduce(ops.add, made) if isinstance(made, tuple) else made

    def step() -> None:
        out = session.run(program, params, others)
        grads = None if seed is None else session.backward(out, seed)
        if isinstance(session, CompiledSession):
            session.settle()
        if grads is not None and last and last[1] is not None:
            last[1].release()
        last[:] = out, grads

    def read() -> list[Tensor]:
        out, grads = last
        gradients = [] if grads is None else [session.grad(grads, p) for p in params]
        return [session.value(out), *gradients]

    return step, read


def theirs(found: Call) -> tuple[Step, Read]:
    """Both passes by torch's call."""
    inputs = found.copies()
    seed = found.cotangent
    leaves = [x for x, moves in zip(inputs, found.moving, strict=True) if moves]
    for leaf in leaves:
        leaf.requires_grad_(seed is not None)
    last: list[Tensor] = []

    def step() -> None:
        for leaf in leaves:
            leaf.grad = None
        out = found.torch(*inputs, **found.attributes)
        if seed is not None:
            out.backward(seed)
        last[:] = [out]

    def read() -> list[Tensor]:
        gradients = [] if seed is None else [leaf.grad for leaf in leaves]
        return [last[0].detach(), *(torch.zeros(()) if g is None else g for g in gradients)]

    return step, read


def compare(found: Call, name: str, own: Sequence[Tensor], other: Sequence[Tensor]) -> None:
    """Raise RuntimeError where results or gradients are apart; drawn ones differ."""
    if found.drawn:
        return
    for mine, yours in zip(own, other, strict=True):
        first, second = mine.double(), yours.double()
        if not (first - second).abs().max() <= APART * (1.0 + second.abs().max()):
            raise RuntimeError(f"{found.op}, {found.size}: {name} and torch differ")
