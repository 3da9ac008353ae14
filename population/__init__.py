"""The bench on which the judge is tried: implementations that are known to be wrong or right.

Each is one function, and is judged like a stranger's. A suite that passes a wrong one is blind, and
one that refuses a right one cries wolf; `python -m population` counts both, beside what other
people's checks make of the same code. The judge knows nothing of its bench, and does not ship it.

Each is a backend by its name: `python -m equivalence run --backend 'population:tanh: NAME'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

ROOMS = (
    "record",
    "pieces",
    "wrong",
    "right",
    "registry",
    "judged",
    "rivals",
    "matrix",
    "table",
    "command",
    "__main__",
)
"""The reading order, which the house rules check: a file imports only what stands before it."""

if not TYPE_CHECKING:
    # A type checker that saw it would take any name for a name of this package.
    def __getattr__(name: str) -> Any:
        if ": " in name:
            from population.judged.member import backend

            return backend(name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
