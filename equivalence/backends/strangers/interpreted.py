"""What backends of interpreted Triton kernels share: the contract, and calls through autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from equivalence.backends.libraries import declared
from equivalence.worlds.contract import Contract


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
