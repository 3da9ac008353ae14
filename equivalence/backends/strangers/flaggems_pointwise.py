"""Lets Triton's interpreter run what FlagGems generates, and the functions that its kernels call.

`pointwise_dynamic` of utils/pointwise_dynamic.py writes a module for every function and rank, and
asks of the function what a compiled one has: a class, its source, a key and its globals. It hands
tensors to kernels as `StridedBuffer`, which the interpreter cannot copy to the host; a view of
torch says the same where no stride is negative.

Kernels call CUDA's mathematical functions, which no CPU has: numpy's stand for them, and their
errors are those of the contract `triton-interpreted`. The largest and the smallest number of a
dtype are asked of a constant that the interpreter unpacks before.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import math
import os
import textwrap
from collections.abc import Callable, Sequence
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
from torch import Tensor

from equivalence.backends.strangers.interpreted import tl

_WRITTEN = TemporaryDirectory(prefix="flaggems-")
"""Where the generated modules lie, until the process ends."""


def _function(named: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of blocks from one of arrays."""

    def call(*blocks: Any) -> Any:
        first = next(block for block in blocks if isinstance(block, tl.tensor))
        arrays = [b.handle.data if isinstance(b, tl.tensor) else b for b in blocks]
        found = named(*arrays).astype(first.handle.data.dtype)
        return tl.tensor(type(first.handle)(found, first.handle.dtype), first.type)

    return call


FUNCTIONS = SimpleNamespace(
    exp=_function(np.exp),
    exp2=_function(np.exp2),
    pow=_function(np.power),
    tanh=_function(np.tanh),
    rsqrt=_function(lambda x: 1 / np.sqrt(x)),
    div_rn=_function(np.divide),
    erf=_function(np.vectorize(math.erf, otypes=[np.float64])),
)
"""What stands for CUDA's functions of these names."""


def let_generate() -> None:
    """Replace what the generator asks of functions and tensors; call it once, before the ops."""
    os.environ["FLAGGEMS_CACHE_DIR"] = _WRITTEN.name
    generator: Any = importlib.import_module("flag_gems.utils.pointwise_dynamic")
    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    function = generator.PointwiseDynamicFunction
    begin = function.__init__

    def begun(self: Any, op_desc: Any, scalar_fn: Any, config: Any = None) -> None:
        _equip(scalar_fn)
        begin(self, op_desc, scalar_fn, config)

    function.__init__ = begun
    generator.JITFunction = interpreter.InterpretedFunction
    generator.StridedBuffer = _view
    limits: Any = importlib.import_module("flag_gems.utils.limits")
    limits.get_dtype_max = lambda dtype: math.inf if dtype.is_floating() else _largest(dtype)
    limits.get_dtype_min = lambda dtype: -math.inf if dtype.is_floating() else -_largest(dtype) - 1


def _largest(integers: Any) -> int:
    return int(2 ** (integers.int_bitwidth - 1) - 1)


def _equip(kernel: Any) -> None:
    """Give an interpreted function what the generator reads of a compiled one."""
    source = textwrap.dedent(inspect.getsource(kernel.fn))
    kernel.src = source[source.index("def ") :]
    kernel.cache_key = hashlib.sha256(source.encode()).hexdigest()
    kernel.__globals__ = kernel.fn.__globals__
    kernel.__module__ = kernel.fn.__module__
    # The interpreter wants the language in sight, also where a function needs none of it.
    kernel.fn.__globals__.setdefault("tl", tl)


def _view(
    base: Tensor, shape: Sequence[int] | None = None, strides: Sequence[int] | None = None
) -> Any:
    """Stand for `StridedBuffer`: the same memory with other extents and strides."""
    extents, steps = shape or base.shape, strides or base.stride()
    view: Any = base.as_strided(tuple(extents), tuple(steps))
    view.unwrap = lambda: base
    return view
