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

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Workload:
    """One op at one size: the shapes of its inputs, and for an index input how many it may name."""

    op: str
    shapes: tuple[Shape, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    index: int | None = None
    classes: int = 0


BIG: Shape = (8192, 4096)
WORKLOADS = (
    *(Workload(op, (BIG, BIG)) for op in ("add", "sub", "mul", "div")),
    *(Workload(op, (BIG,)) for op in ("square", "exp", "log", "tanh", "relu")),
    Workload("sum", (BIG,), {"axes": (1,)}),
    Workload("max", (BIG,), {"axes": (1,)}),
    Workload("broadcast_to", ((4096,),), {"shape": BIG}),
    Workload("permute", (BIG,), {"axes": (1, 0)}),
    Workload("take", ((50304, 768), (16384,)), {"axis": 0}, index=1, classes=50304),
    Workload(
        "scatter_add", ((50304, 768), (16384,), (16384, 768)), {"axis": 0}, index=1, classes=50304
    ),
    Workload("slice", (BIG,), {"axis": 1, "start": 1024, "length": 2048}),
    Workload("concat", (BIG, BIG), {"axis": 1}),
    Workload("matmul", ((4096, 4096), (4096, 4096))),
    Workload("linear", ((16384, 768), (3072, 768), (3072,))),
    Workload("softmax", (BIG,)),
    Workload("log_softmax", (BIG,)),
    Workload("layer_norm", ((16384, 1024), (1024,), (1024,))),
    Workload("cross_entropy", ((8192, 50304), (8192,)), index=1, classes=50304),
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
    from fast.ops import OPS

    op = OPS[workload.op]
    device, shrink = ("cpu", 512) if dry_run else ("cuda", 1)
    attributes: dict[str, Any] = dict(op.attributes) | workload.attributes
    for name in ("start", "length") if dry_run and workload.op == "slice" else ():
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
                "name": f"{workload.op} {direction} {str(dtype).removeprefix('torch.')}",
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
