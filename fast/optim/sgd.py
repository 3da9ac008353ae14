"""Twin of spec.optim.sgd.

One launch over flat arenas: a program per chunk, and one more for the step counts, by which the
kernel knows a parameter's first momentum buffer: it is the gradient itself, undampened.

Arithmetic of the kernel: lr, momentum, weight_decay and 1 - dampening are rounded to fp32 once, the
last after it was formed in double; then every product and sum is rounded once, not contracted:

    g = -g                               if maximize
    g = g + weight_decay * p             left out where weight_decay is 0
    b = momentum * b + (1 - dampening) * g       (the first time, b = g)
    d = g + momentum * b                 if nesterov, else d = b (without momentum, d = g)
    p = p - lr * d

A storage of 16 bits is widened on loading and rounded once on storing; p uses the unrounded b.

The ATen twin is torch._fused_sgd_: the same constants and order, but each line's last product is
contracted into its sum, in either order where a line has two products. That kernel leaves 16-bit
parameters on a CPU as they are (torch 2.13), so it is given copies of them in fp32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fast.device.dtypes import NARROW
from fast.device.mode import tl, triton
from fast.optim._functional import Functional
from fast.optim._in_calls import steered
from fast.optim._kernels import keep, lanes, renew_steps, start
from fast.optim._needs import need_flag, need_sizes
from fast.optim._rule import Batch, Flat, Formula, Launch, Rule, need, update_widened


class Hyper(NamedTuple):
    """The hyper-parameters, in the order of the kernel's table."""

    lr: float
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    maximize: bool = False


def check(hyper: Hyper) -> None:
    """Refuse what breaks C1, C2 or C3 of spec.optim.sgd."""
    need_sizes("sgd C1", hyper, "lr", "momentum", "weight_decay")
    need("sgd C1", math.isfinite(hyper.dampening), "dampening is finite", hyper.dampening)
    need_flag("sgd C2", hyper, "nesterov")
    need_flag("sgd C3", hyper, "maximize")
    if hyper.nesterov:
        came = f"momentum {hyper.momentum}, dampening {hyper.dampening}"
        holds = hyper.momentum > 0.0 and hyper.dampening == 0.0
        need("sgd C2", holds, "nesterov needs momentum > 0 and dampening = 0", came)


@triton.jit(do_not_specialize=["chunks", "parameters"])
def _sgd_kernel(
    p, g, b, offsets, lengths, groups, slots, bump, steps, next_steps, hyper, flag, scale,
    chunks, parameters, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    clear = tl.load(flag) == 0
    if program == chunks:
        renew_steps(steps, next_steps, bump, parameters, clear, BLOCK)
    elif clear:
        row = hyper + tl.load(groups + program) * COLUMNS
        lr = tl.load(row).to(tl.float32)
        momentum = tl.load(row + 1).to(tl.float32)
        kept = (1.0 - tl.load(row + 2)).to(tl.float32)
        decay = tl.load(row + 3).to(tl.float32)
        nesterov = tl.load(row + 4) != 0.0
        maximize = tl.load(row + 5) != 0.0
        fresh = tl.load(steps + tl.load(slots + program)) == 0.0

        start = tl.multiple_of(tl.load(offsets + program), 64)
        inside, covered = lanes(lengths, program, BLOCK, PADDED)
        place = start + tl.arange(0, BLOCK)
        x = tl.load(p + place, mask=covered, other=0.0).to(tl.float32)
        direction = tl.load(g + place, mask=covered, other=0.0).to(tl.float32)
        if scale is not None:
            direction *= tl.load(scale)
        if maximize:
            direction = -direction
        if decay != 0.0:
            direction += decay * x
        if momentum != 0.0:
            buffer = tl.load(b + place, mask=covered, other=0.0).to(tl.float32)
            buffer = tl.where(fresh, direction, momentum * buffer + kept * direction)
            direction = tl.where(nesterov, direction + momentum * buffer, buffer)
            keep(b, place, buffer, inside, covered)
        x = x - lr * direction
        keep(p, place, x, inside, covered)


def update(flat: Flat, data: Launch) -> None:
    """Start the one launch that updates every chunk and counts the steps."""
    start(_sgd_kernel, len(Hyper._fields), flat, data)


def aten_update(batch: Batch, hyper: Hyper, stop: Tensor | None) -> None:
    """Update one batch of slices by torch's fused kernel; `stop` is 1 where it must not."""
    if batch.params[0].is_cpu and batch.params[0].dtype in NARROW:
        update_widened(aten_update, batch, hyper, stop)
        return
    torch._fused_sgd_(
        batch.params, batch.grads, batch.states[0] if hyper.momentum else [],
        weight_decay=hyper.weight_decay, momentum=hyper.momentum, lr=hyper.lr,
        dampening=hyper.dampening, nesterov=hyper.nesterov, maximize=hyper.maximize,
        is_first_step=batch.first, found_inf=stop,
    )  # fmt: skip


def stateful(hyper: Hyper) -> bool:
    """Say whether there is a momentum buffer to read."""
    return hyper.momentum != 0.0


def constants(hyper: Hyper, step: int) -> tuple[float, ...]:
    """Form what an update multiplies by, in double; the first one has no momentum behind it."""
    past, kept = (0.0, 1.0) if step == 1 else (hyper.momentum, 1.0 - hyper.dampening)
    return hyper.lr, hyper.momentum, past, kept, hyper.weight_decay


def branch(hyper: Hyper) -> tuple[bool, bool, bool, bool]:
    """Say which lines of the arithmetic above there are."""
    return hyper.maximize, hyper.weight_decay != 0.0, hyper.momentum != 0.0, hyper.nesterov


def update_in_calls(
    branch: tuple[bool, bool, bool, bool], x: Tensor, grad: Tensor, states: Sequence[Tensor],
    constants: Sequence[Tensor],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Write the arithmetic above in ATen calls, each step rounded once."""
    maximize, decays, moves, nesterov = branch
    lr, momentum, past, kept, decay = constants
    grad = steered(x, grad, decay if decays else None, maximize)
    if not moves:
        return x - lr * grad, None
    buffer = past * states[0] + kept * grad
    return x - lr * (grad + momentum * buffer if nesterov else buffer), buffer


RULE = Rule(
    name="sgd",
    hyper=Hyper,
    check=check,
    states=("momentum_buffer",),
    counted=False,
    stateful=stateful,
    aten=aten_update,
    triton=update,
    formula=Formula(constants, branch, update_in_calls),
    torch=torch.optim.SGD,
)

MOST_KERNELS = 8
"""The update with and without a scale, in 16 bits also by clipped copies in fp32, and five kernels
that clip for every optimizer: the squares of chunks and their coefficient, and, by groups, clamped
copies with their squares, the coefficients, and their product."""


class Sgd(Functional):
    """SGD on a list of tensors, copied in: `step(grads)`, `params()`, `state()`."""

    def __init__(
        self, params: list[Tensor], hyper: Any, provider: str = "aten", **more: Any
    ) -> None:
        super().__init__(RULE, params, hyper, provider, **more)
