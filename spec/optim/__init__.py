"""Chapter 32. The optimizers, one page each: pure functions of parameter, gradient and state.

A page says everything that is known of its optimizer in `optimizer`, its record; `OPTIMIZERS` has
them all.

>>> from spec.optim import sgd
>>> from spec.tensor import tensor
>>> sgd.update(tensor([1.0]), tensor([2.0]), sgd.State(), sgd.Sgd(lr=0.25))
(Tensor([0.5]), State(momentum_buffer=None))
"""

from __future__ import annotations

from spec.optim._optimizer import Optimizer
from spec.optim.adadelta import optimizer as _adadelta
from spec.optim.adagrad import optimizer as _adagrad
from spec.optim.adam import optimizer as _adam
from spec.optim.adamw import optimizer as _adamw
from spec.optim.lion import optimizer as _lion
from spec.optim.muon import optimizer as _muon
from spec.optim.rmsprop import optimizer as _rmsprop
from spec.optim.sgd import optimizer as _sgd
from spec.refusals import Table

__all__ = ["OPTIMIZERS", "Optimizer"]

OPTIMIZERS = Table(
    "optimizer",
    {
        page.name: page
        for page in (_sgd, _adagrad, _rmsprop, _adadelta, _adam, _adamw, _lion, _muon)
    },
)
"""Every optimizer by its name, in reading order."""
