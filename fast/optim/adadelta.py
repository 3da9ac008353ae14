"""Twin of spec.optim.adadelta.

One launch over flat arenas: a program per chunk, and one more for the step counts, which are kept
as torch keeps them. Arithmetic of the kernel: R(1 - rho) is formed in double and rounded to fp32
once, as the other hyper-parameters are; then every operation is rounded once, not contracted:

    g = -g                               if maximize
    g = g + weight_decay * p             left out where weight_decay is 0
    v = rho * v + ((1 - rho) * g) * g
    d = sqrt(u + eps) / sqrt(v + eps) * g
    u = rho * u + ((1 - rho) * d) * d
    p = p - lr * d

A storage of 16 bits is widened on loading and rounded once on storing; d and p use the unrounded u
and v. torch has no fused kernel: the ATen twin takes the same steps in ATen calls.
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

    lr: float = 1.0
    rho: float = 0.9
    eps: float = 1e-6
    weight_decay: float = 0.0
    maximize: bool = False


def check(hyper: Hyper) -> None:
    """Refuse what breaks C1, C2, C3 or C4 of spec.optim.adadelta."""
    need_sizes("adadelta C1", hyper, "lr", "weight_decay")
    need_betas("adadelta C2", hyper, "rho")
    need_positive("adadelta C3", hyper, "eps")
    need_flag("adadelta C4", hyper, "maximize")


@triton.jit(do_not_specialize=["chunks", "parameters"])
def _adadelta_kernel(
    p, g, v, u, offsets, lengths, groups, slots, bump, steps, next_steps, hyper, flag, scale,
    chunks, parameters, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    clear = tl.load(flag) == 0
    if program == chunks:
        renew_steps(steps, next_steps, bump, parameters, clear, BLOCK)
    elif clear:
        row = hyper + tl.load(groups + program) * COLUMNS
        lr = tl.load(row).to(tl.float32)
        rho = tl.load(row + 1).to(tl.float32)
        share = (1.0 - tl.load(row + 1)).to(tl.float32)
        eps = tl.load(row + 2).to(tl.float32)
        decay = tl.load(row + 3).to(tl.float32)
        maximize = tl.load(row + 4) != 0.0

        start = tl.multiple_of(tl.load(offsets + program), 64)
        inside, covered = lanes(lengths, program, BLOCK, PADDED)
        place = start + tl.arange(0, BLOCK)
        x = tl.load(p + place, mask=covered, other=0.0).to(tl.float32)
        grad = tl.load(g + place, mask=covered, other=0.0).to(tl.float32)
        squares = tl.load(v + place, mask=covered, other=0.0).to(tl.float32)
        deltas = tl.load(u + place, mask=covered, other=0.0).to(tl.float32)
        if scale is not None:
            grad *= tl.load(scale)
        if maximize:
            grad = -grad
        if decay != 0.0:
            grad += decay * x
        squares = rho * squares + (share * grad) * grad
        delta = tl.div_rn(tl.sqrt_rn(deltas + eps), tl.sqrt_rn(squares + eps)) * grad
        deltas = rho * deltas + (share * delta) * delta
        x = x - lr * delta
        keep(p, place, x, inside, covered)
        keep(v, place, squares, inside, covered)
        keep(u, place, deltas, inside, covered)


def update(flat: Flat, data: Launch) -> None:
    """Start the one launch that updates every chunk and counts the steps."""
    start(_adadelta_kernel, len(Hyper._fields), flat, data)


def constants(hyper: Hyper, step: int) -> tuple[float, ...]:
    """Form what an update multiplies by, in double; all steps are alike."""
    return hyper.lr, hyper.rho, 1.0 - hyper.rho, hyper.eps, hyper.weight_decay


def branch(hyper: Hyper) -> tuple[bool, bool]:
    """Say which lines of the arithmetic above there are."""
    return hyper.weight_decay != 0.0, hyper.maximize


def update_in_calls(
    branch: tuple[bool, bool], x: Tensor, grad: Tensor, states: Sequence[Tensor],
    constants: Sequence[Tensor],
) -> tuple[Tensor, ...]:  # fmt: skip
    """Write the arithmetic above in ATen calls, each step rounded once."""
    decays, maximize = branch
    lr, rho, share, eps, decay = constants
    squares, deltas = states
    grad = steered(x, grad, decay if decays else None, maximize)
    squares = rho * squares + (share * grad) * grad
    delta = (deltas + eps).sqrt() / (squares + eps).sqrt() * grad
    return x - lr * delta, squares, rho * deltas + (share * delta) * delta


FORMULA = Formula(constants, branch, update_in_calls)

RULE = Rule(
    name="adadelta",
    hyper=Hyper,
    check=check,
    states=("square_avg", "acc_delta"),
    counted=True,
    stateful=lambda hyper: True,
    aten=twin(FORMULA),
    triton=update,
    formula=FORMULA,
    squares=("square_avg", "acc_delta"),
    torch=torch.optim.Adadelta,
)


class Adadelta(Functional):
    """Adadelta on a list of tensors, copied in: `step(grads)`, `params()`, `state()`."""

    def __init__(
        self, params: list[Tensor], hyper: Any = None, provider: str = "aten", **more: Any
    ) -> None:
        super().__init__(RULE, params, hyper or {}, provider, **more)
