"""Which numbers suit which input of which operation: the one table of value regimes.

Each regime is there because some real defect shows only there: one-pass variance needs an offset, a
misplaced eps needs tiny numbers, a missing row maximum needs large logits, a wrong tie rule needs
ties, a division of zero by zero needs exact zeros.
"""

from __future__ import annotations

Regimes = tuple[str, ...]

REAL: Regimes = (
    "integers",
    "normal",
    "mixed",
    "offset",
    "zeros",
    "ties",
    "kinks",
    "constant",
    "logits",
    "tiny",
)
MODERATE: Regimes = ("integers", "normal", "zeros", "ties", "kinks", "logits", "tiny")
POSITIVE: Regimes = ("positive_integers", "positive", "near_one", "positive_mixed")
NONZERO: Regimes = ("nonzero_integers", "nonzero", "nonzero_mixed", "positive")
MASKS: Regimes = ("truths", "all_true", "all_false", "few_true")
INDICES: Regimes = ("indices", "repeated", "ends")
LABELS: Regimes = ("indices", "repeated", "ends", "some_ignored", "all_ignored")

COTANGENTS: Regimes = ("integers", "normal", "mixed", "mixed_zeros", "one_hot")
"""Never all ones: a dropped or permuted cotangent must show."""

DOMAINS: dict[str, tuple[Regimes, ...]] = {
    "div": (REAL, NONZERO),
    "exp": (MODERATE,),
    "log": (POSITIVE,),
    "sqrt": (POSITIVE,),
    "where": (MASKS, REAL, REAL),
    "take": (REAL, INDICES),
    "scatter_add": (REAL, INDICES, REAL),
    "nll_loss": (REAL, LABELS),
    "cross_entropy": (REAL, LABELS),
}
"""Operations that need more than `REAL` on every input."""


def regimes(op: str, inputs: int) -> tuple[Regimes, ...]:
    """Return the value regimes of each input of an operation, simplest first."""
    return DOMAINS.get(op, (REAL,) * inputs)
