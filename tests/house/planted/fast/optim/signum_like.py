"""Twin of spec.optim.signum_like.

One launch over flat arenas; every product and sum is rounded once, not contracted. lr, beta and
1 - lr weight_decay are rounded to fp32 once, and so is 1 - beta, after it was formed in double.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from fast.device.dtypes import NARROW
from fast.device.mode import tl, triton
from fast.optim._kernels import keep, lanes, renew_steps, start
from fast.optim._rule import (
    Batch,
    Flat,
    Launch,
    Rule,
    finite_and_not_negative,
    need,
    update_widened,
)


class Hyper(NamedTuple):
    """The hyper-parameters, in the order of the kernel's table."""

    lr: float = 1e-4
    beta: float = 0.9
    weight_decay: float = 0.0


def check(hyper: Hyper) -> None:
    """Refuse what breaks C1 or C2 of spec.optim.signum_like."""
    for name in ("lr", "weight_decay"):
        number = getattr(hyper, name)
        need(
            "signum_like C1", finite_and_not_negative(number), f"{name} is finite and >= 0", number
        )
    need("signum_like C2", 0.0 <= hyper.beta < 1.0, "beta lies in [0, 1)", hyper.beta)


@triton.jit(do_not_specialize=["chunks", "parameters"])
def _signum_kernel(
    p, g, m, offsets, lengths, groups, slots, bump, steps, next_steps, hyper, flag, scale,
    chunks, parameters, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    clear = tl.load(flag) == 0
    if program == chunks:
        renew_steps(steps, next_steps, bump, parameters, clear, BLOCK)
    elif clear:
        row = hyper + tl.load(groups + program) * COLUMNS
        lr = tl.load(row)
        beta = tl.load(row + 1)
        kept = (1.0 - lr * tl.load(row + 2)).to(tl.float32)
        inside, covered = lanes(lengths, program, BLOCK, PADDED)
        place = tl.multiple_of(tl.load(offsets + program), 64) + tl.arange(0, BLOCK)
        x = tl.load(p + place, mask=covered, other=0.0).to(tl.float32)
        gradient = tl.load(g + place, mask=covered, other=0.0).to(tl.float32)
        average = tl.load(m + place, mask=covered, other=0.0).to(tl.float32)
        if scale is not None:
            gradient *= tl.load(scale)
        average = beta.to(tl.float32) * average + (1.0 - beta).to(tl.float32) * gradient
        sign = tl.where(average > 0.0, 1.0, tl.where(average < 0.0, -1.0, average))
        x = kept * x - lr.to(tl.float32) * sign
        keep(p, place, x, inside, covered)
        keep(m, place, average, inside, covered)


def update(flat: Flat, data: Launch) -> None:
    """Start the one launch that updates every chunk and counts the steps."""
    start(_signum_kernel, len(Hyper._fields), flat, data)


def aten_update(batch: Batch, hyper: Any, stop: Tensor | None) -> None:
    """Update one batch of slices; `stop` is 1 where it must not."""
    if batch.params[0].dtype in NARROW:
        update_widened(aten_update, batch, hyper, stop)
        return
    for p, g, m in zip(batch.params, batch.grads, batch.states[0], strict=True):
        average = hyper.beta * m + (1.0 - hyper.beta) * g
        sign = torch.where(average > 0, 1.0, torch.where(average < 0, -1.0, average))
        x = (1.0 - hyper.lr * hyper.weight_decay) * p - hyper.lr * sign
        for old, new in ((p, x), (m, average)):
            old.copy_(new if stop is None else torch.where(stop == 0, new, old))


RULE = Rule(
    name="signum_like",
    hyper=Hyper,
    check=check,
    states=("exp_avg",),
    counted=False,
    stateful=lambda hyper: True,
    aten=aten_update,
    triton=update,
    decoupled=True,
    face="SignumLike",
)
