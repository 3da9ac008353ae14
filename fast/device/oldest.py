"""What the interpreter of triton 3.6 lacks with NumPy 2.4 and newer, which refuses its numbers.

A scalar of a kernel is an array of one element there, and NumPy no longer makes an int of one that
has axes. triton 3.7 takes the axes away first. So a loop whose bound is a scalar fails in 3.6, in
every kernel that has one.
"""

from __future__ import annotations

import importlib
from typing import Any


def mend(triton: Any) -> None:
    """Let interpreted kernels count by their scalars in triton 3.6; others are left alone."""
    if not triton.__version__.startswith("3.6."):
        return
    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.squeeze()))

    interpreter._patch_lang_tensor = patched
