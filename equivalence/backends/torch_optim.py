"""Torch's SGD and AdamW behind the suite's optimizer protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

FIELDS: dict[str, tuple[str, ...]] = {
    "sgd": ("momentum_buffer",),
    "adamw": ("exp_avg", "exp_avg_sq", "step"),
}


class TorchOptimizer:
    """Parameters under one of torch's optimizers, one tensor at a time (foreach off)."""

    def __init__(self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> None:
        """Copy the parameters and translate the hyper-parameters' names."""
        if name not in FIELDS:
            raise ValueError(f"unknown optimizer {name!r}; there are {', '.join(FIELDS)}")
        self.name = name
        self._params = [p.detach().clone() for p in params]
        chosen = {k: v for k, v in hyper.items() if k != "start_step"}
        self._optimizer = self._make(chosen)
        if name == "adamw" and hyper.get("start_step"):
            for p in self._params:
                self._optimizer.state[p] = {
                    "step": torch.tensor(float(hyper["start_step"])),
                    "exp_avg": torch.zeros_like(p),
                    "exp_avg_sq": torch.zeros_like(p),
                }

    def _make(self, hyper: dict[str, Any]) -> torch.optim.Optimizer:
        if self.name == "sgd":
            return torch.optim.SGD(self._params, foreach=False, **hyper)
        betas = (hyper.pop("beta1", 0.9), hyper.pop("beta2", 0.999))
        return torch.optim.AdamW(self._params, betas=betas, foreach=False, **hyper)

    def step(self, grads: Sequence[Tensor | None]) -> None:
        """Update every parameter that has a gradient."""
        for p, gradient in zip(self._params, grads, strict=True):
            p.grad = None if gradient is None else gradient.clone()
        self._optimizer.step()

    def params(self) -> Sequence[Tensor]:
        """Return the parameters' current values."""
        return [p.detach() for p in self._params]

    def state(self) -> Mapping[str, Sequence[Tensor | None]]:
        """Return each state field, None where a parameter has none yet."""
        states = [self._optimizer.state.get(p, {}) for p in self._params]
        return {field: [state.get(field) for state in states] for field in FIELDS[self.name]}
