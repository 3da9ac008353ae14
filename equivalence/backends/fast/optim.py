"""Our own optimizers behind the suite's optimizer protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from equivalence.backends.protocol import APART


class FastOptimizer:
    """Parameters under one of our optimizers."""

    def __init__(
        self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any], provider: str
    ) -> None:
        """Copy the parameters in, with the step count that they start from."""
        from fast.optim import OPTIMIZERS
        from fast.optim._functional import Functional

        rule = OPTIMIZERS[name]
        self._fields = rule.states
        self._hyper = {key: value for key, value in hyper.items() if key not in APART}
        self._groups = [dict(group) for group in hyper.get("groups", ())]
        self._usual, self._grad_scale = rule.defaults, 1.0
        self._held = Functional(
            rule,
            params,
            self._hyper,
            provider,
            self._groups,
            hyper.get("max_norm"),
            hyper.get("max_value"),
        )
        if rule.counted and hyper.get("start_step"):
            zeros = [torch.zeros_like(p) for p in params]
            steps = [int(hyper["start_step"])] * len(params)
            self._held.load_state({**dict.fromkeys(rule.states, zeros), "step": steps})

    def step(self, grads: Sequence[Tensor | None]) -> None:
        """Update every parameter that has a gradient."""
        self._held.step(grads, self._grad_scale)

    def params(self) -> Sequence[Tensor]:
        """Return the parameters' current values."""
        return self._held.params()

    def state(self) -> Mapping[str, Sequence[Tensor | None]]:
        """Return each state field, None where a parameter has none yet."""
        nothing = [None] * len(self._held.params())
        return {**dict.fromkeys(self._fields, nothing), **self._held.state()}

    def set_lr(self, lr: float, group: int) -> None:
        """Use another learning rate from the next step on, in one group."""
        self.set_hyper("lr", lr, group)

    def set_hyper(self, name: str, value: float, group: int) -> None:
        """Use another hyper-parameter from the next step on, in one group.

        A group that had taken over the number of all keeps it.
        """
        if not group:
            usual = self._hyper.get(name, self._usual.get(name))
            for other in self._groups:
                other.setdefault(name, usual)
        (self._groups[group - 1] if group else self._hyper)[name] = value
        self._held.set_hyper(self._hyper, self._groups)

    def set_grad_scale(self, grad_scale: float) -> None:
        """Take gradients to be so many times too large, from the next step on."""
        self._grad_scale = grad_scale

    def set_max_norm(self, max_norm: float) -> None:
        """Clip the global norm of the gradients to another bound, from the next step on."""
        self._held.set_max_norm(max_norm)

    def load(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Replace the state of every parameter by copies of this one."""
        self._held.load_state(state)

    def write(self, parameter: int, field: str, numbers: Tensor) -> None:
        """Put other numbers into a parameter or into one of its moments, by the views of them."""
        row = self._held.params() if field == "parameter" else self._held.state()[field]
        row[parameter].copy_(numbers)
