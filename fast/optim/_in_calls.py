"""What pages share that have no kernel of torch's: their formula in ATen calls is their twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fast.device.dtypes import NARROW
from fast.optim._rule import Batch, Formula, Update, update_widened

Numbers = Callable[[Any, Tensor], Sequence[Any]]
"""Forms a formula's constants of hyper-parameters and a count on the device, which is not read."""


def twin(formula: Formula, numbers: Numbers | None = None) -> Update:
    """Return the update of a batch, tensor by tensor; without `numbers`, steps are all alike.

    Numbers of 16 bits are computed in fp32 and rounded once. Where `stop` is 1 nothing is written.
    """

    def update(batch: Batch, hyper: Any, stop: Tensor | None) -> None:
        if batch.params[0].dtype in NARROW:
            update_widened(update, batch, hyper, stop)
            return
        branch = formula.branch(hyper)
        constants: Any = formula.constants(hyper, 1)
        for k, (p, gradient) in enumerate(zip(batch.params, batch.grads, strict=True)):
            states = [column[k] if column else None for column in batch.states]
            if numbers is not None:
                constants = numbers(hyper, batch.steps[k])
            moved = formula.update(branch, p, gradient, states, constants)
            for old, new in zip((p, *states), moved, strict=True):
                if old is not None and new is not None:
                    old.copy_(new if stop is None else torch.where(stop == 0, new, old))

    return update


def steered(x: Tensor, gradient: Tensor, decay: Tensor | None, maximize: bool) -> Tensor:
    """Return decay * x + g, or decay * x - g to maximize; None stands for no decay."""
    gradient = -gradient if maximize else gradient
    return gradient if decay is None else gradient + decay * x
