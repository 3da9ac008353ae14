"""Twin of spec.optim.rmsprop.

One launch over flat arenas: a program per chunk, and one more for the step counts, which are kept
as torch keeps them. The buffer and the mean of gradients have memory where a group uses them.

Arithmetic of the kernel: c = R(1 - alpha) is formed in double and rounded to fp32 once, as the
other hyper-parameters are; then every operation is rounded once, not contracted:

    g = -g                               if maximize
    g = g + weight_decay * p             left out where weight_decay is 0
    v = alpha * v + (c * g) * g
    m = m + c * (g - m)                  if c < 1/2, else  m = g + (c - 1) * (g - m)
    s = v, or max(v - m * m, 0) if centered; NaN survives
    d = g / (sqrt(s) + eps)
    b = momentum * b + d
    p = p - lr * b                       without momentum p - lr * d

A storage of 16 bits is widened on loading and rounded once on storing; p uses the unrounded
moments. torch has no fused kernel: the ATen twin takes the same steps in ATen calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fast.device.mode import tl, triton
from fast.optim._functional import Functional
from fast.optim._in_calls import steered, twin
from fast.optim._kernels import keep, lanes, renew_steps, start
from fast.optim._needs import need_betas, need_flag, need_positive, need_sizes
from fast.optim._rule import Flat, Formula, Launch, Rule


class Hyper(NamedTuple):
    """The hyper-parameters, in the order of the kernel's table."""

    lr: float = 1e-2
    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False
    maximize: bool = False


def check(hyper: Hyper) -> None:
    """Refuse what breaks C1, C2, C3 or C4 of spec.optim.rmsprop."""
    need_sizes("rmsprop C1", hyper, "lr", "weight_decay", "momentum")
    need_betas("rmsprop C2", hyper, "alpha")
    need_positive("rmsprop C3", hyper, "eps")
    need_flag("rmsprop C4", hyper, "centered")
    need_flag("rmsprop C4", hyper, "maximize")


@triton.jit(do_not_specialize=["chunks", "parameters"])
def _rmsprop_kernel(
    p, g, v, b, m, offsets, lengths, groups, slots, bump, steps, next_steps, hyper, flag, scale,
    chunks, parameters, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    clear = tl.load(flag) == 0
    if program == chunks:
        renew_steps(steps, next_steps, bump, parameters, clear, BLOCK)
    elif clear:
        row = hyper + tl.load(groups + program) * COLUMNS
        lr = tl.load(row).to(tl.float32)
        alpha = tl.load(row + 1).to(tl.float32)
        share = (1.0 - tl.load(row + 1)).to(tl.float32)
        eps = tl.load(row + 2).to(tl.float32)
        decay = tl.load(row + 3).to(tl.float32)
        momentum = tl.load(row + 4).to(tl.float32)
        centered = tl.load(row + 5) != 0.0
        maximize = tl.load(row + 6) != 0.0

        start = tl.multiple_of(tl.load(offsets + program), 64)
        inside, covered = lanes(lengths, program, BLOCK, PADDED)
        place = start + tl.arange(0, BLOCK)
        x = tl.load(p + place, mask=covered, other=0.0).to(tl.float32)
        grad = tl.load(g + place, mask=covered, other=0.0).to(tl.float32)
        squares = tl.load(v + place, mask=covered, other=0.0).to(tl.float32)
        if scale is not None:
            grad *= tl.load(scale)
        if maximize:
            grad = -grad
        if decay != 0.0:
            grad += decay * x
        squares = alpha * squares + (share * grad) * grad
        spread = squares
        if centered:
            mean = tl.load(m + place, mask=covered, other=0.0).to(tl.float32)
            near = share < 0.5
            base = tl.where(near, mean, grad)
            mean = base + tl.where(near, share, share - 1.0) * (grad - mean)
            spread = squares - mean * mean
            spread = tl.where(spread < 0.0, 0.0, spread)
            keep(m, place, mean, inside, covered)
        direction = tl.div_rn(grad, tl.sqrt_rn(spread) + eps)
        if momentum != 0.0:
            buffer = tl.load(b + place, mask=covered, other=0.0).to(tl.float32)
            direction = momentum * buffer + direction
            keep(b, place, direction, inside, covered)
        x = x - lr * direction
        keep(p, place, x, inside, covered)
        keep(v, place, squares, inside, covered)


def update(flat: Flat, data: Launch) -> None:
    """Start the one launch that updates every chunk and counts the steps."""
    start(_rmsprop_kernel, len(Hyper._fields), flat, data)


def keeps(hyper: Hyper) -> tuple[str, ...]:
    """Name the states that these hyper-parameters ask for beside the mean of squares."""
    wanted = {"momentum_buffer": hyper.momentum != 0.0, "grad_avg": hyper.centered}
    return tuple(name for name, asked in wanted.items() if asked)


def constants(hyper: Hyper, step: int) -> tuple[float, ...]:
    """Form what an update multiplies by, in double; all steps are alike."""
    share = 1.0 - hyper.alpha
    return hyper.lr, hyper.alpha, share, hyper.eps, hyper.weight_decay, hyper.momentum


def branch(hyper: Hyper) -> tuple[bool, bool, bool, bool, bool]:
    """Say which lines of the arithmetic above there are."""
    near = 1.0 - hyper.alpha < 0.5
    return hyper.weight_decay != 0.0, hyper.maximize, hyper.centered, near, hyper.momentum != 0.0


def update_in_calls(
    branch: tuple[bool, bool, bool, bool, bool], x: Tensor, grad: Tensor, states: Sequence[Any],
    constants: Sequence[Tensor],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Write the arithmetic above in ATen calls, each step rounded once."""
    decays, maximize, centered, near, moves = branch
    lr, alpha, share, eps, decay, momentum = constants
    squares, buffer, mean = states
    grad = steered(x, grad, decay if decays else None, maximize)
    spread = squares = alpha * squares + (share * grad) * grad
    if centered:
        change = grad - mean
        mean = mean + share * change if near else grad + (share - 1.0) * change
        spread = squares - mean * mean
        spread = torch.where(spread < 0.0, 0.0, spread)
    direction = grad / (spread.sqrt() + eps)
    if moves:
        direction = buffer = momentum * buffer + direction
    return (
        x - lr * direction, squares, buffer if moves else None, mean if centered else None,
    )  # fmt: skip


FORMULA = Formula(constants, branch, update_in_calls)

RULE = Rule(
    name="rmsprop",
    hyper=Hyper,
    check=check,
    states=("square_avg", "momentum_buffer", "grad_avg"),
    counted=True,
    stateful=lambda hyper: True,
    aten=twin(FORMULA),
    triton=update,
    formula=FORMULA,
    squares=("square_avg",),
    optional=("momentum_buffer", "grad_avg"),
    keeps=keeps,
    torch=torch.optim.RMSprop,
)


class RMSprop(Functional):
    """RMSprop on a list of tensors, copied in: `step(grads)`, `params()`, `state()`."""

    def __init__(
        self, params: list[Tensor], hyper: Any = None, provider: str = "aten", **more: Any
    ) -> None:
        super().__init__(RULE, params, hyper or {}, provider, **more)
