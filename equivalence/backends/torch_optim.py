"""Torch's SGD, Adam and AdamW behind the suite's optimizer protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}

EPS = 1e-8
"""What Adam and AdamW add to a root by default."""

_MOMENTS = ("exp_avg", "exp_avg_sq", "step")

FIELDS: dict[str, tuple[str, ...]] = {
    "sgd": ("momentum_buffer",),
    "adam": _MOMENTS,
    "adamw": _MOMENTS,
}


class TorchOptimizer:
    """Parameters under one of torch's optimizers, one tensor at a time (foreach off)."""

    def __init__(self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> None:
        """Copy the parameters and translate the hyper-parameters' names."""
        if name not in FIELDS:
            raise ValueError(f"unknown optimizer {name!r}; there are {', '.join(FIELDS)}")
        self.name = name
        self._params = [p.detach().clone() for p in params]
        self._max_norm: float | None = hyper.get("max_norm")
        self._optimizer = self._make(hyper)
        if name != "sgd" and hyper.get("start_step"):
            for p in self._params:
                self._optimizer.state[p] = {
                    "step": torch.tensor(float(hyper["start_step"])),
                    "exp_avg": torch.zeros_like(p),
                    "exp_avg_sq": torch.zeros_like(p),
                }

    def _make(self, hyper: Mapping[str, Any]) -> torch.optim.Optimizer:
        apart = ("start_step", "groups", "max_norm")
        shared = {name: value for name, value in hyper.items() if name not in apart}
        groups: Sequence[Mapping[str, Any]] = hyper.get("groups", ())
        grouped = {k for group in groups for k in group["params"]}
        rest = [k for k in range(len(self._params)) if k not in grouped]
        every = [{"params": rest}, *groups]
        return OPTIMIZERS[self.name]([self._named({**shared, **group}) for group in every])

    def _named(self, group: dict[str, Any]) -> dict[str, Any]:
        """Return a group as torch has it: tensors, and both betas as one pair."""
        group["params"] = [self._params[k] for k in group["params"]]
        if self.name != "sgd":
            group["betas"] = (group.pop("beta1", 0.9), group.pop("beta2", 0.999))
        return {**group, "foreach": False}

    def step(self, grads: Sequence[Tensor | None]) -> None:
        """Update every parameter that has a gradient."""
        for p, gradient in zip(self._params, grads, strict=True):
            p.grad = None if gradient is None else gradient.clone()
        if self._max_norm is not None:
            clip_grad_norm_(self._params, self._max_norm, foreach=False)
        self._optimizer.step()

    def params(self) -> Sequence[Tensor]:
        """Return the parameters' current values."""
        return [p.detach() for p in self._params]

    def state(self) -> Mapping[str, Sequence[Tensor | None]]:
        """Return each state field, None where a parameter has none yet."""
        states = [self._optimizer.state.get(p, {}) for p in self._params]
        return {field: [state.get(field) for state in states] for field in FIELDS[self.name]}
