"""What strangers' kernels of matrix products are, compiled ahead of time as ours are.

Their own hosts are driven on CPU tensors, in a process that only compiles (fast.binaries.driving),
and each launch compiles instead of running. A host that would time several configurations takes the
first of its own table. So the rows say what such a kernel is, not which one a GPU would be given.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple
from unittest.mock import patch

import torch

from fast.device.dtypes import NAMED

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

    def first(self: Any, *args: Any, **meta: Any) -> Any:
        chosen = self.best_config = self.configs[0]
        constants = chosen.all_kwargs()
        if chosen.pre_hook is not None:
            chosen.pre_hook({**dict(zip(self.arg_names, args, strict=False)), **meta, **constants})
        return self.fn.run(*args, **meta, **constants)

    with (
        patch.object(jit.JITFunction, "run", compiled),
        patch.object(tuner.Autotuner, "run", first),
    ):
        yield kept


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
    from equivalence.backends.strangers.flaggems_alone import module, told_of_a_device

    def asked(place: str, *inputs: torch.Tensor) -> object:
        with told_of_a_device():
            return getattr(module(place), place)(*inputs)

    for dtype in DTYPES:
        x, y, batch = _drawn(dtype)
        yield "matmul", dtype, lambda x=x, y=y: asked("mm", x, y)
        yield "linear", dtype, lambda x=x, y=y: asked("addmm", y[0], x, y.t())
        yield "bmm", dtype, lambda b=batch: asked("bmm", b, b.clone())


def _liger() -> Iterator[Host]:
    losses: Any = importlib.import_module("liger_kernel.ops.fused_linear_cross_entropy")
    gates: Any = importlib.import_module("liger_kernel.ops.mlp")
    for dtype in DTYPES:
        x, y, _ = _drawn(dtype)
        labels = torch.zeros(SIZE, dtype=torch.int64)
        yield (
            "fused_linear_cross_entropy",
            dtype,
            lambda x=x, y=y, t=labels: losses.fused_linear_cross_entropy_forward(x, y, t),
        )
        if dtype != "fp32":
            yield (
                "gemm_swiglu",
                dtype,
                lambda x=x, y=y: gates.gemm_swiglu(x[None], y, y.clone(), 1.0),
            )


def _drawn(dtype: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return two matrices and a batch of them; they lie apart."""
    storage = NAMED[dtype].storage
    one, two = torch.ones(2, SIZE, SIZE, dtype=storage)
    return one, two, torch.ones(2, SIZE, SIZE, dtype=storage)


HOSTS: dict[str, Callable[[], Iterator[Host]]] = {"liger_kernel": _liger, "flag_gems": _flaggems}
