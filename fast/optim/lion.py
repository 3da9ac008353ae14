"""Twin of spec.optim.lion.

One launch over flat arenas: a program per chunk, and one more for the step counts, which nobody
reads. Arithmetic of the kernel: decay = R(1 - lr weight_decay) and R(1 - beta) are formed in double
and rounded to fp32 once, as lr and the betas are; then every product and sum is rounded once, not
contracted:

    c = beta1 * m + (1 - beta1) * g
    p = decay * p - lr * sign(c)
    m = beta2 * m + (1 - beta2) * g

A storage of 16 bits is widened on loading and rounded once on storing. torch has no such optimizer:
the ATen twin takes the same steps in ATen calls. Its sign is chosen by comparisons, since torch's
sign of NaN is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fast.device.mode import tl, triton
from fast.optim._functional import Functional
from fast.optim._in_calls import twin
from fast.optim._kernels import keep, lanes, renew_steps, start
from fast.optim._needs import need_betas, need_sizes
from fast.optim._rule import Flat, Formula, Launch, Rule


class Hyper(NamedTuple):
    """The hyper-parameters, in the order of the kernel's table."""

    lr: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.0


def check(hyper: Hyper) -> None:
    """Refuse what breaks C1 or C2 of spec.optim.lion."""
    need_sizes("lion C1", hyper, "lr", "weight_decay")
    need_betas("lion C2", hyper, "beta1", "beta2")


@triton.jit(do_not_specialize=["chunks", "parameters"])
def _lion_kernel(
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
        beta1 = tl.load(row + 1)
        beta2 = tl.load(row + 2)
        decay = (1.0 - lr * tl.load(row + 3)).to(tl.float32)

        start = tl.multiple_of(tl.load(offsets + program), 64)
        inside, covered = lanes(lengths, program, BLOCK, PADDED)
        place = start + tl.arange(0, BLOCK)
        x = tl.load(p + place, mask=covered, other=0.0).to(tl.float32)
        grad = tl.load(g + place, mask=covered, other=0.0).to(tl.float32)
        mean = tl.load(m + place, mask=covered, other=0.0).to(tl.float32)
        if scale is not None:
            grad *= tl.load(scale)
        between = beta1.to(tl.float32) * mean + (1.0 - beta1).to(tl.float32) * grad
        sign = tl.where(between > 0.0, 1.0, tl.where(between < 0.0, -1.0, between))
        x = decay * x - lr.to(tl.float32) * sign
        mean = beta2.to(tl.float32) * mean + (1.0 - beta2).to(tl.float32) * grad
        keep(p, place, x, inside, covered)
        keep(m, place, mean, inside, covered)


def update(flat: Flat, data: Launch) -> None:
    """Start the one launch that updates every chunk."""
    start(_lion_kernel, len(Hyper._fields), flat, data)


def constants(hyper: Hyper, step: int) -> tuple[float, ...]:
    """Form what an update multiplies by, in double; all steps are alike."""
    decay, beta1, beta2 = 1.0 - hyper.lr * hyper.weight_decay, hyper.beta1, hyper.beta2
    return hyper.lr, decay, beta1, 1.0 - beta1, beta2, 1.0 - beta2


def branch(hyper: Hyper) -> bool:
    """Say whether the parameter decays."""
    return hyper.weight_decay != 0.0


def update_in_calls(
    branch: bool, x: Tensor, grad: Tensor, states: Sequence[Tensor], constants: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Write the arithmetic above in ATen calls, each step rounded once."""
    lr, decay, beta1, c1, beta2, c2 = constants
    mean = states[0]
    between = beta1 * mean + c1 * grad
    sign = torch.where(between > 0.0, 1.0, torch.where(between < 0.0, -1.0, between))
    return (decay * x if branch else x) - lr * sign, beta2 * mean + c2 * grad


FORMULA = Formula(constants, branch, update_in_calls)

RULE = Rule(
    name="lion",
    hyper=Hyper,
    check=check,
    states=("exp_avg",),
    counted=False,
    stateful=lambda hyper: True,
    aten=twin(FORMULA),
    triton=update,
    formula=FORMULA,
    decoupled=True,
    face="Lion",
)


class Lion(Functional):
    """Lion on a list of tensors, copied in: `step(grads)`, `params()`, `state()`."""

    def __init__(
        self, params: list[Tensor], hyper: Any = None, provider: str = "aten", **more: Any
    ) -> None:
        super().__init__(RULE, params, hyper or {}, provider, **more)
