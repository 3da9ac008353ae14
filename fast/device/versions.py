"""What the interpreters of some versions of triton lack, beside the pinned one.

* 3.6 with NumPy 2.4 and newer: a scalar of a kernel is an array of one element there, and NumPy no
  longer makes an int of one that has axes. triton 3.7 takes the axes away first. So a loop whose
  bound is a scalar fails in 3.6, in every kernel that has one.
* 3.9: a condition of scalars that is spread over a block becomes an int32, and no load takes it for
  a mask.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np


def mend(triton: Any) -> None:
    """Let interpreted kernels run in every allowed version; the pinned one is left alone."""
    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    if triton.__version__.startswith("3.6."):
        _count_by_scalars(interpreter)
    if triton.__version__.startswith("3.9."):
        _spread_conditions(triton, interpreter)


def _count_by_scalars(interpreter: Any) -> None:
    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.squeeze()))

    interpreter._patch_lang_tensor = patched


def _spread_conditions(triton: Any, interpreter: Any) -> None:
    builder = interpreter.InterpreterBuilder
    splat = builder.create_splat

    def spread(self: Any, ret_ty: Any, arg: Any) -> Any:
        found = splat(self, ret_ty, arg)
        if arg.data.dtype != np.bool_:
            return found
        return interpreter.TensorHandle(found.data.astype(np.bool_), triton.language.int1)

    builder.create_splat = spread
