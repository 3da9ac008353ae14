"""Optimizers, each the twin of a page in spec.optim: one launch over flat arenas; updates enter."""

from __future__ import annotations

from fast.optim import clip, schedules
from fast.optim._rule import Rule
from fast.optim.adam import RULE as _adam
from fast.optim.adam import Adam
from fast.optim.adamw import RULE as _adamw
from fast.optim.adamw import AdamW
from fast.optim.sgd import RULE as _sgd
from fast.optim.sgd import Sgd

__all__ = ["OPTIMIZERS", "Adam", "AdamW", "Rule", "Sgd", "clip", "schedules"]

OPTIMIZERS: dict[str, Rule] = {rule.name: rule for rule in (_sgd, _adam, _adamw)}
"""The optimizers by name."""
