"""Twin of spec.optim.drift.

One launch over flat arenas; every product and sum is rounded once, not contracted.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

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

    lr: float
    keep: float = 0.9
    weight_decay: float = 0.0


def check(hyper: Hyper) -> None:
    """Refuse what breaks C1 or C2 of spec.optim.drift."""
    for name in ("lr", "weight_decay"):
        number = getattr(hyper, name)
        need("drift C1", finite_and_not_negative(number), f"{name} is finite and >= 0", number)
    need("drift C2", 0.0 <= hyper.keep < 1.0, "keep lies in [0, 1)", hyper.keep)


@triton.jit(do_not_specialize=["chunks", "parameters"])
def _drift_kernel(
    p, g, m, offsets, lengths, groups, slots, bump, steps, next_steps, hyper, flag, scale,
    chunks, parameters, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    clear = tl.load(flag) == 0
    if program == chunks:
        renew_steps(steps, next_steps, bump, parameters, clear, BLOCK)
    elif clear:
        row = hyper + tl.load(groups + program) * COLUMNS
        lr = tl.load(row).to(tl.float32)
        added = (1.0 - tl.load(row + 1)).to(tl.float32)
        decay = tl.load(row + 2).to(tl.float32)
        inside, covered = lanes(lengths, program, BLOCK, PADDED)
        place = tl.multiple_of(tl.load(offsets + program), 64) + tl.arange(0, BLOCK)
        x = tl.load(p + place, mask=covered, other=0.0).to(tl.float32)
        gradient = tl.load(g + place, mask=covered, other=0.0).to(tl.float32)
        average = tl.load(m + place, mask=covered, other=0.0).to(tl.float32)
        if scale is not None:
            gradient *= tl.load(scale)
        average += added * (gradient - average)
        x = x - lr * (average + decay * x)
        keep(p, place, x, inside, covered)
        keep(m, place, average, inside, covered)


def update(flat: Flat, data: Launch) -> None:
    """Start the one launch that updates every chunk and counts the steps."""
    start(_drift_kernel, len(Hyper._fields), flat, data)


def aten_update(batch: Batch, hyper: Hyper, stop: Tensor | None) -> None:
    """Update one batch of slices; `stop` is 1 where it must not."""
    if batch.params[0].dtype.itemsize == 2:
        update_widened(aten_update, batch, hyper, stop)
        return
    on = 1.0 if stop is None else 1.0 - stop
    for p, g, m in zip(batch.params, batch.grads, batch.states[0], strict=True):
        m.add_((1.0 - hyper.keep) * (g - m) * on)
        p.sub_(hyper.lr * (m + hyper.weight_decay * p) * on)


RULE = Rule(
    name="drift",
    hyper=Hyper,
    check=check,
    states=("average",),
    counted=True,
    stateful=lambda hyper: True,
    aten=aten_update,
    triton=update,
    decoupled=True,
    face="Drift",
)
