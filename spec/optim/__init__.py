"""Chapter 18. The optimizers, one page each: pure functions of parameter, gradient and state.

A page says everything that is known of its optimizer in `optimizer`, its record; `OPTIMIZERS` has
them all.

>>> list(OPTIMIZERS)
['sgd', 'adam', 'adamw']
"""

from __future__ import annotations

from spec.optim._optimizer import Optimizer
from spec.optim.adam import optimizer as _adam
from spec.optim.adamw import optimizer as _adamw
from spec.optim.sgd import optimizer as _sgd

OPTIMIZERS: dict[str, Optimizer] = {page.name: page for page in (_sgd, _adam, _adamw)}
"""Every optimizer by its name, in reading order."""
