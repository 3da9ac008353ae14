"""Prints one op of each family, and one optimizer: those that stand for all others.

    python -m tools.families

A family is a set of ops that are called alike (`equivalence.cases.families`), so a tool that breaks
in one op of it, such as another version of triton, mostly breaks in all of them.
"""

from __future__ import annotations

from equivalence.cases.families.table import family_of
from equivalence.registry import OPS, OPTIMIZERS


def representatives() -> list[str]:
    """Return the first op of each family in reading order, and the last optimizer."""
    first: dict[str, str] = {}
    for name, op in OPS.items():
        first.setdefault(family_of(op).name, name)
    return [*first.values(), [*OPTIMIZERS][-1]]


if __name__ == "__main__":
    print(" ".join(representatives()))
