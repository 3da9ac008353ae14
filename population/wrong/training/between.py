"""Wrong optimizers: arguments that change, what is kept for other handles, special numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from population.pieces.steppers import Adam, AdamW, Hyper, Sgd
from population.record import wrong

CAPTURED = "arguments captured when a step was first compiled"
CACHED = "compiled steps kept by the name of the optimizer"
CLEANED = "numbers cleaned of NaN, where that was no one's wish"


@wrong("sgd", "optimizer", source=CAPTURED)
class scale_read_once(Sgd):
    """Gradients are divided by the first scale for ever."""

    def set_grad_scale(self, grad_scale: float) -> None:
        self.told = getattr(self, "told", grad_scale)
        super().set_grad_scale(self.told)

    def step(self, grads: Sequence[Tensor | None]) -> None:
        super().step(grads)
        self.told = self.grad_scale


@wrong("adam", "optimizer", source="the scale of a loss updated before it was used")
class scale_a_step_late(Adam):
    """A scale that is set between two steps holds from the second step on."""

    def set_grad_scale(self, grad_scale: float) -> None:
        self.coming = grad_scale
        if not hasattr(self, "stepped"):
            super().set_grad_scale(grad_scale)

    def step(self, grads: Sequence[Tensor | None]) -> None:
        self.stepped = True
        super().step(grads)
        self.grad_scale = getattr(self, "coming", 1.0)


@wrong("adamw", "optimizer", source=CAPTURED)
class bound_read_once(AdamW):
    """The norm is clipped to the first bound for ever."""

    def set_max_norm(self, max_norm: float) -> None:
        del max_norm


@wrong("adam", "optimizer", source=CAPTURED)
class betas_read_once(Adam):
    """Betas that are set between steps are ignored."""

    def set_hyper(self, name: str, value: float, group: int) -> None:
        if not name.startswith("beta"):
            super().set_hyper(name, value, group)


@wrong("sgd", "optimizer", source="a rate set for a group that is set for all of them")
class rate_of_one_for_all(Sgd):
    """Whoever sets the rate of the first group sets that of every group."""

    def set_lr(self, lr: float, group: int) -> None:
        super().set_lr(lr, group)
        for other in () if group else self.groups:
            other["lr"] = lr


@wrong("adamw", "optimizer", source="groups merged where their settings are equal")
class rate_of_one_for_its_equals(AdamW):
    """Whoever sets the rate of the first group sets that of all that had the same."""

    def set_lr(self, lr: float, group: int) -> None:
        equals = [] if group else [g for g in self.groups if g.get("lr") == self.usual["lr"]]
        super().set_lr(lr, group)
        for other in equals:
            other["lr"] = lr


@wrong("sgd", "optimizer", source=CACHED)
class settings_of_the_latest_handle(Sgd):
    """All handles take their hyper-parameters from the one that was made last."""

    latest: Mapping[str, Any] = {}

    def __init__(self, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> None:
        super().__init__(params, hyper)
        type(self).latest = self.usual

    def of(self, k: int) -> dict[str, Any]:
        own = super().of(k)
        return {**own, **self.latest} if not self.groups and own["lr"] == self.usual["lr"] else own


@wrong("adam", "optimizer", source=CACHED)
class rate_of_the_latest_step(Adam):
    """A handle that steps after another one of its shapes takes the rate of that one."""

    before: tuple[Any, ...] = ()

    def step(self, grads: Sequence[Tensor | None]) -> None:
        shapes = [p.shape for p in self.kept]
        own = self.usual["lr"]
        who, told, rate = self.before or (id(self), shapes, own)
        if who != id(self) and told == shapes and len(self.kept) > 1 and sum(self.counts):
            self.usual["lr"] = rate
        type(self).before = (id(self), shapes, own)
        super().step(grads)
        self.usual["lr"] = own


@wrong("adam", "non-finite", source=CLEANED)
class moments_cleaned_when_written(Adam):
    """A NaN that is written into a moment becomes 0."""

    def write(self, parameter: int, field: str, numbers: Tensor) -> None:
        if field != "parameter":
            numbers = numbers.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)
        super().write(parameter, field, numbers)


@wrong("sgd", "non-finite", source="0 added to what has no gradient")
class zeros_lose_their_sign(Sgd):
    """0 is added to a parameter without a gradient, which takes the sign of -0."""

    def step(self, grads: Sequence[Tensor | None]) -> None:
        super().step(grads)
        for p, g in zip(self.kept, grads, strict=True):
            if g is None:
                p.add_(0.0)


@wrong("adamw", "non-finite", source="masks of the last block, filled with what is finite")
class infinities_of_the_tail_are_large(AdamW):
    """Behind the last full block of 256, infinite gradients are the largest number."""

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        g = g.clone()
        tail = g.reshape(-1)[g.numel() // 256 * 256 :] if g.numel() > 256 else g.new_zeros(0)
        tail.clamp_(torch.finfo(g.dtype).min, torch.finfo(g.dtype).max)
        if len(tail):
            g = torch.cat([g.reshape(-1)[: -len(tail)], tail]).reshape(g.shape)
        super().update(k, p, g, h, t)


@wrong("adamw", "non-finite", source="norms formed by a maximum that passes over NaN")
class nan_of_later_blocks_left_out(AdamW):
    """The norm leaves out a NaN that stands behind the first 512 entries of a gradient."""

    def norm(self, grads: Sequence[Tensor]) -> Tensor:
        cleaned = [g.reshape(-1).clone() for g in grads]
        for g in cleaned:
            g[512:] = torch.where(g[512:].isnan(), 0.0, g[512:])
        return super().norm(cleaned)


@wrong("sgd", "optimizer", source="clipping of a flat buffer by its first chunk")
class first_entry_alone_clipped(Sgd):
    """Only the first entry of each gradient is scaled by the bound of the norm."""

    def step(self, grads: Sequence[Tensor | None]) -> None:
        there = [g / self.grad_scale for g in grads if g is not None]
        scale, norm = self.scale(there) if there else None, self.max_norm
        if scale is not None:
            given = [None if g is None else g.flatten() for g in grads]
            for g in given:
                if g is not None and len(g):
                    g[0] *= scale
            grads = [
                None if g is None or of is None else g.reshape(of.shape)
                for g, of in zip(given, grads, strict=True)
            ]
        self.max_norm = None
        super().step(grads)
        self.max_norm = norm


@wrong("adamw", "optimizer", source="decays guarded against large rates")
class rate_capped_in_the_decay(AdamW):
    """The decay takes no rate above 0.1."""

    def decayed(self, p: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return super().decayed(p, g, {**h, "lr": min(h["lr"], 0.1)})


@wrong("adamw", "optimizer", source="decays guarded against large rates")
class share_capped_in_the_decay(AdamW):
    """No more than a quarter of a parameter decays."""

    def decayed(self, p: Tensor, g: Tensor, h: Hyper) -> Tensor:
        p.mul_(1 - min(h["lr"] * h["weight_decay"], 0.25))
        return g


@wrong("adam", "optimizer", source="sqrt(v + eps^2), which is smooth, for sqrt(v) + eps")
class eps_squared_inside_the_root(Adam):
    """The root is of the second moment plus the square of eps."""

    def bottom(self, v: Tensor, correction: float, h: Hyper) -> Tensor:
        return (v / correction + h["eps"] ** 2).sqrt()
