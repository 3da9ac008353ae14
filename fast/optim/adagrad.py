"""Twin of spec.optim.adagrad.

One launch over flat arenas: a program per chunk, and one more for the step counts, by which the
kernel knows a parameter's first step, whose sum starts from initial_accumulator_value.

Arithmetic of the kernel: rate = R(lr / (1 + (t - 1) lr_decay)) is formed in double and rounded to
fp32 once, as the other hyper-parameters are; then every operation is rounded once, not contracted:

    g = -g                               if maximize
    g = g + weight_decay * p             left out where weight_decay is 0
    s = s + g * g                        (the first time, s = initial_accumulator_value)
    p = p - (rate * g) / (sqrt(s) + eps)

A storage of 16 bits is widened on loading and rounded once on storing; p uses the unrounded s.

The ATen twin on a CPU is torch._fused_adagrad_: the same constants and order, but `g * g` and
`weight_decay * p` are contracted into their sums. It is given copies in fp32 of 16-bit numbers.
Elsewhere the twin is `update_in_calls`, by counts that stay on the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fast.device.dtypes import NARROW
from fast.device.mode import tl, triton
from fast.optim._functional import Functional
from fast.optim._in_calls import steered, twin
from fast.optim._kernels import keep, lanes, renew_steps, start
from fast.optim._needs import need_flag, need_positive, need_sizes
from fast.optim._rule import Batch, Flat, Formula, Launch, Rule, update_widened


class Hyper(NamedTuple):
    """The hyper-parameters, in the order of the kernel's table."""

    lr: float = 1e-2
    lr_decay: float = 0.0
    weight_decay: float = 0.0
    initial_accumulator_value: float = 0.0
    eps: float = 1e-10
    maximize: bool = False


def check(hyper: Hyper) -> None:
    """Refuse what breaks C1, C2 or C3 of spec.optim.adagrad."""
    sizes = ("lr", "lr_decay", "weight_decay", "initial_accumulator_value")
    need_sizes("adagrad C1", hyper, *sizes)
    need_positive("adagrad C2", hyper, "eps")
    need_flag("adagrad C3", hyper, "maximize")


@triton.jit(do_not_specialize=["chunks", "parameters"])
def _adagrad_kernel(
    p, g, s, offsets, lengths, groups, slots, bump, steps, next_steps, hyper, flag, scale,
    chunks, parameters, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    clear = tl.load(flag) == 0
    if program == chunks:
        renew_steps(steps, next_steps, bump, parameters, clear, BLOCK)
    elif clear:
        row = hyper + tl.load(groups + program) * COLUMNS
        lr = tl.load(row)
        lr_decay = tl.load(row + 1)
        decay = tl.load(row + 2).to(tl.float32)
        initial = tl.load(row + 3).to(tl.float32)
        eps = tl.load(row + 4).to(tl.float32)
        maximize = tl.load(row + 5) != 0.0
        before = tl.load(steps + tl.load(slots + program))
        rate = (lr / (1.0 + before.to(tl.float64) * lr_decay)).to(tl.float32)

        start = tl.multiple_of(tl.load(offsets + program), 64)
        inside, covered = lanes(lengths, program, BLOCK, PADDED)
        place = start + tl.arange(0, BLOCK)
        x = tl.load(p + place, mask=covered, other=0.0).to(tl.float32)
        grad = tl.load(g + place, mask=covered, other=0.0).to(tl.float32)
        total = tl.load(s + place, mask=covered, other=0.0).to(tl.float32)
        if scale is not None:
            grad *= tl.load(scale)
        if maximize:
            grad = -grad
        if decay != 0.0:
            grad += decay * x
        total = tl.where(before == 0.0, initial, total) + grad * grad
        x = x - tl.div_rn(rate * grad, tl.sqrt_rn(total) + eps)
        keep(p, place, x, inside, covered)
        keep(s, place, total, inside, covered)


def update(flat: Flat, data: Launch) -> None:
    """Start the one launch that updates every chunk and counts the steps."""
    start(_adagrad_kernel, len(Hyper._fields), flat, data)


def constants(hyper: Hyper, step: int) -> tuple[float, ...]:
    """Form what an update multiplies by, in double; the first sum has no sum behind it."""
    rate = hyper.lr / (1.0 + (step - 1) * hyper.lr_decay)
    kept, start = (0.0, hyper.initial_accumulator_value) if step == 1 else (1.0, 0.0)
    return rate, hyper.weight_decay, kept, start, hyper.eps


def branch(hyper: Hyper) -> tuple[bool, bool]:
    """Say which lines of the arithmetic above there are."""
    return hyper.weight_decay != 0.0, hyper.maximize


def update_in_calls(
    branch: tuple[bool, bool], x: Tensor, grad: Tensor, states: Sequence[Tensor],
    constants: Sequence[Tensor],
) -> tuple[Tensor, ...]:  # fmt: skip
    """Write the arithmetic above in ATen calls, each step rounded once."""
    decays, maximize = branch
    rate, decay, kept, start, eps = constants
    grad = steered(x, grad, decay if decays else None, maximize)
    total = (kept * states[0] + start) + grad * grad
    return x - (rate * grad) / (total.sqrt() + eps), total


FORMULA = Formula(constants, branch, update_in_calls)


def numbers(hyper: Hyper, step: Tensor) -> Sequence[Any]:
    """Form the constants of a count that stays on its device, in double."""
    before = step.double() - 1.0
    kept = (before != 0.0).double()
    start = (1.0 - kept) * hyper.initial_accumulator_value
    rate = hyper.lr / (1.0 + before * hyper.lr_decay)
    return rate, hyper.weight_decay, kept, start, hyper.eps


_in_calls = twin(FORMULA, numbers)


def aten_update(batch: Batch, hyper: Hyper, stop: Tensor | None) -> None:
    """Update one batch of slices; `stop` is 1 where it must not."""
    if stop is not None or not batch.params[0].is_cpu:
        _in_calls(batch, hyper, stop)
        return
    if batch.params[0].dtype in NARROW:
        update_widened(aten_update, batch, hyper, stop)
        return
    if batch.first and hyper.initial_accumulator_value:
        for total in batch.states[0]:
            total.fill_(hyper.initial_accumulator_value)
    torch._fused_adagrad_(
        batch.params, batch.grads, batch.states[0], batch.steps,
        lr=hyper.lr, lr_decay=hyper.lr_decay, weight_decay=hyper.weight_decay, eps=hyper.eps,
        maximize=hyper.maximize,
    )  # fmt: skip


RULE = Rule(
    name="adagrad",
    hyper=Hyper,
    check=check,
    states=("sum",),
    counted=True,
    stateful=lambda hyper: True,
    aten=aten_update,
    triton=update,
    formula=FORMULA,
    squares=("sum",),
    filled=(("sum", "initial_accumulator_value"),),
    torch=torch.optim.Adagrad,
)


class Adagrad(Functional):
    """Adagrad on a list of tensors, copied in: `step(grads)`, `params()`, `state()`."""

    def __init__(
        self, params: list[Tensor], hyper: Any = None, provider: str = "aten", **more: Any
    ) -> None:
        super().__init__(RULE, params, hyper or {}, provider, **more)
