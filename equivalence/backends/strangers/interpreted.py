"""What backends of interpreted Triton kernels share: the contract, and calls through autograd."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equivalence.backends.libraries import declared
from equivalence.worlds.contract import Contract
from fast.device.mode import tl


def contract(op: str, dtype: str) -> Contract:
    """Return the page with generic freedom, and with what the interpreter does to numbers.

    The family `triton-interpreted` knows the errors of the interpreter's functions, and how it
    rounds to bf16 (docs/backends.md, Contracts). Nothing else is taken over from it.
    """
    interpreter = declared("triton-interpreted")(op, dtype)
    own = replace(
        declared("generic")(op, dtype), functions=interpreter.functions, casts=interpreter.casts
    )
    if dtype != "bf16":
        return own
    return replace(own, store_rounding=interpreter.store_rounding, flush=interpreter.flush)


def through_autograd(
    call: Callable[..., Tensor], inputs: Sequence[Tensor], cotangent: Tensor
) -> list[Tensor | None]:
    """Return the gradients of a torch function by its inputs of floats; None at the others."""
    leaves = [x.requires_grad_(x.is_floating_point()) for x in inputs]
    found = iter(
        torch.autograd.grad(call(*leaves), [x for x in leaves if x.requires_grad], cotangent)
    )
    return [next(found) if x.requires_grad else None for x in leaves]


def copied(x: Tensor) -> Tensor:
    """Copy a tensor with its strides, also where rows share memory or have gaps."""
    if not x.numel():
        return x.detach().clone()
    extent = 1 + sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True))
    memory = x.detach().as_strided((extent,), (1,)).clone()
    return memory.as_strided(x.shape, x.stride())


@contextmanager
def floats_as_compiled() -> Iterator[None]:
    """Hand a kernel each float as a scalar of fp32, as the compiler does.

    The interpreter of triton 3.7.1 hands integers so, and leaves floats to Python, where they have
    no `.to(tl.float32)`.
    """
    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    convert = interpreter._implicit_cvt

    def converted(arg: Any) -> Any:
        if not isinstance(arg, float):
            return convert(arg)
        handle = interpreter.TensorHandle(np.array([arg], dtype=np.float32), tl.float32)
        return tl.tensor(handle, tl.float32)

    interpreter._implicit_cvt = converted
    try:
        yield
    finally:
        interpreter._implicit_cvt = convert
