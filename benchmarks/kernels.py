"""Each op's Triton kernels against torch's own, at sizes that training meets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import torch

from benchmarks.report import Row
from fast import ops
from fast.kernels.page import Op

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Workload:
    """One op at one size: the shapes of its inputs, and for an index input how many it may name."""

    op: Op
    shapes: tuple[Shape, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    index: int | None = None
    classes: int = 0


BIG: Shape = (8192, 4096)
VOCABULARY = 50304
ENTRYWISE = [op for op in ops.OPS.values() if op.entrywise and not op.index_inputs]
WORKLOADS = (
    *(Workload(op, (BIG,) * len(op.inputs)) for op in ENTRYWISE),
    Workload(ops.sum.op, (BIG,), {"axes": (1,)}),
    Workload(ops.max.op, (BIG,), {"axes": (1,)}),
    Workload(ops.broadcast_to.op, ((4096,),), {"shape": BIG}),
    Workload(ops.permute.op, (BIG,), {"axes": (1, 0)}),
    Workload(ops.take.op, ((VOCABULARY, 768), (16384,)), {"axis": 0}, index=1, classes=VOCABULARY),
    Workload(
        ops.scatter_add.op,
        ((VOCABULARY, 768), (16384,), (16384, 768)),
        {"axis": 0},
        index=1,
        classes=VOCABULARY,
    ),
    Workload(ops.slice.op, (BIG,), {"axis": 1, "start": 1024, "length": 2048}),
    Workload(ops.concat.op, (BIG, BIG), {"axis": 1}),
    Workload(ops.matmul.op, ((4096, 4096), (4096, 4096))),
    Workload(ops.linear.op, ((16384, 768), (3072, 768), (3072,))),
    Workload(ops.softmax.op, (BIG,)),
    Workload(ops.log_softmax.op, (BIG,)),
    Workload(ops.layer_norm.op, ((16384, 1024), (1024,), (1024,))),
    Workload(ops.cross_entropy.op, ((8192, VOCABULARY), (8192,)), index=1, classes=VOCABULARY),
)


def inputs(workload: Workload, dtype: torch.dtype, device: str, shrink: int) -> list[torch.Tensor]:
    """Random inputs, positive so that log and div have nothing to complain of."""
    made = []
    torch.manual_seed(0)
    for k, shape in enumerate(workload.shapes):
        small = tuple(max(1, extent // shrink) for extent in shape)
        if k == workload.index:
            top = max(1, workload.classes // shrink)
            made.append(torch.randint(top, small, device=device))
        else:
            made.append((torch.rand(small, device=device) + 0.5).to(dtype))
    return made


def compare(workload: Workload, dry_run: bool) -> Iterator[Row]:
    """Yield a row for the value and one for the VJP, in both dtypes that training uses."""
    op = workload.op
    device, shrink = ("cpu", 512) if dry_run else ("cuda", 1)
    attributes: dict[str, Any] = dict(op.attributes) | workload.attributes
    for name in ("start", "length") if dry_run and op is ops.slice.op else ():
        attributes[name] //= shrink
    if dry_run and "shape" in attributes:
        attributes["shape"] = tuple(max(1, extent // shrink) for extent in attributes["shape"])
    for dtype in (torch.float32, torch.bfloat16):
        given = inputs(workload, dtype, device, shrink)
        needs = [k not in op.index_inputs for k in range(len(given))]
        actions: dict[str, dict[str, Callable[[], object]]] = {"value": {}, "vjp": {}}
        for provider in ("triton", "aten"):
            value, vjp = op.hosts(provider)
            forward = partial(value, *given, **attributes)
            output, saved = forward()
            actions["value"][provider] = forward
            actions["vjp"][provider] = partial(vjp, saved, torch.rand_like(output), needs)
        for direction, by in actions.items():
            ours, theirs = interleaved(by["triton"], by["aten"], 1 if dry_run else 20)
            yield {
                "name": f"{op.name} {direction} {str(dtype).removeprefix('torch.')}",
                "shapes": [list(t.shape) for t in given],
                "ratio": ours / theirs,
                "target": None,
                "ours_ms": ours,
                "theirs_ms": theirs,
            }


def interleaved(
    ours: Callable[[], object], theirs: Callable[[], object], pairs: int
) -> tuple[float, float]:
    """The median milliseconds of each, timed in turn after a warm-up."""
    for action in (ours, theirs) * (3 if pairs > 1 else 0):
        action()
    times = [(milliseconds(ours), milliseconds(theirs)) for _ in range(pairs)]
    return median(t[0] for t in times), median(t[1] for t in times)


def milliseconds(action: Callable[[], object]) -> float:
    """The time of one call by the device's own clock, or by the host's where there is no device."""
    if not torch.cuda.is_available():
        start = perf_counter()
        action()
        return (perf_counter() - start) * 1e3
    event: Any = torch.cuda.Event
    begin, end = event(enable_timing=True), event(enable_timing=True)
    begin.record()
    action()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))
