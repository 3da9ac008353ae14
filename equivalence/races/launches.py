"""Launches of any Triton kernel, seen where Triton itself starts them, and executed instead.

Our own hosts launch through `fast.device.launch`. A stranger's host launches its kernel directly,
by `kernel[grid](...)`, through an autotuner or through heuristics. All of these end in
`JITFunction.run`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from equivalence.blame import Refused
from equivalence.races import detector
from equivalence.races.detector import Watch

Execute = Callable[[Any, tuple[int, ...], Sequence[Any], dict[str, Any]], None]

TARGET = "sm_90"
"""TTIR differs by target only where a kernel asks for it, and none of ours does."""


class NoLaunch(Refused):
    """Nothing was watched, so nothing is known; the message says what to do."""


@contextmanager
def watching() -> Iterator[Watch]:
    """Watch every launch of a Triton kernel in this process while the block runs.

    Faulty ends the launch that has a race or a wrong address. A launch computes its result, on the
    CPU. An autotuned kernel is executed in each of its configurations, on the same tensors.
    NoLaunch says that the block launched nothing, or that kernels of this process are interpreted
    or run on a device, where no launch can be watched.
    """
    _need_compiling()
    from fast.binaries import driving

    driving.stand_in(TARGET)
    with detector.watching() as watch, hooked(watch):
        yield watch
    if not watch.launches:
        raise NoLaunch(
            "no launch of a Triton kernel was seen, so nothing is known of races; call the host of "
            "the kernel inside the block, on tensors that have elements"
        )


def _need_compiling() -> None:
    """Refuse a process whose kernels are not compiled only."""
    from fast.device.mode import COMPILE_TARGET, ring

    if ring() != "compiled":
        raise NoLaunch(
            f"kernels are {ring()} in this process, and their launches cannot be watched; set "
            f"{COMPILE_TARGET}={TARGET} in the environment, and remove TRITON_INTERPRET from it, "
            "before anything imports triton"
        )


@contextmanager
def hooked(execute: Execute) -> Iterator[None]:
    """Put an execution in the place of Triton's own launches and benchmarks."""
    jit: Any = importlib.import_module("triton.runtime.jit").JITFunction
    tuner: Any = importlib.import_module("triton.runtime.autotuner").Autotuner
    before = jit.run, tuner._bench

    def run(kernel: Any, *args: Any, grid: Any, warmup: bool = False, **meta: Any) -> None:
        whole = _grid(kernel, grid, args, meta)
        if not warmup and 0 not in whole:
            execute(kernel, whole, args, meta)

    jit.run, tuner._bench = run, _tried
    try:
        yield
    finally:
        jit.run, tuner._bench = before


def _grid(kernel: Any, grid: Any, args: Sequence[Any], meta: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the grid of a launch. A function of it reads all arguments, defaults among them."""
    if callable(grid):
        defaults = {p.name: p.default for p in kernel.params if p.has_default}
        grid = grid({**defaults, **dict(zip(kernel.arg_names, args, strict=False)), **meta})
    return (grid,) if isinstance(grid, int) else tuple(grid)


def _tried(tuner: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
    """Execute a configuration of an autotuned kernel once, and undo what it wrote."""
    named = {**dict(zip(tuner.arg_names, args, strict=False)), **meta, **config.all_kwargs()}
    tensors = [value for value in named.values() if isinstance(value, torch.Tensor)]
    before = [tensor.clone() for tensor in tensors]
    if config.pre_hook is not None:
        config.pre_hook(named)
    tuner.fn.run(*args, **{**meta, **config.all_kwargs()})
    for tensor, held in zip(tensors, before, strict=True):
        tensor.copy_(held)
    return [1.0, 1.0, 1.0]
