"""What backends of interpreted Triton kernels share: the contract, and calls through autograd."""

from __future__ import annotations

import ast
import importlib
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from equivalence.backends.libraries import declared
from equivalence.worlds.contract import Contract
from fast.device import mode

triton: Any = mode.require_triton()
tl: Any = triton.language


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
def as_compiled() -> Iterator[None]:
    """Let the interpreter do two things as the compiler does, in which triton 3.7.1 differs.

    A float that is handed to a kernel is a scalar of fp32. The interpreter leaves it to Python,
    where it has no `.to(tl.float32)`.
    `a and b`, `a or b` and `not a` of blocks hold entry by entry. The interpreter gives one of the
    two, or a single truth, so that masks are lost.
    """
    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    convert, rewriter = interpreter._implicit_cvt, interpreter.FunctionRewriter

    def converted(arg: Any) -> Any:
        if not isinstance(arg, float):
            return convert(arg)
        handle = interpreter.TensorHandle(np.array([arg], dtype=np.float32), tl.float32)
        return tl.tensor(handle, tl.float32)

    class Rewriting(type(rewriter.ast_transformer)):  # type: ignore[misc]
        def visit_Assign(self, node: ast.Assign) -> ast.AST:
            node.value = self.visit(node.value)
            found: ast.AST = super().visit_Assign(node)
            return found

        def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
            self.generic_visit(node)
            name = _BOTH if isinstance(node.op, ast.And) else _EITHER
            parts = [ast.Lambda(_NO_ARGUMENTS, value) for value in node.values]
            return ast.Call(ast.Name(name, ast.Load()), list(parts), [])

        def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
            self.generic_visit(node)
            if not isinstance(node.op, ast.Not):
                return node
            return ast.Call(ast.Name(_OPPOSITE, ast.Load()), [node.operand], [])

    # What is named in the interpreter's module is known to every kernel that it rewrites.
    setattr(interpreter, _BOTH, _both)
    setattr(interpreter, _EITHER, _either)
    setattr(interpreter, _OPPOSITE, _opposite)
    with (
        patch.object(interpreter, "_implicit_cvt", converted),
        patch.object(rewriter, "ast_transformer", Rewriting()),
    ):
        yield


_BOTH, _EITHER = "both_entry_by_entry", "either_entry_by_entry"
_OPPOSITE = "opposite_entry_by_entry"
_NO_ARGUMENTS = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


def _joined(
    parts: Sequence[Callable[[], Any]], of_blocks: Callable[[Any, Any], Any], settles: bool
) -> Any:
    """Join conditions as Triton's compiler does: blocks entry by entry, others as Python does.

    A condition that is no block and has the truth that settles it decides by itself.
    """
    joined = parts[0]()
    for part in parts[1:]:
        if not isinstance(joined, tl.tensor) and bool(joined) == settles:
            return joined
        other = part()
        if not isinstance(joined, tl.tensor):
            joined = other
        elif isinstance(other, tl.tensor):
            joined = of_blocks(joined, other)
        elif bool(other) == settles:
            joined = other
    return joined


def _both(*parts: Callable[[], Any]) -> Any:
    return _joined(parts, operator.and_, False)


def _either(*parts: Callable[[], Any]) -> Any:
    return _joined(parts, operator.or_, True)


def _opposite(x: Any) -> Any:
    """Negate a condition: a block entry by entry."""
    return x == 0 if isinstance(x, tl.tensor) else not x
