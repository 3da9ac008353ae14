"""What adam and adamw share: the check, the kernel, and the call of torch's fused kernels.

Arithmetic of the kernel, for one parameter at its step t. R rounds to fp32, and every product, sum,
quotient and root below is rounded once; nothing is contracted. Formed in double and rounded once:

    decay = R(1 - lr weight_decay)       c1 = R(1 - beta1)      rate = R(lr / (1 - beta1^t))
    b2 = R(beta2), e = R(eps)            c2 = R(1 - beta2)      root = R(sqrt(1 - beta2^t))

beta^t is a product of at most 2 log2(t) doubles by repeated squaring. First g = -g, if maximize. In
adam decay is 1, and g = g + R(weight_decay) * p, where that is not 0. Then

    m = m + c1 * (g - m)                 if c1 < 1/2, else  m = g + (c1 - 1) * (g - m)
    v = v * b2 + (c2 * g) * g
    w = max(w, v)                        if amsgrad, else  w = v; NaN survives
    p = p * decay + (-rate * m) / (sqrt(w) / root + e)

A storage of 16 bits is widened on loading and rounded once on storing; p uses the unrounded
moments. There is memory for w where a group uses amsgrad.

torch's fused kernels have the same constants (beta^t by pow in double) and the same order, except
that `c * (g - m)` is contracted into the sum that it feeds, and `(c2 * g) * g` and
`weight_decay * p` too; where a processor has no fused multiply-add they round twice as above. Where
weight_decay is 0 the product with decay is left out; it would be exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fast.device.mode import tl, triton
from fast.optim._in_calls import steered
from fast.optim._kernels import keep, lanes, power, renew_steps, start
from fast.optim._needs import need_betas, need_flag, need_positive, need_sizes
from fast.optim._rule import Batch, Flat, Formula, Launch, Rule


def check(rule: str, hyper: Any) -> None:
    """Refuse what breaks C1, C2, C3 or C4 of the rule's page in spec.optim."""
    need_sizes(f"{rule} C1", hyper, "lr", "weight_decay")
    need_betas(f"{rule} C2", hyper, "beta1", "beta2")
    need_positive(f"{rule} C3", hyper, "eps")
    need_flag(f"{rule} C4", hyper, "amsgrad")
    need_flag(f"{rule} C4", hyper, "maximize")


@triton.jit(do_not_specialize=["chunks", "parameters"])
def _moments_kernel(
    p, g, m, v, w, offsets, lengths, groups, slots, bump, steps, next_steps, hyper, flag, scale,
    chunks, parameters, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, PADDED: tl.constexpr,
    DECOUPLED: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    clear = tl.load(flag) == 0
    if program == chunks:
        renew_steps(steps, next_steps, bump, parameters, clear, BLOCK)
    elif clear:
        row = hyper + tl.load(groups + program) * COLUMNS
        lr = tl.load(row)
        beta1 = tl.load(row + 1)
        beta2 = tl.load(row + 2)
        eps = tl.load(row + 3).to(tl.float32)
        weight_decay = tl.load(row + 4)
        amsgrad = tl.load(row + 5) != 0.0
        maximize = tl.load(row + 6) != 0.0
        step = tl.load(steps + tl.load(slots + program)).to(tl.int32) + 1
        rate = (lr / (1.0 - power(beta1, step))).to(tl.float32)
        root = tl.sqrt(1.0 - power(beta2, step)).to(tl.float32)
        c1 = (1.0 - beta1).to(tl.float32)
        c2 = (1.0 - beta2).to(tl.float32)
        b2 = beta2.to(tl.float32)

        start = tl.multiple_of(tl.load(offsets + program), 64)
        inside, covered = lanes(lengths, program, BLOCK, PADDED)
        place = start + tl.arange(0, BLOCK)
        x = tl.load(p + place, mask=covered, other=0.0).to(tl.float32)
        grad = tl.load(g + place, mask=covered, other=0.0).to(tl.float32)
        first = tl.load(m + place, mask=covered, other=0.0).to(tl.float32)
        second = tl.load(v + place, mask=covered, other=0.0).to(tl.float32)

        if scale is not None:
            grad *= tl.load(scale)
        if maximize:
            grad = -grad
        if DECOUPLED:
            decay = (1.0 - lr * weight_decay).to(tl.float32)
        else:
            decay = 1.0
            if weight_decay != 0.0:
                grad += weight_decay.to(tl.float32) * x
        near = c1 < 0.5
        base = tl.where(near, first, grad)
        first = base + tl.where(near, c1, c1 - 1.0) * (grad - first)
        second = second * b2 + (c2 * grad) * grad
        largest = second
        if amsgrad:
            known = tl.load(w + place, mask=covered, other=0.0).to(tl.float32)
            # A known NaN is not below, so that it stays; one that comes is taken.
            largest = tl.where((known < second) | (second != second), second, known)
            keep(w, place, largest, inside, covered)
        bottom = tl.div_rn(tl.sqrt_rn(largest), root) + eps
        x = x * decay + tl.div_rn(-rate * first, bottom)
        keep(p, place, x, inside, covered)
        keep(m, place, first, inside, covered)
        keep(v, place, second, inside, covered)


def complement(beta: float, step: int) -> float:
    """Return 1 - beta^step in double, without the cancellation of a beta close to 1."""
    return -math.expm1(step * math.log(beta)) if beta else 1.0


def constants(hyper: Any, step: int) -> tuple[float, ...]:
    """Form what an update at a step multiplies by, in double, in the order of `formula`."""
    rate = hyper.lr / complement(hyper.beta1, step)
    root = math.sqrt(complement(hyper.beta2, step))
    decay = 1.0 - hyper.lr * hyper.weight_decay
    c1, c2 = 1.0 - hyper.beta1, 1.0 - hyper.beta2
    return decay, hyper.weight_decay, c1, c2, hyper.beta2, rate, root, hyper.eps


def formula(decoupled: bool) -> Formula:
    """Return the update above in ATen calls: the kernel's order, each step rounded once."""

    def branch(hyper: Any) -> tuple[bool, bool, bool, bool]:
        near, decays = 1.0 - hyper.beta1 < 0.5, hyper.weight_decay != 0.0
        return near, decays, hyper.amsgrad, hyper.maximize

    def update(
        branch: tuple[bool, bool, bool, bool], x: Tensor, gradient: Tensor, states: Sequence[Any],
        constants: Sequence[Tensor],
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        near, decays, amsgrad, maximize = branch
        decay, weight_decay, c1, c2, b2, rate, root, eps = constants
        first, second, largest = states
        joins = weight_decay if decays and not decoupled else None
        gradient = steered(x, gradient, joins, maximize)
        change = gradient - first
        first = first + c1 * change if near else gradient + (c1 - 1.0) * change
        second = second * b2 + (c2 * gradient) * gradient
        if decays and decoupled:
            x = x * decay
        top = second
        if amsgrad:
            top = largest = torch.maximum(largest, second)
        moved = x + (-rate * first) / (top.sqrt() / root + eps)
        return moved, first, second, largest if amsgrad else None

    return Formula(constants, branch, update)


def moments_rule(
    name: str, hyper: type[Any], fused: Callable[..., None], decoupled: bool, **more: Any
) -> Rule:
    """Return the rule of a page; `fused` is torch's kernel of the same name."""

    def update(flat: Flat, data: Launch) -> None:
        start(_moments_kernel, len(hyper._fields), flat, data, DECOUPLED=decoupled)

    def aten_update(batch: Batch, values: Any, stop: Tensor | None) -> None:
        fused(
            batch.params, batch.grads, *batch.states, batch.steps,
            lr=values.lr, beta1=values.beta1, beta2=values.beta2,
            weight_decay=values.weight_decay, eps=values.eps, amsgrad=values.amsgrad,
            maximize=values.maximize,
            found_inf=stop,
        )  # fmt: skip

    return Rule(
        name=name,
        hyper=hyper,
        check=lambda values: check(name, values),
        states=("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
        counted=True,
        stateful=lambda values: True,
        aten=aten_update,
        triton=update,
        formula=formula(decoupled),
        squares=("exp_avg_sq", "max_exp_avg_sq"),
        optional=("max_exp_avg_sq",),
        keeps=lambda values: ("max_exp_avg_sq",) if values.amsgrad else (),
        decoupled=decoupled,
        **more,
    )
