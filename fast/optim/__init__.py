"""Optimizers, each the twin of a page in spec.optim: one launch over flat arenas; updates enter."""

from __future__ import annotations

from fast.optim import clip, schedules
from fast.optim._rule import Rule
from fast.optim.adadelta import RULE as _adadelta
from fast.optim.adadelta import Adadelta
from fast.optim.adagrad import RULE as _adagrad
from fast.optim.adagrad import Adagrad
from fast.optim.adam import RULE as _adam
from fast.optim.adam import Adam
from fast.optim.adamw import RULE as _adamw
from fast.optim.adamw import AdamW
from fast.optim.lion import RULE as _lion
from fast.optim.lion import Lion
from fast.optim.muon import RULE as _muon
from fast.optim.muon import Muon
from fast.optim.rmsprop import RULE as _rmsprop
from fast.optim.rmsprop import RMSprop
from fast.optim.sgd import RULE as _sgd
from fast.optim.sgd import Sgd

__all__ = [
    "OPTIMIZERS",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Lion",
    "Muon",
    "RMSprop",
    "Rule",
    "Sgd",
    "clip",
    "schedules",
]

OPTIMIZERS: dict[str, Rule] = {
    rule.name: rule for rule in (_sgd, _adagrad, _rmsprop, _adadelta, _adam, _adamw, _lion, _muon)
}
"""The optimizers by name."""
