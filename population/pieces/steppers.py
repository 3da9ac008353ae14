"""Optimizers in plain torch, cut where a member may differ: the handles that members start from.

Each follows its page; a member overrides one method. Parameters have their own states and counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from equivalence.backends.protocol import APART
from spec.optim import OPTIMIZERS

GUARD = 1e-6
"""What clipping adds to the norm, so that none divides by zero (torch.nn.utils)."""

State = dict[str, Tensor]
Hyper = Mapping[str, float]


def copied(x: Tensor) -> Tensor:
    """Return a contiguous copy."""
    return x.detach().clone(memory_format=torch.contiguous_format)


class Stepper:
    """Parameters under an optimizer: copied once, updated one by one where there is a gradient."""

    page = ""

    def __init__(self, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> None:
        """Copy the parameters, and fill in the page's usual hyper-parameters."""
        own = {name: value for name, value in hyper.items() if name not in APART}
        self.usual: dict[str, Any] = {**vars(OPTIMIZERS[self.page].hyper(**own))}
        self.groups = [dict(group) for group in hyper.get("groups", ())]
        self.max_norm: float | None = hyper.get("max_norm")
        self.grad_scale = 1.0
        self.kept = [copied(p) for p in params]
        started = int(hyper.get("start_step", 0))
        self.counts = [started] * len(self.kept)
        self.states: list[State] = [self.first(p) if started else {} for p in self.kept]

    def first(self, p: Tensor) -> State:
        """Return the state before the first step."""
        return {moment: torch.zeros_like(p) for moment in OPTIMIZERS[self.page].moments}

    def of(self, k: int) -> dict[str, Any]:
        """Return the hyper-parameters of one parameter."""
        own = [group for group in self.groups if k in group["params"]]
        pairs = [(name, v) for group in own for name, v in group.items() if name != "params"]
        return {**self.usual, **dict(pairs)}

    def set_lr(self, lr: float, group: int) -> None:
        """Use another rate from the next step on; group 0 has whom no group names."""
        self.set_hyper("lr", lr, group)

    def set_hyper(self, name: str, value: float, group: int) -> None:
        """Use another hyper-parameter from the next step on, in one group."""
        if group:
            self.groups[group - 1][name] = value
            return
        # What a group has taken over from all stays as it was.
        for other in self.groups:
            other.setdefault(name, self.usual[name])
        self.usual[name] = value

    def set_grad_scale(self, grad_scale: float) -> None:
        """Take gradients to be so many times too large, from the next step on."""
        self.grad_scale = grad_scale

    def set_max_norm(self, max_norm: float) -> None:
        """Clip the global norm to another bound, from the next step on."""
        self.max_norm = max_norm

    def load(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Replace the state of every parameter by copies of this one."""
        page = OPTIMIZERS[self.page]
        for k in range(len(self.kept)):
            own = {name: state[name][k] for name in page.moments if name in state}
            self.states[k] = {name: copied(t) for name, t in own.items() if t is not None}
            if page.counted:
                self.counts[k] = int(state["step"][k])

    def write(self, parameter: int, field: str, numbers: Tensor) -> None:
        """Put other numbers into a parameter or into one of its moments."""
        own = {"parameter": self.kept[parameter], **self.states[parameter]}
        own[field].copy_(numbers)

    def step(self, grads: Sequence[Tensor | None]) -> None:
        """Update every parameter that has a gradient."""
        if self.grad_scale != 1.0:
            grads = [None if g is None else g * (1 / self.grad_scale) for g in grads]
        present = [g for g in grads if g is not None]
        scale = self.scale(present) if present else None
        for k, g in enumerate(grads):
            if g is None:
                continue
            self.counts[k] += 1
            g = g if scale is None else g * scale
            self.update(k, self.kept[k], g, self.of(k), self.counts[k])

    def scale(self, grads: Sequence[Tensor]) -> Tensor | None:
        """Return what clipping multiplies the gradients by."""
        if self.max_norm is None:
            return None
        return torch.clamp(self.max_norm / (self.norm(grads) + GUARD), max=1.0)

    def norm(self, grads: Sequence[Tensor]) -> Tensor:
        """Return the global norm."""
        return torch.stack([(g.double() ** 2).sum() for g in grads]).sum().sqrt().float()

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        """Update one parameter in place."""
        raise NotImplementedError

    def params(self) -> Sequence[Tensor]:
        """Return the parameters' current values."""
        return self.kept

    def state(self) -> Mapping[str, Sequence[Tensor | None]]:
        """Return each state field, None where a parameter has none yet."""
        page = OPTIMIZERS[self.page]
        found = {m: [s.get(m) for s in self.states] for m in page.moments}
        if page.counted:
            found["step"] = [torch.tensor(float(n)) if n else None for n in self.counts]
        return found


class Sgd(Stepper):
    """Stochastic gradient descent."""

    page = "sgd"

    def first(self, p: Tensor) -> State:
        """Remember nothing before the first step."""
        return {}

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        """Decay, blend, look ahead, and descend."""
        g = -g if h["maximize"] else g
        d = self.decayed(p, g, h)
        if h["momentum"]:
            b = self.blended(k, d, h)
            d = self.ahead(d, b, h) if h["nesterov"] else b
        p.sub_(h["lr"] * d)

    def decayed(self, p: Tensor, g: Tensor, h: Hyper) -> Tensor:
        """Add the decay to the gradient."""
        return g + h["weight_decay"] * p if h["weight_decay"] else g

    def blended(self, k: int, d: Tensor, h: Hyper) -> Tensor:
        """Return the buffer after one more gradient; the first time it is the gradient."""
        state = self.states[k]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = copied(d)
        else:
            b = state["momentum_buffer"]
            state["momentum_buffer"] = h["momentum"] * b + (1 - h["dampening"]) * d
        return state["momentum_buffer"]

    def ahead(self, d: Tensor, b: Tensor, h: Hyper) -> Tensor:
        """Look ahead, as Nesterov does."""
        return d + h["momentum"] * b


class Adam(Stepper):
    """Adam; `AdamW` decays apart from the gradient."""

    page = "adam"

    def first(self, p: Tensor) -> State:
        """Return the state before the first step: two moments."""
        return {moment: torch.zeros_like(p) for moment in ("exp_avg", "exp_avg_sq")}

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        """Decay, average, and descend."""
        g = -g if h["maximize"] else g
        g = self.decayed(p, g, h)
        state = self.states[k]
        if not state:
            state.update(self.first(p))
        state["exp_avg"] = self.mean(state["exp_avg"], g, h)
        state["exp_avg_sq"] = self.square(state["exp_avg_sq"], g, h)
        self.descend(p, {**state, "exp_avg_sq": self.divisor(state, h)}, h, t)

    def divisor(self, state: State, h: Hyper) -> Tensor:
        """Return the second moment by which a step is divided: by amsgrad the largest one."""
        second = state["exp_avg_sq"]
        if not h["amsgrad"]:
            return second
        known = state.get("max_exp_avg_sq", torch.zeros_like(second))
        state["max_exp_avg_sq"] = torch.maximum(known, second)
        return state["max_exp_avg_sq"]

    def decayed(self, p: Tensor, g: Tensor, h: Hyper) -> Tensor:
        """Add the decay to the gradient."""
        return g + h["weight_decay"] * p if h["weight_decay"] else g

    def mean(self, m: Tensor, g: Tensor, h: Hyper) -> Tensor:
        """Return the first moment after one more gradient."""
        return m + (1 - h["beta1"]) * (g - m)

    def square(self, v: Tensor, g: Tensor, h: Hyper) -> Tensor:
        """Return the second moment after one more gradient."""
        return h["beta2"] * v + (1 - h["beta2"]) * (g * g)

    def corrections(self, h: Hyper, t: int) -> tuple[float, float]:
        """Return what corrects the bias of the two moments after t steps."""
        return 1 - h["beta1"] ** t, 1 - h["beta2"] ** t

    def bottom(self, v: Tensor, correction: float, h: Hyper) -> Tensor:
        """Return what the step is divided by."""
        return v.sqrt() / math.sqrt(correction) + h["eps"]

    def descend(self, p: Tensor, state: State, h: Hyper, t: int) -> None:
        """Take the step."""
        first, second = self.corrections(h, t)
        bottom = self.bottom(state["exp_avg_sq"], second, h)
        p.sub_((h["lr"] / first) * (state["exp_avg"] / bottom))


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter before the step."""

    page = "adamw"

    def decayed(self, p: Tensor, g: Tensor, h: Hyper) -> Tensor:
        """Shrink the parameter; the gradient stays."""
        p.mul_(1 - h["lr"] * h["weight_decay"])
        return g
