"""What strangers' kernels of matrix products are, compiled ahead of time as ours are.

Their own hosts are driven on CPU tensors, in a process that only compiles (fast.binaries.driving),
and each launch compiles instead of running. Where a host would time the configurations of its own
table, nothing can be timed here: it is given the largest tile of them that spills no registers and
fits into shared memory, or else the first one. So the rows say what such a kernel is, not which one
a GPU would be given.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple
from unittest.mock import patch

import torch

from fast.binaries import compilation
from fast.binaries.ptx_rules import SHARED
from fast.device.dtypes import NAMED
from fast.device.mode import compile_target

LIBRARIES = {"liger_kernel": "liger-kernel", "flag_gems": "flag_gems"}
"""The packages, and how each is called where it is installed from."""
SIZE = 128
DTYPES = ("fp32", "bf16", "fp16")


class Found(NamedTuple):
    """A kernel that a host launched: what is said of it, and what the compiler made."""

    said: dict[str, Any]
    compiled: Any


def versions() -> dict[str, str]:
    """Return the versions of those libraries that are installed."""
    found = {}
    for package, name in LIBRARIES.items():
        try:
            found[package] = version(name)
        except PackageNotFoundError:
            continue
    return found


@contextmanager
def compiling() -> Iterator[list[tuple[str, Any, dict[str, Any]]]]:
    """Let every launch compile, and keep the kernel's name, what was made, and its constants."""
    jit: Any = importlib.import_module("triton.runtime.jit")
    tuner: Any = importlib.import_module("triton.runtime.autotuner")
    run = jit.JITFunction.run
    kept: list[tuple[str, Any, dict[str, Any]]] = []

    def compiled(self: Any, *args: Any, grid: Any, warmup: bool, **meta: Any) -> Any:
        made = run(self, *args, grid=grid, warmup=True, **meta)
        kept.append((self.__name__, made, meta))
        return made

    def largest(self: Any, *args: Any, **meta: Any) -> Any:
        before = len(kept)
        for config in (*sorted(self.configs, key=_size, reverse=True), self.configs[0]):
            del kept[before:]
            self.best_config = config
            constants = config.all_kwargs()
            if config.pre_hook is not None:
                given = dict(zip(self.arg_names, args, strict=False))
                config.pre_hook({**given, **meta, **constants})
            made = self.fn.run(*args, **meta, **constants)
            if _fits(made):
                break
        return made

    with (
        patch.object(jit.JITFunction, "run", compiled),
        patch.object(tuner.Autotuner, "run", largest),
    ):
        yield kept


def _size(config: Any) -> tuple[int, int, int]:
    """Return the extent of a configuration's tile of the result, that inside, and its stages."""
    extents = {key[-1]: value for key, value in config.kwargs.items() if _is_extent(key)}
    return extents["M"] * extents["N"], extents["K"], config.num_stages


def _fits(made: Any) -> bool:
    """Say whether a kernel spills no registers, and its target has the shared memory."""
    _, spills = compilation.usage(made.asm["cubin"])
    return not spills and made.metadata.shared <= SHARED[f"sm_{made.metadata.target.arch}"]


def products(library: str) -> Iterator[Found]:
    """Yield the kernels that a library launches for products of small matrices."""
    for op, dtype, start in HOSTS[library]():
        with compiling() as kept:
            start()
        for kernel, made, meta in kept:
            config = {key: value for key, value in meta.items() if _is_extent(key)}
            said = {"library": library, "op": op, "kernel": kernel, "dtype": dtype}
            yield Found({**said, "config": config}, made)


def _is_extent(name: str) -> bool:
    return name.startswith(("BLOCK", "TILE"))


Host = tuple[str, str, Callable[[], object]]


def _flaggems() -> Iterator[Host]:
    from equivalence.backends.strangers import flaggems_alone

    flaggems_alone.CONFIGURATIONS = None

    def asked(place: str, *inputs: torch.Tensor) -> None:
        with flaggems_alone.told_of_a_device():
            getattr(flaggems_alone.module(place), place)(*inputs)

    for dtype in DTYPES:
        x, y, batch = _drawn(dtype)
        yield "matmul", dtype, partial(asked, "mm", x, y)
        yield "linear", dtype, partial(asked, "addmm", y[0], x, y.t())
        yield "bmm", dtype, partial(asked, "bmm", batch, batch.clone())


def _liger() -> Iterator[Host]:
    losses: Any = importlib.import_module("liger_kernel.ops.fused_linear_cross_entropy")
    gates: Any = importlib.import_module("liger_kernel.ops.mlp")
    loss = losses.fused_linear_cross_entropy_forward
    for dtype in DTYPES:
        x, y, _ = _drawn(dtype)
        yield "fused_linear_cross_entropy", dtype, partial(loss, x, y, torch.zeros(SIZE).long())
        if dtype != "fp32" and compile_target() != "sm_80":  # which has no tensor descriptors
            yield "gemm_swiglu", dtype, partial(gates.gemm_swiglu, x[None], y, y.clone(), 1.0)


def _drawn(dtype: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return two matrices and a batch of them; they lie apart."""
    storage = NAMED[dtype].storage
    one, two = torch.ones(2, SIZE, SIZE, dtype=storage)
    return one, two, torch.ones(2, SIZE, SIZE, dtype=storage)


HOSTS: dict[str, Callable[[], Iterator[Host]]] = {"liger_kernel": _liger, "flag_gems": _flaggems}
