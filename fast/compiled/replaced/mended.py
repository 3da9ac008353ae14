"""What torch's Inductor is kept from computing wrong: two of its functions are replaced.

The judge has found both, in torch 2.13. They are torch's private names, and a torch that lacks one
is refused before it compiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

MENDED = (
    "rows of one tile keep nothing in the same place",
    "expm1 is the vector library's",
)
"""What is replaced; part of an artifact's name."""

LOOPS, FUSING = "OuterLoopFusedSchedulerNode", "check_outer_fusion_loop_level_attr"
"""Where torch's code asks whether loops over the same rows may become one."""

VECTORS, EXPM1 = "CppVecOverrides", "expm1"
"""Where it writes the function for vectors."""

REPLACED = ((LOOPS, FUSING), (VECTORS, EXPM1))
"""What is replaced, by its class and its name there."""


def lacking() -> str | None:
    """Say what this torch lacks of what is replaced, or None."""
    try:
        from torch._inductor.codegen import cpp
        from torch._inductor.virtualized import V
    except ImportError as error:
        return str(error)
    del V
    for owner, name in REPLACED:
        if name not in vars(getattr(cpp, owner, object)):
            return f"torch._inductor.codegen.cpp has no {owner}.{name}"
    return None


@contextmanager
def mended() -> Iterator[None]:
    """Have torch compile with what is replaced."""
    from torch._inductor.codegen import cpp

    loops, vectors = getattr(cpp, LOOPS), getattr(cpp, VECTORS)
    apart = _apart(getattr(loops, FUSING))
    with replaced(loops, FUSING, apart), replaced(vectors, EXPM1, staticmethod(expm1)):
        yield


def expm1(vector: str) -> str:
    """Return the C++ of the function, which torch writes as exp(x) - 1: at 1e-10 that is 0.

    torch finds a function by its name again.
    """
    return f"{vector}.expm1()"


def _apart(usual: Any) -> Any:
    """Keep rows that are computed in one turn of a loop from sharing what is kept for a row.

    Loops over the same rows become one, which keeps between its parts what it needs of a row, in a
    buffer of one row. Where a turn takes a tile of several rows, as for masks that lie strided, the
    last row of the tile would be read for all. Such loops stay apart, as in torch's own mend of it
    (pytorch/pytorch#185855, after torch 2.13).
    """
    from torch._inductor.virtualized import V

    def apart(node: Any, kernels: Sequence[Any], depth: int) -> bool:
        if not usual(node, kernels, depth):
            return False
        outer = (loop for kernel in kernels for loop in kernel.loop_nest.loops[:depth])
        return not V.local_buffer_context.local_buffers or all(loop.steps == 1 for loop in outer)

    return apart


@contextmanager
def replaced(owner: type | ModuleType, name: str, value: Any) -> Iterator[None]:
    """Give a class or module of torch's another attribute, and its own one back."""
    usual = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, usual)
