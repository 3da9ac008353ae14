"""Small optimizers on torch: right ones of other forms, and wrong ones of one mistake each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from equivalence.backends import declared
from equivalence.backends.protocol import Capabilities
from spec.optim import OPTIMIZERS
from tests.equivalence.backends import fakes

WRITTEN = [name for name, page in OPTIMIZERS.items() if page.torch in ("Adam", "AdamW", "SGD")]
"""The optimizers whose formula of torch.optim is written here once more."""


class Steps:
    """An optimizer that is right; those below override one part of it."""

    wide = torch.float32
    flat = False

    def __init__(self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> None:
        self.page = OPTIMIZERS[name]
        self.held = [self.adopted(p) for p in params]
        self.max_norm = hyper.get("max_norm")
        apart = ("start_step", "groups", "max_norm")
        own = {k: v for k, v in hyper.items() if k not in apart}
        self.groups = [own, *({**own, **g} for g in hyper.get("groups", ()))]
        self.group_of = {
            k: n for n, group in enumerate(self.groups) for k in group.pop("params", ())
        }
        self.counts = [int(hyper.get("start_step", 0))] * len(params)
        self.moments: list[dict[str, Tensor]] = [
            {m: torch.zeros_like(p) for m in self.page.moments} if self.page.counted else {}
            for p in self.held
        ]
        self.scale = 1.0

    def adopted(self, param: Tensor) -> Tensor:
        return param.detach().clone()

    def hyper(self, k: int) -> Any:
        return self.page.hyper(**self.groups[self.group_of.get(k, 0)])

    def step(self, grads: Sequence[Tensor | None]) -> None:
        found = [None if g is None else self.scaled(g) for g in grads]
        if self.max_norm is not None:
            there = [g.flatten() for g in found if g is not None]
            norm = torch.cat(there).norm() if there else torch.zeros(())
            share = (self.max_norm / (norm + 1e-6)).clamp(max=1.0)
            found = [None if g is None else g * share for g in found]
        for k, g in enumerate(found):
            if g is not None:
                self.update(k, g)

    def scaled(self, g: Tensor) -> Tensor:
        return g if self.scale == 1.0 else g * (1 / self.scale)

    def update(self, k: int, g: Tensor) -> None:
        p, hyper, self.counts[k] = self.held[k], self.hyper(k), self.counts[k] + 1
        g = g.to(self.wide)
        formula = {"Adam": self.adam, "AdamW": self.adam, "SGD": self.sgd}[self.page.torch or ""]
        formula(k, p, g, hyper)

    def adam(self, k: int, p: Tensor, g: Tensor, hyper: Any) -> None:
        wide = p.to(self.wide)
        if self.page.decoupled:
            wide = self.decayed(wide, hyper)
        elif hyper.weight_decay:
            g = g + hyper.weight_decay * wide
        m = self.moments[k]["exp_avg"].to(self.wide)
        v = self.moments[k]["exp_avg_sq"].to(self.wide)
        m = m + (1 - hyper.beta1) * (g - m)
        v = hyper.beta2 * v + (1 - hyper.beta2) * g * g
        one, two = (1 - self.power(b, self.counts[k]) for b in (hyper.beta1, hyper.beta2))
        root = v.sqrt() / two**0.5 + hyper.eps
        self.moments[k] = {"exp_avg": m.to(p.dtype), "exp_avg_sq": v.to(p.dtype)}
        p.copy_(wide - (hyper.lr / one) * (m / root))

    def decayed(self, wide: Tensor, hyper: Any) -> Tensor:
        return wide * (1 - hyper.lr * hyper.weight_decay)

    def power(self, beta: float, count: int) -> float:
        return beta**count

    def sgd(self, k: int, p: Tensor, g: Tensor, hyper: Any) -> None:
        if hyper.weight_decay:
            g = g + hyper.weight_decay * p
        if hyper.momentum:
            held = self.moments[k].get("momentum_buffer")
            buffer = self.first(g) if held is None else hyper.momentum * held + (
                1 - hyper.dampening
            ) * g  # fmt: skip
            self.moments[k] = {"momentum_buffer": buffer.to(p.dtype)}
            g = g + hyper.momentum * buffer if hyper.nesterov else buffer
        p.copy_(p - hyper.lr * g)

    def first(self, g: Tensor) -> Tensor:
        return g.clone()

    def params(self) -> Sequence[Tensor]:
        return self.held

    def state(self) -> Mapping[str, Sequence[Any]]:
        found: dict[str, Sequence[Any]] = {
            m: [held.get(m) for held in self.moments] for m in self.page.moments
        }
        return {**found, "step": self.counts} if self.page.counted else found

    def set_lr(self, lr: float, group: int) -> None:
        self.groups[group]["lr"] = lr

    def set_grad_scale(self, grad_scale: float) -> None:
        self.scale = grad_scale

    def load(self, state: Mapping[str, Sequence[Any]]) -> None:
        for k in range(len(self.held)):
            self.moments[k] = {m: state[m][k].clone() for m in self.page.moments}
        self.counts = list(state.get("step", self.counts))

    def write(self, parameter: int, field: str, numbers: Tensor) -> None:
        here = self.held[parameter] if field == "parameter" else self.moments[parameter][field]
        here.copy_(numbers)


class InDouble(Steps):
    """Right: everything is computed in double and rounded once."""

    wide = torch.float64


class DecaySubtracted(Steps):
    """Right: of a parameter its share is taken away, where the page keeps the rest of it."""

    def decayed(self, wide: Tensor, hyper: Any) -> Tensor:
        return wide - (hyper.lr * hyper.weight_decay) * wide


class InPlace(Steps):
    """Right: parameters are updated where they were given."""

    def adopted(self, param: Tensor) -> Tensor:
        return param.detach()


class Expanded(Steps):
    """Right: a state may lie in any layout, stride 0 among them."""

    def state(self) -> Mapping[str, Sequence[Any]]:
        def odd(t: Any) -> Any:
            return t.as_strided(t.shape, [0] * t.ndim) if t is not None and t.numel() == 1 else t

        found = dict(super().state())
        return {
            f: list(map(odd, row)) if f in self.page.moments else row for f, row in found.items()
        }


class Restrided(Steps):
    """Wrong: a parameter is taken over as if it were contiguous, and then updated rightly."""

    def adopted(self, param: Tensor) -> Tensor:
        strides = torch.empty(param.shape).stride()
        return param.detach().as_strided(param.shape, strides).clone()


class MemoryOrder(InPlace):
    """Wrong: a transposed parameter is updated in the order of its memory."""

    def adam(self, k: int, p: Tensor, g: Tensor, hyper: Any) -> None:
        order = sorted(range(p.ndim), key=lambda axis: -p.stride(axis))
        rows = p.permute(order)
        moments = {m: t.reshape(rows.shape) for m, t in self.moments[k].items()}
        self.moments[k] = moments
        super().adam(k, rows, g.reshape(rows.shape), hyper)
        self.moments[k] = {m: t.reshape(p.shape) for m, t in self.moments[k].items()}


class PastTheView(InPlace):
    """Wrong: the gaps of a strided parameter are written."""

    def adam(self, k: int, p: Tensor, g: Tensor, hyper: Any) -> None:
        super().adam(k, p, g, hyper)
        if p.ndim and p.stride(-1) == 2:
            p.as_strided((1,), (1,), p.storage_offset() + 1).zero_()


class _Shared(Steps):
    """Hyper-parameters of which the groups' own are ignored."""

    names: tuple[str, ...] = ()

    def hyper(self, k: int) -> Any:
        group = self.groups[self.group_of.get(k, 0)]
        return self.page.hyper(
            **{**group, **{n: self.groups[0][n] for n in self.names if n in group}}
        )


class OneBeta(_Shared):
    """Wrong: betas of groups are ignored."""

    names = ("beta1", "beta2")


class OneEps(_Shared):
    """Wrong: the first group's eps is used for all."""

    names = ("eps",)


class FrozenLr(Steps):
    """Wrong: the learning rate is what it was at first."""

    def set_lr(self, lr: float, group: int) -> None:
        pass


class DeafToLoad(Steps):
    """Wrong: a loaded state is ignored."""

    def load(self, state: Mapping[str, Sequence[Any]]) -> None:
        pass


class LoadsMoments(Steps):
    """Wrong: the counts of a loaded state are ignored."""

    def load(self, state: Mapping[str, Sequence[Any]]) -> None:
        super().load({f: row for f, row in state.items() if f != "step"})


class LoadsAliases(Steps):
    """Wrong: what was loaded stays the caller's tensor."""

    def load(self, state: Mapping[str, Sequence[Any]]) -> None:
        super().load(state)
        self.moments = [{m: state[m][k] for m in self.page.moments} for k in range(len(self.held))]


class Shadowed(Steps):
    """Wrong: updates start from a copy that writes from outside do not reach."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.masters = [p.clone() for p in self.held]

    def update(self, k: int, g: Tensor) -> None:
        self.held[k].copy_(self.masters[k])
        super().update(k, g)
        self.masters[k].copy_(self.held[k])


class AliasedBuffer(Steps):
    """Wrong: the momentum buffer is the caller's gradient."""

    def first(self, g: Tensor) -> Tensor:
        return g


class ScaledInPlace(Steps):
    """Wrong: the caller's gradient is divided."""

    def scaled(self, g: Tensor) -> Tensor:
        return g if self.scale == 1.0 else g.div_(self.scale)


class CachedGradient(Steps):
    """Wrong: a gradient tensor that was seen before is taken to hold what it held."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.seen: dict[int, tuple[Tensor, Tensor]] = {}

    def scaled(self, g: Tensor) -> Tensor:
        return super().scaled(self.seen.setdefault(id(g), (g, g.clone()))[1])


class SharedCount(Steps):
    """Wrong: all parameters count together."""

    def update(self, k: int, g: Tensor) -> None:
        self.counts = [max(self.counts)] * len(self.counts)
        super().update(k, g)
        self.counts = [max(self.counts)] * len(self.counts)


class NarrowPower(Steps):
    """Wrong: powers of the betas are formed in fp32."""

    def power(self, beta: float, count: int) -> float:
        return float(torch.tensor(beta) ** count)


class RunningPower(Steps):
    """Wrong: powers of the betas are carried along in fp32, one product a step."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.known: dict[tuple[float, int], Tensor] = {}

    def power(self, beta: float, count: int) -> float:
        before = self.known.get((beta, count - 1))
        now = torch.tensor(beta**count) if before is None else before * torch.tensor(beta)
        self.known[beta, count] = now
        return float(now)


class FirstThirtyTwo(Steps):
    """Wrong: what comes after the 32nd parameter is left out."""

    def update(self, k: int, g: Tensor) -> None:
        if k < 32:
            super().update(k, g)
        else:
            self.counts[k] += 1


class NoTail(InPlace):
    """Wrong: what is left after whole blocks of 1024 elements is left out."""

    def update(self, k: int, g: Tensor) -> None:
        p, whole = self.held[k], self.held[k].numel() // 1024 * 1024
        before = p.clone()
        super().update(k, g)
        if whole:
            kept = torch.arange(p.numel()).reshape(p.shape) < whole
            p.copy_(torch.where(kept, p, before))


class DecaysAnyway(Steps):
    """Wrong: weight decay moves parameters that get no gradient."""

    def step(self, grads: Sequence[Tensor | None]) -> None:
        super().step(grads)
        for k, g in enumerate(grads):
            hyper = self.hyper(k)
            if g is None and hyper.weight_decay:
                self.held[k].mul_(1 - hyper.lr * hyper.weight_decay)


class Stepping(fakes.Right):
    """A backend with one of these optimizers."""

    def __init__(self, steps: type[Steps]) -> None:
        self.steps = steps

    def capabilities(self) -> Capabilities:
        return Capabilities({}, declared("torch"), dict.fromkeys(WRITTEN, ("fp32",)))

    def optimizer(self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> Steps:
        return self.steps(name, params, hyper)
