"""How a loss is reduced: the levels of it, and what a call says."""

from __future__ import annotations

from equivalence.cases.families.signatures import Signature

REDUCED = ("none", "mean", "sum", None)
"""None is the default of the op."""


def with_reduction(signature: Signature, reduction: str | None) -> Signature:
    """Say how a loss is reduced, if anything is said."""
    shapes, attributes = signature
    return shapes, attributes if reduction is None else {**attributes, "reduction": reduction}


def reduced_as(pick: int) -> str:
    """Return one of the reductions for a pick of a stateful run."""
    return ("mean", "sum", "none")[pick % 3]
