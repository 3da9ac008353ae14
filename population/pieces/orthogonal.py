"""Muon in plain torch, cut where a member may differ."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from population.pieces.steppers import Hyper, Stepper


class Muon(Stepper):
    """Momentum whose direction is made nearly orthogonal, for matrices."""

    page = "muon"

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        """Blend, look ahead, iterate, decay, and descend."""
        state = self.states[k]
        if not state:
            state.update(self.first(p))
        state["momentum_buffer"] = self.blended(state["momentum_buffer"], g, h)
        u = self.blended(state["momentum_buffer"], g, h) if h["nesterov"] else None
        x = self.orthogonal(state["momentum_buffer"] if u is None else u, h)
        p.copy_((1 - h["lr"] * h["weight_decay"]) * p - h["lr"] * self.ratio(p, h) * x)

    def blended(self, b: Tensor, g: Tensor, h: Hyper) -> Tensor:
        """Return what lies between a mean and a gradient."""
        return h["momentum"] * b + (1 - h["momentum"]) * g

    def ratio(self, p: Tensor, h: Mapping[str, Any]) -> float:
        """Return what the rate of a matrix is multiplied by."""
        rows, columns = p.shape
        if h["adjust_lr_fn"] == "match_rms_adamw":
            return 0.2 * math.sqrt(max(rows, columns))
        return math.sqrt(max(1.0, rows / columns))

    def orthogonal(self, u: Tensor, h: Hyper) -> Tensor:
        """Divide by the norm, and iterate on a matrix that lies."""
        x = u / self.length(u, h)
        tall = x.shape[0] > x.shape[1]
        x = x.t() if tall else x
        for turn in range(int(h["ns_steps"])):
            x = self.turned(x, h, turn)
        return x.t() if tall else x

    def length(self, u: Tensor, h: Hyper) -> Tensor:
        """Return what a direction is divided by."""
        return torch.clamp(u.norm(), min=h["eps"])

    def turned(self, x: Tensor, h: Hyper, turn: int) -> Tensor:
        """Return the next X."""
        gram = x @ x.t()
        return h["ns_a"] * x + (h["ns_b"] * gram + h["ns_c"] * gram @ gram) @ x


def by_addmm(x: Tensor, h: Hyper) -> Tensor:
    """Return the next X, both mixtures as torch's addmm, which rounds once."""
    gram = x @ x.t()
    factor = torch.addmm(gram, gram, gram, beta=h["ns_b"], alpha=h["ns_c"])
    return torch.addmm(x, factor, x, beta=h["ns_a"])


class MuonInBf16(Muon):
    """With ns_dtype "bf16": whatever the iteration holds is rounded to bfloat16 once."""

    def orthogonal(self, u: Tensor, h: Hyper) -> Tensor:
        """Hold the direction in the dtype that is asked for, and iterate in it."""
        if h["ns_dtype"] is None:
            return super().orthogonal(u, h)
        return super().orthogonal(u.to(torch.bfloat16), h).to(u.dtype)

    def turned(self, x: Tensor, h: Hyper, turn: int) -> Tensor:
        """Return the next X: both mixtures are of fp32 numbers, and stored narrow."""
        if x.dtype == torch.float32:
            return super().turned(x, h, turn)
        gram = self.factor(x @ x.t(), h)
        return (h["ns_a"] * x.float() + gram.float() @ x.float()).to(x.dtype)

    def factor(self, gram: Tensor, h: Hyper) -> Tensor:
        """Return what X is multiplied by."""
        g = gram.float()
        return (h["ns_b"] * g + h["ns_c"] * g @ g).to(gram.dtype)
