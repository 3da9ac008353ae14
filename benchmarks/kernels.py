"""Each op's Triton kernels against torch's own, at sizes that training meets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from benchmarks.calls import call_of
from benchmarks.report import Row
from fast import OPS
from fast.kernels.page import Op

BIG = (8192, 4096)
"""Rows and columns of numbers, where an op has no size of its own below."""

SIDE = 4096
SMALL = (16, 16)
"""What a dry run takes instead, of everything."""

VOCABULARY = 50304
TRAINED: dict[str, Callable[[str], tuple[Tensor, ...]]] = {
    "take": lambda on: (_near_one(on, VOCABULARY, 768), _below(on, VOCABULARY, 16384)),
    "embedding": lambda on: (_below(on, VOCABULARY, 16384), _near_one(on, VOCABULARY, 768)),
    "scatter_add": lambda on: (
        _near_one(on, VOCABULARY, 768),
        _below(on, VOCABULARY, 16384),
        _near_one(on, 16384, 768),
    ),
    "linear": lambda on: (
        _near_one(on, 16384, 768),
        _near_one(on, 3072, 768),
        _near_one(on, 3072),
    ),
    "linear_activation": lambda on: (
        _near_one(on, 16384, 768),
        _near_one(on, 3072, 768),
        _near_one(on, 3072),
    ),
    "layer_norm": lambda on: (_near_one(on, 16384, 1024), *_lines(on, 2)),
    "rms_norm": lambda on: (_near_one(on, 16384, 1024), *_lines(on, 1)),
    "batch_norm": lambda on: (_near_one(on, 128, 256, 32, 32), *_lines(on, 4, 256)),
    "group_norm": lambda on: (_near_one(on, 128, 256, 32, 32), *_lines(on, 2, 256)),
    "cross_entropy": lambda on: (_near_one(on, 8192, VOCABULARY), _below(on, VOCABULARY, 8192)),
}
"""Inputs of the sizes that training meets, by op: of a language model, or of a convolution's."""

ATTRIBUTES: dict[str, dict[str, Any]] = {"group_norm": {"groups": 32}}
"""Those that go with such inputs, where they differ."""


def inputs(op: Op, dtype: torch.dtype, dry_run: bool) -> tuple[list[Tensor], dict[str, Any]]:
    """Return an op's inputs on the device and its attributes; numbers lie between 3/4 and 5/4."""
    on = "cpu" if dry_run else "cuda"
    extents, side = (SMALL, SMALL[0]) if dry_run else (BIG, SIDE)
    found = call_of(op.name, "GPU", extents, side)
    attributes = {name: value for name, value in found.attributes.items() if name in op.attributes}
    given: Sequence[Tensor] = found.inputs
    if op.name in TRAINED and not dry_run:
        given = TRAINED[op.name](on)
        attributes |= ATTRIBUTES.get(op.name, {})
    if "counter" in op.attributes:
        attributes["counter"] = 0
    place = {"dtype": dtype, "device": torch.device(on)} if op.source else {}
    moved = [x.to(on, dtype if x.is_floating_point() else None) for x in given]
    bound, attributes = op.bind(moved, attributes)
    op.check(*bound, **attributes, **place)
    return [*bound], {**attributes, **place}


def _near_one(on: str, *shape: int) -> Tensor:
    return torch.rand(shape, device=on) / 2 + 0.75


def _below(on: str, top: int, *shape: int) -> Tensor:
    return torch.randint(top, shape, device=on)


def _lines(on: str, count: int, extent: int = 1024) -> tuple[Tensor, ...]:
    return tuple(_near_one(on, extent) for _ in range(count))


def rows(name: str, dry_run: bool) -> list[Row]:
    """Return the rows of the op of a name."""
    return list(compare(OPS[name], dry_run))


def compare(op: Op, dry_run: bool) -> Iterator[Row]:
    """Yield a row for the value and one for the VJP, in both dtypes that training uses."""
    for dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(0)
        given, attributes = inputs(op, dtype, dry_run)
        moving = [x.is_floating_point() and k not in op.buffers for k, x in enumerate(given)]
        actions: dict[str, dict[str, Callable[[], object]]] = {"value": {}}
        for provider in ("triton", "aten"):
            value, vjp = op.hosts(provider)
            actions["value"][provider] = partial(value, *given, **attributes)
            if any(moving) and not op.stops_gradients:
                output, saved = value(*given, **attributes)
                turn = partial(vjp, saved, _cotangent(op, output), moving)
                actions.setdefault("vjp", {})[provider] = turn
        for direction, by in actions.items():
            pairs = 1 if dry_run else 20
            ours, theirs = interleaved(by["triton"], by["aten"], pairs)
            hosts = {provider: preparing(action, pairs) for provider, action in by.items()}
            yield {
                "name": f"{op.name} {direction} {str(dtype).removeprefix('torch.')}",
                "shapes": [list(t.shape) for t in given],
                "ratio": ours / theirs,
                "target": None,
                "ours_ms": ours,
                "theirs_ms": theirs,
                "ours_host_us": hosts["triton"],
                "theirs_host_us": hosts["aten"],
            }


def _cotangent(op: Op, made: Any) -> Any:
    """Return a cotangent of a result, or one of each of several that can have one."""
    if op.results == 1:
        return torch.ones_like(made[0] if isinstance(made, tuple) else made)
    several = enumerate(made[: op.results])
    return tuple(None if k in op.fixed else torch.ones_like(one) for k, one in several)


def interleaved(
    ours: Callable[[], object], theirs: Callable[[], object], pairs: int
) -> tuple[float, float]:
    """The median milliseconds of each, timed in turn after a warm-up."""
    for action in (ours, theirs) * (3 if pairs > 1 else 0):
        action()
    times = [(milliseconds(ours), milliseconds(theirs)) for _ in range(pairs)]
    return median(t[0] for t in times), median(t[1] for t in times)


def preparing(action: Callable[[], object], calls: int) -> float:
    """The microseconds in which the host prepares one call, while nothing is waited for."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    wait()
    times = []
    for _ in range(calls):
        start = perf_counter()
        action()
        times.append(perf_counter() - start)
    wait()
    return median(times) * 1e6


@cache
def _cover() -> Tensor:
    """A gibibyte of the device, which takes a third of a millisecond to fill."""
    return torch.empty(2**28, device="cuda")


def milliseconds(action: Callable[[], object]) -> float:
    """The time of one call by the device's own clock, or by the host's where there is no device.

    First the device is given memory to fill that nobody asks for. Meanwhile the host prepares the
    launches, which are not what is measured, and caches forget the operands.
    """
    if not torch.cuda.is_available():
        start = perf_counter()
        action()
        return (perf_counter() - start) * 1e3
    event: Any = torch.cuda.Event
    begin, end = event(enable_timing=True), event(enable_timing=True)
    _cover().zero_()
    begin.record()
    action()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))
