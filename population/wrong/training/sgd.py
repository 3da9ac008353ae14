"""Wrong SGD, and clipping that every optimizer shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from population.pieces.steppers import Adam, AdamW, Hyper, Sgd
from population.record import wrong

CLIPPED = "clipping that was written for one tensor"
MOMENTUM = "Sutskever, Martens, Dahl and Hinton, 2013, whose form differs from PyTorch's"
GROUPS = "param_groups read once, for the first group"
ALIASED = "https://github.com/pytorch/pytorch/issues/31258"


@wrong("sgd", "optimizer", source="dampening applied from the first step on")
class first_gradient_dampened(Sgd):
    """The buffer starts from zeros, so that the first gradient is dampened, too."""

    def blended(self, k: int, d: Tensor, h: Hyper) -> Tensor:
        before = self.states[k].get("momentum_buffer", torch.zeros_like(d))
        found = h["momentum"] * before + (1 - h["dampening"]) * d
        self.states[k]["momentum_buffer"] = found
        return found


@wrong("sgd", "optimizer", source=MOMENTUM)
class looks_ahead_by_the_gradient(Sgd):
    """Nesterov's form adds the gradient to the buffer, and forgets the momentum."""

    def ahead(self, d: Tensor, b: Tensor, h: Hyper) -> Tensor:
        return d + b


@wrong("sgd", "optimizer", source=MOMENTUM)
class never_looks_ahead(Sgd):
    """Nesterov's form is taken for the plain one."""

    def ahead(self, d: Tensor, b: Tensor, h: Hyper) -> Tensor:
        return b


@wrong("sgd", "optimizer", source=MOMENTUM)
class rate_inside_the_buffer(Sgd):
    """The buffer holds steps, with the rate in them."""

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        if not h["momentum"] or h["nesterov"]:
            super().update(k, p, g, h, t)
            return
        scaled = h["lr"] * self.decayed(p, g, h)
        p.sub_(self.blended(k, scaled, h))


@wrong("sgd", "optimizer", source="https://github.com/flagos-ai/FlagGems/issues/4988")
class decay_apart(Sgd):
    """The decay shrinks the parameter, and does not enter the buffer."""

    def decayed(self, p: Tensor, g: Tensor, h: Hyper) -> Tensor:
        p.mul_(1 - h["lr"] * h["weight_decay"])
        return g


@wrong("sgd", "optimizer", source="decay added to the step, not to the gradient")
class decay_after_the_momentum(Sgd):
    """The decay is added when the buffer has been formed."""

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        old = p.clone()
        super().update(k, p, g, {**h, "weight_decay": 0.0}, t)
        p.sub_(h["lr"] * h["weight_decay"] * old)


@wrong("sgd", "aliasing", source=ALIASED)
class buffer_is_the_gradient(Sgd):
    """The first buffer is the caller's gradient itself, which is used again."""

    def blended(self, k: int, d: Tensor, h: Hyper) -> Tensor:
        if "momentum_buffer" not in self.states[k]:
            self.states[k]["momentum_buffer"] = d
            return d
        return super().blended(k, d, h)


@wrong("sgd", "aliasing", source="states cached by shape")
class buffers_shared_by_shape(Sgd):
    """Parameters of one shape share a buffer."""

    def __init__(self, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> None:
        super().__init__(params, hyper)
        shared: dict[torch.Size, dict[str, Tensor]] = {}
        self.states = [shared.setdefault(p.shape, {}) for p in self.kept]


@wrong("sgd", "optimizer", source="momentum applied whether there is a gradient or not")
class moves_without_a_gradient(Sgd):
    """A parameter without a gradient goes on by its momentum."""

    def step(self, grads: Sequence[Tensor | None]) -> None:
        for k, g in enumerate(grads):
            if g is None and "momentum_buffer" in self.states[k]:
                self.kept[k].sub_(self.of(k)["lr"] * self.states[k]["momentum_buffer"])
        super().step(grads)


@wrong("sgd", "optimizer", source=GROUPS)
class momentum_of_the_first_group(Sgd):
    """All groups have the first group's momentum."""

    def of(self, k: int) -> dict[str, Any]:
        return {**super().of(k), "momentum": self.usual["momentum"]}


@wrong("sgd", "optimizer", source=CLIPPED)
class clipped_one_by_one(Sgd):
    """Each gradient is clipped by its own norm."""

    def step(self, grads: Sequence[Tensor | None]) -> None:
        scales = [None if g is None else self.scale([g]) for g in grads]
        pairs = zip(grads, scales, strict=True)
        clipped = [g if g is None or s is None else g * s for g, s in pairs]
        norm, self.max_norm = self.max_norm, None
        super().step(clipped)
        self.max_norm = norm


@wrong("adam", "optimizer", source=CLIPPED)
class largest_norm_alone(Adam):
    """The norm of all gradients is the largest of theirs."""

    def norm(self, grads: Sequence[Tensor]) -> Tensor:
        return torch.stack([g.norm() for g in grads]).max()


@wrong("adamw", "optimizer", source=CLIPPED)
class norm_not_guarded(AdamW):
    """Nothing is added to the norm before the division."""

    def scale(self, grads: Sequence[Tensor]) -> Tensor | None:
        if self.max_norm is None:
            return None
        return torch.clamp(self.max_norm / self.norm(grads), max=1.0)


@wrong("sgd", "range", source="norms added up in fp16")
class norm_in_half(Sgd):
    """The norm is formed in fp16, where squares vanish or overflow."""

    def norm(self, grads: Sequence[Tensor]) -> Tensor:
        squares = [(g.half() * g.half()).float().sum() for g in grads]
        return torch.stack(squares).sum().sqrt()


@wrong("adamw", "optimizer", source="clipping after the decay has joined")
class clipped_by_value(AdamW):
    """Entries are clipped one by one, where the norm was meant."""

    def step(self, grads: Sequence[Tensor | None]) -> None:
        norm, self.max_norm = self.max_norm, None
        bounded = [g if g is None or norm is None else g.clamp(-norm, norm) for g in grads]
        super().step(bounded)
        self.max_norm = norm


@wrong("sgd", "optimizer", source=CLIPPED)
class scaled_up_as_well(Sgd):
    """Gradients below the bound are scaled up to it."""

    def scale(self, grads: Sequence[Tensor]) -> Tensor | None:
        if self.max_norm is None:
            return None
        return self.max_norm / (self.norm(grads) + 1e-6)


@wrong("sgd", "optimizer", source="rates captured when the optimizer was made")
class rate_cannot_be_changed(Sgd):
    """A rate that is set later is ignored."""

    def set_lr(self, lr: float, group: int) -> None:
        del lr, group


@wrong("sgd", "aliasing", source="flat master copies that nobody tells of a write")
class master_copy_goes_on(Sgd):
    """Steps start from a copy of the parameter, which writes from outside do not reach."""

    def __init__(self, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> None:
        super().__init__(params, hyper)
        self.masters = [p.clone() for p in self.kept]

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        super().update(k, self.masters[k], g, h, t)
        p.copy_(self.masters[k])


@wrong("adam", "optimizer", source="https://github.com/NVIDIA/apex/issues/577")
class step_not_loaded(Adam):
    """A state is loaded without its step."""

    def load(self, state: Mapping[str, Sequence[Any]]) -> None:
        before = list(self.counts)
        super().load(state)
        self.counts = before


@wrong("adamw", "aliasing", source="state_dict() that shares its tensors")
class loaded_state_is_the_callers(AdamW):
    """A state that was loaded is not copied."""

    def load(self, state: Mapping[str, Sequence[Any]]) -> None:
        super().load(state)
        for k, own in enumerate(self.states):
            own.update({name: state[name][k] for name in own})


@wrong("adamw", "optimizer", source="rates captured when the optimizer was made")
class decay_keeps_the_first_rate(AdamW):
    """The decay goes on with the rate of the beginning, when another one is set."""

    def decayed(self, p: Tensor, g: Tensor, h: Hyper) -> Tensor:
        self.begun = getattr(self, "begun", h["lr"])
        p.mul_(1 - self.begun * h["weight_decay"])
        return g
