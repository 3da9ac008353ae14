"""Other programs of the pages: right ones that take other steps, and wrong ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from equivalence.backends import ContractRule, declared
from equivalence.backends.protocol import Capabilities
from equivalence.backends.torch.backend import OPS as BY_TORCH
from spec.ops import OPS
from spec.tensor import tensor

Value = Callable[..., Tensor]
Vjp = Callable[..., Sequence[Tensor | None]]


TORCH = declared("torch")


class One:
    """A backend of one operation, in fp32 on the CPU, that refuses what the page refuses."""

    name = "other"

    def __init__(
        self,
        op: str,
        value: Value,
        vjp: Vjp | None = None,
        contract: ContractRule = TORCH,
    ) -> None:
        self.op, self.of_value, self.of_vjp, self.contract = op, value, vjp, contract

    def capabilities(self) -> Capabilities:
        return Capabilities({self.op: ("fp32",)}, self.contract)

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        page = OPS[op]
        page.type_rule(*(page.type_at(k, tuple(x.shape)) for k, x in enumerate(inputs)), **attrs)
        if page.integer_inputs:
            page.refuse_indices(*(tensor(x.tolist()) for x in inputs), **attrs)
        return self.of_value(*inputs, **attrs)

    def vjp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        cotangents: Sequence[Tensor],
    ) -> Sequence[Tensor | None]:
        if self.of_vjp is not None:
            return self.of_vjp(inputs, cotangents[0], **attrs)
        leaves = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        result = self.of_value(*leaves, **attrs)
        found = iter(torch.autograd.grad(result, wanted, cotangents[0], allow_unused=True))
        gradients = [next(found) if leaf.requires_grad else None for leaf in leaves]
        return [
            torch.zeros_like(leaf) if leaf.requires_grad and g is None else g
            for g, leaf in zip(gradients, leaves, strict=True)
        ]


def axes_of(x: Tensor, axes: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the axes that are reduced."""
    return tuple(range(x.dim())) if axes is None else tuple(a % x.dim() for a in axes)


def rows_of(x: Tensor, axes: tuple[int, ...] | None) -> Tensor:
    """Move the reduced axes to the end, as one."""
    reduced = axes_of(x, axes)
    kept = [a for a in range(x.dim()) if a not in reduced]
    shape = [x.shape[a] for a in kept]
    return x.permute((*kept, *reduced)).reshape(*shape, math.prod(x.shape[a] for a in reduced))


def summing(add_up: Callable[[Tensor], Tensor]) -> Value:
    """Return a sum whose rows are added up by a function."""

    def value(x: Tensor, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        if axes == ():
            return x.clone()
        rows = rows_of(x, axes)
        total = add_up(rows) if rows.shape[-1] else rows.sum(-1)
        for axis in sorted(axes_of(x, axes)) if keepdims else ():
            total = total.unsqueeze(axis)
        return total

    return value


def in_order(rows: Tensor) -> Tensor:
    """Add from left to right, in the rows' own dtype."""
    total = rows[..., 0].clone()
    for k in range(1, rows.shape[-1]):
        total = total + rows[..., k]
    return total


def kahan(rows: Tensor) -> Tensor:
    """Add with a compensation."""
    total, lost = torch.zeros_like(rows[..., 0]), torch.zeros_like(rows[..., 0])
    for k in range(rows.shape[-1]):
        term = rows[..., k] - lost
        after = total + term
        lost = torch.where(torch.isfinite(after), (after - total) - term, 0.0)
        total = after
    return total


def pairwise(rows: Tensor) -> Tensor:
    """Add halves."""
    n = rows.shape[-1]
    if n == 1:
        return rows[..., 0].clone()
    return pairwise(rows[..., : n // 2]) + pairwise(rows[..., n // 2 :])


def mean_of_shares(
    x: Tensor, axes: tuple[int, ...] | None = None, keepdims: bool = False
) -> Tensor:
    """Add x / n up."""
    count = math.prod(x.shape[a] for a in axes_of(x, axes))
    return summing(in_order)(x / count, axes, keepdims)


def picked(labels: Tensor, ignore_index: int, classes: int) -> tuple[Tensor, Tensor]:
    """Return the one-hot rows of the labels, and which rows count."""
    counted = labels != ignore_index
    hot = functional.one_hot(torch.where(counted, labels, 0), classes).float()
    return hot, counted


def cross_entropy_vjp(
    inputs: Sequence[Tensor],
    g: Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
) -> Sequence[Tensor | None]:
    """Take (p - target) g, as most kernels do; weights multiply the targets."""
    x, labels = inputs
    if x.numel() == 0:
        return [torch.zeros_like(x), None]
    rows, at, classes = x.movedim(1, -1).reshape(-1, x.shape[1]), labels.reshape(-1), x.shape[1]
    hot, counted = picked(at, ignore_index, classes)
    weights = torch.tensor(weight or (1.0,) * classes)
    target = (hot * (1 - label_smoothing) + label_smoothing / classes) * weights
    total = ((hot * weights).sum(1) * counted).sum()
    if reduction == "mean":
        counted = counted & (total != 0)
    rate = g / total if reduction == "mean" else g
    rates = rate.expand(at.shape) if rate.dim() == 0 else rate.reshape(-1)
    dx = (torch.softmax(rows, 1) * target.sum(1, keepdim=True) - target) * rates[:, None]
    dx = torch.where(counted[:, None], dx, 0.0)
    return [dx.reshape(*x.shape[:1], *x.shape[2:], classes).movedim(-1, 1), None]


def log_sum_exp_minus_picked(
    x: Tensor, labels: Tensor, ignore_index: int = -100, reduction: str = "mean", **_: Any
) -> Tensor:
    """Take logsumexp(x) - x[label], which loses what both have in common."""
    counted = labels != ignore_index
    at = torch.where(counted, labels, 0)[:, None]
    loss = torch.logsumexp(x, 1) - x.gather(1, at)[:, 0]
    loss = torch.where(counted, loss, 0.0)
    if reduction == "none":
        return loss
    return loss.sum() / counted.sum().clamp(min=1) if reduction == "mean" else loss.sum()


def normalized(moments: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Value:
    """Return a layer_norm whose mean and variance come from a function."""

    def value(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
        if not x.numel():
            return x.clone()
        rows, *lines = (t.flatten(-gamma.dim()) for t in (x, gamma, beta))
        mean, variance = moments(rows)
        normal = (rows - mean) / torch.sqrt(variance + eps)
        return (normal * lines[0] + lines[1]).reshape(x.shape)

    return value


def welford(x: Tensor) -> tuple[Tensor, Tensor]:
    """Update mean and squares entry by entry."""
    mean, squares = torch.zeros_like(x[..., :1]), torch.zeros_like(x[..., :1])
    for k in range(x.shape[-1]):
        entry = x[..., k : k + 1]
        step = entry - mean
        mean = mean + step / (k + 1)
        squares = squares + step * (entry - mean)
    return mean, squares / x.shape[-1]


def shifted(x: Tensor) -> tuple[Tensor, Tensor]:
    """Shift by the first entry, then take one pass."""
    rest = x - x[..., :1]
    mean = rest.mean(-1, keepdim=True)
    return x[..., :1] + mean, rest.square().mean(-1, keepdim=True) - mean.square()


def two_pass(x: Tensor) -> tuple[Tensor, Tensor]:
    """Take the mean, then the mean square about it."""
    mean = x.mean(-1, keepdim=True)
    return mean, (x - mean).square().mean(-1, keepdim=True)


def one_pass(x: Tensor) -> tuple[Tensor, Tensor]:
    """Take the mean of squares less the square of the mean, which cancels."""
    mean = x.mean(-1, keepdim=True)
    return mean, (x.square().mean(-1, keepdim=True) - mean.square()).clamp(min=0)


def unbiased(x: Tensor) -> tuple[Tensor, Tensor]:
    """Take the variance of a sample."""
    return x.mean(-1, keepdim=True), x.var(-1, keepdim=True) if x.shape[-1] > 1 else x * 0


def online_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Keep a running maximum and a running sum, blocks of four at a time."""
    if not x.numel():
        return x.clone()
    rows = x.movedim(axis, -1)
    largest = torch.full_like(rows[..., :1], -math.inf)
    total = torch.zeros_like(largest)
    for start in range(0, rows.shape[-1], 4):
        block = rows[..., start : start + 4]
        after = torch.maximum(largest, block.amax(-1, keepdim=True))
        kept = torch.where(largest == -math.inf, 0.0, torch.exp(largest - after))
        terms = torch.where(block == -math.inf, block, block - after)
        total = total * kept + torch.exp(terms).sum(-1, keepdim=True)
        largest = after
    return (torch.exp(rows - largest) / total).movedim(-1, axis)


def softmax_of_powers(x: Tensor, axis: int = -1) -> Tensor:
    """Take powers of two of a rounded product with log2(e)."""
    if not x.numel():
        return x.clone()
    powers = torch.exp2((x - x.amax(axis, keepdim=True)) * math.log2(math.e))
    return powers / powers.sum(axis, keepdim=True)


def softmax_without_maximum(x: Tensor, axis: int = -1) -> Tensor:
    """Forget the shift."""
    powers = torch.exp(x)
    return powers / powers.sum(axis, keepdim=True)


def bias_first(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Start each sum with the bias."""
    total = b.expand(*x.shape[:-1], w.shape[0]).clone()
    for k in range(x.shape[-1]):
        total = total + x[..., k : k + 1] * w[:, k]
    return total


def but_the_last(rows: Tensor) -> Tensor:
    """Forget the last entry of a row of some length."""
    return in_order(rows[..., :-1] if rows.shape[-1] > 8 else rows)


def in_bf16(rows: Tensor) -> Tensor:
    """Add up in 16 bits."""
    return in_order(rows.bfloat16()).float()


def matmul_in_bf16(x: Tensor, y: Tensor) -> Tensor:
    """Add products up in 16 bits."""
    products = (x[:, :, None] * y[None]).movedim(1, -1)
    return in_bf16(products) if x.shape[1] else x @ y


def without_eps(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """Forget what keeps the root from 0."""
    return normalized(two_pass)(x, gamma, beta, eps=0.0)


def of_tensor_cores(x: Tensor, y: Tensor) -> Tensor:
    """Drop the bits of the factors that tf32 has no place for."""

    def dropped(z: Tensor) -> Tensor:
        return (z.contiguous().view(torch.int32) & -8192).view(torch.float32)

    return dropped(x) @ dropped(y)


def sech_squared(inputs: Sequence[Tensor], g: Tensor) -> Sequence[Tensor]:
    """Take tanh's gradient as sech^2."""
    (x,) = inputs
    half = torch.exp(-x.abs())
    return [g * (2 * half / (1 + half * half)).square()]


def two_factors(inputs: Sequence[Tensor], g: Tensor) -> Sequence[Tensor]:
    """Take tanh's gradient as (1 - z) (1 + z)."""
    z = torch.tanh(inputs[0])
    return [g * ((1 - z) * (1 + z))]


def _unsmoothed(
    inputs: Sequence[Tensor], g: Tensor, label_smoothing: float = 0.0, **attrs: Any
) -> Sequence[Tensor | None]:
    """Forget the smoothing in the gradient."""
    return cross_entropy_vjp(inputs, g, **attrs)


UNSMOOTHED = One("cross_entropy", BY_TORCH["cross_entropy"], _unsmoothed)


class Moments:
    """Adam and AdamW in the textbook's own lines, eager."""

    def __init__(self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> None:
        self.decoupled = name == "adamw"
        self.ps = [p.clone() for p in params]
        own = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
        own["weight_decay"] = 1e-2 if self.decoupled else 0.0
        apart = ("groups", "max_norm", "start_step")
        own |= {key: value for key, value in hyper.items() if key not in apart}
        self.hypers = [dict(own) for _ in params]
        for group in hyper.get("groups") or ():
            more = {key: value for key, value in group.items() if key != "params"}
            for k in group["params"]:
                self.hypers[k] |= more
        self.max_norm = hyper.get("max_norm")
        start = int(hyper.get("start_step", 0))
        self.steps = [start] * len(self.ps)
        kept = [torch.zeros_like(p) if start else None for p in params]
        self.m: list[Tensor | None] = list(kept)
        self.v: list[Tensor | None] = list(kept)

    def step(self, grads: Sequence[Tensor | None]) -> None:
        given = [g for g in grads if g is not None]
        if self.max_norm is not None and given:
            squares = torch.stack([g.double().square().sum() for g in given])
            factor = torch.clamp(self.max_norm / (squares.sum().sqrt() + 1e-6), max=1.0).float()
            grads = [None if g is None else g * factor for g in grads]
        for k, gradient in enumerate(grads):
            if gradient is not None:
                self._update(k, gradient)

    def _update(self, k: int, g: Tensor) -> None:
        h, p = self.hypers[k], self.ps[k]
        if not self.decoupled:
            g = g + h["weight_decay"] * p
        zero = torch.zeros_like(p)
        m, v = (zero if old is None else old for old in (self.m[k], self.v[k]))
        m = h["beta1"] * m + (1 - h["beta1"]) * g
        v = h["beta2"] * v + (1 - h["beta2"]) * g * g
        self.steps[k] += 1
        t = self.steps[k]
        right = m / (1 - h["beta1"] ** t)
        step = right / (torch.sqrt(v / (1 - h["beta2"] ** t)) + h["eps"])
        if self.decoupled:
            step = step + h["weight_decay"] * p
        self.ps[k], self.m[k], self.v[k] = p - h["lr"] * step, m, v

    def params(self) -> Sequence[Tensor]:
        return self.ps

    def state(self) -> Mapping[str, Sequence[Tensor | None]]:
        steps = [torch.tensor(t) for t in self.steps]
        return {"exp_avg": self.m, "exp_avg_sq": self.v, "step": steps}


class Textbook(One):
    """A backend of nothing but Adam and AdamW."""

    def __init__(self) -> None:
        super().__init__("exp", torch.exp)

    def capabilities(self) -> Capabilities:
        return Capabilities({}, self.contract, dict.fromkeys(("adam", "adamw"), ("fp32",)))

    def optimizer(self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> Moments:
        return Moments(name, params, hyper)
