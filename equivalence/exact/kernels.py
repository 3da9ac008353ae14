"""Which kernels there are, and which of them the ring has started."""

from __future__ import annotations

import ast
from pathlib import Path


def all_kernels() -> frozenset[str]:
    """Name every kernel of `fast` by its module: a function of Triton that a host launches.

    A kernel is told by its name, which ends with `_kernel`.
    """
    import fast

    root = Path(fast.__file__).parent
    return frozenset(
        f"{'.'.join(('fast', *path.relative_to(root).with_suffix('').parts))}.{function.name}"
        for path in root.rglob("*.py")
        for function in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(function, ast.FunctionDef)
        and function.name.endswith("_kernel")
        and any("triton.jit" in ast.unparse(mark) for mark in function.decorator_list)
    )
