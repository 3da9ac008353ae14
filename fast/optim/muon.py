"""Twin of spec.optim.muon.

One launch over flat arenas blends the moment, writes the direction u of every matrix into scratch
of fp32, and adds up the squares of each chunk; one more program of it counts the steps, which
nobody reads. Then each matrix has launches of its own: one divides by the norm, five for each
iteration, three of them products in IEEE fp32 (fast.kernels.product), and one moves the parameter.
A matrix with more rows than columns is not transposed: there G = X^T X, and the change is X F.

Arithmetic of the kernels: R(1 - momentum) and R(1 - lr weight_decay) are formed in double and
rounded to fp32 once, as the other hyper-parameters and r are; then every operation is rounded once,
not contracted:

    b = momentum * b + (1 - momentum) * g
    u = momentum * b + (1 - momentum) * g    if nesterov, else b
    X = u / max(|u|, eps)
    X = ns_a * X + F X  of  F = ns_b * G + ns_c * (G G)  and  G = X X^T
    p = decay * p - (lr * r) * X

With ns_dtype "bf16", u, max(|u|, eps), every X, G and F are rounded to bf16 once more, as in
torch's own optimizer: products are of bf16 numbers, their sums and what joins them fp32.

A storage of 16 bits is widened on loading and rounded once on storing; u uses the unrounded b.
The ATen twin takes these steps in ATen calls.
"""

# This page is longer than the guide because an update is several kernels, one after another.

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.kernels.product import aten_product, product
from fast.optim._chunks import CHUNK
from fast.optim._functional import Functional
from fast.optim._in_calls import twin
from fast.optim._kernels import keep, lanes, renew_steps, start
from fast.optim._needs import need_betas, need_flag, need_positive, need_sizes
from fast.optim._rule import Flat, Formula, Launch, Rule, need

RATES = (None, "original", "match_rms_adamw")
"""How the rate may follow from the extents of a matrix; None is the original way."""

DTYPES = {None: torch.float32, "bf16": torch.bfloat16}
"""The dtype in which the kernels iterate, by its name; None is that of the update."""

MOST_STEPS = 99
"""The most iterations of an update."""


class Hyper(NamedTuple):
    """The hyper-parameters, in the order of the kernels' table."""

    lr: float = 1e-3
    weight_decay: float = 0.1
    momentum: float = 0.95
    nesterov: bool = True
    ns_a: float = 3.4445
    ns_b: float = -4.775
    ns_c: float = 2.0315
    eps: float = 1e-7
    ns_steps: int = 5
    adjust_lr_fn: str | None = None
    ns_dtype: str | None = None


A, B, C = map(Hyper._fields.index, ("ns_a", "ns_b", "ns_c"))


def check(hyper: Hyper) -> None:
    """Refuse what breaks C1 to C7, or C9, of spec.optim.muon."""
    need_sizes("muon C1", hyper, "lr", "weight_decay")
    need_betas("muon C2", hyper, "momentum")
    for name in ("ns_a", "ns_b", "ns_c"):
        number = getattr(hyper, name)
        need("muon C3", math.isfinite(number), f"{name} is finite", number)
    need_positive("muon C4", hyper, "eps")
    fits = 0 <= hyper.ns_steps <= MOST_STEPS
    need("muon C5", fits, f"ns_steps is an int from 0 to {MOST_STEPS}", hyper.ns_steps)
    need_flag("muon C6", hyper, "nesterov")
    known = f"adjust_lr_fn is one of {', '.join(map(repr, RATES))}"
    need("muon C7", hyper.adjust_lr_fn in RATES, known, repr(hyper.adjust_lr_fn))
    known = f"ns_dtype is one of {', '.join(map(repr, DTYPES))}"
    need("muon C9", hyper.ns_dtype in DTYPES, known, repr(hyper.ns_dtype))


def ratio(adjust_lr_fn: str | None, shape: Sequence[int]) -> tuple[int, int]:
    """Return r^2, the square of what a matrix's rate is multiplied by, as a fraction."""
    rows, columns = shape
    if adjust_lr_fn == "match_rms_adamw":
        return max(rows, columns), 25
    return max(rows, columns), columns


@triton.jit(do_not_specialize=["chunks", "parameters"])
def _blend_kernel(
    p, g, b, offsets, lengths, groups, slots, bump, steps, next_steps, hyper, flag, scale,
    chunks, parameters, u, squares,
    COLUMNS: tl.constexpr, BLOCK: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    clear = tl.load(flag) == 0
    if program == chunks:
        renew_steps(steps, next_steps, bump, parameters, clear, BLOCK)
    elif clear:
        row = hyper + tl.load(groups + program) * COLUMNS
        momentum = tl.load(row + 2).to(tl.float32)
        share = (1.0 - tl.load(row + 2)).to(tl.float32)
        nesterov = tl.load(row + 3) != 0.0
        in_bf16 = tl.load(row + 10) != 0.0

        start = tl.multiple_of(tl.load(offsets + program), 64)
        inside, covered = lanes(lengths, program, BLOCK, PADDED)
        place = start + tl.arange(0, BLOCK)
        grad = tl.load(g + place, mask=covered, other=0.0).to(tl.float32)
        buffer = tl.load(b + place, mask=covered, other=0.0).to(tl.float32)
        if scale is not None:
            grad *= tl.load(scale)
        fresh = share * grad
        buffer = momentum * buffer + fresh
        direction = tl.where(nesterov, momentum * buffer + fresh, buffer)
        direction = tl.where(inside, direction, 0.0)
        held = direction.to(tl.bfloat16).to(tl.float32)
        direction = tl.where(in_bf16, held, direction)
        keep(b, place, buffer, inside, covered)
        keep(u, place, direction, inside, covered)
        tl.store(squares + program, tl.sum(direction * direction, 0))


@triton.jit(do_not_specialize=["group", "parts", "length"],
            do_not_specialize_on_alignment=["squares"])  # fmt: skip
def _divide_kernel(
    x, u, squares, hyper, group, parts, length, COLUMNS: tl.constexpr, BLOCK: tl.constexpr
):
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for before in range(0, parts, BLOCK):
        part = before + tl.arange(0, BLOCK)
        total += tl.load(squares + part, mask=part < parts, other=0.0)
    norm = tl.sqrt_rn(tl.sum(total, 0))
    eps = tl.load(hyper + group * COLUMNS + 7).to(tl.float32)
    norm = tl.where(norm < eps, eps, norm)
    norm = norm.to(x.dtype.element_ty).to(tl.float32)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    direction = tl.load(u + place, mask=place < length, other=0.0)
    entry = tl.div_rn(direction, norm)
    tl.store(x + place, entry.to(x.dtype.element_ty), mask=place < length)


@triton.jit(do_not_specialize=["group", "length"])
def _mix_kernel(
    x, y, hyper, group, length,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = hyper + group * COLUMNS
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x + place, mask=place < length, other=0.0).to(tl.float32)
    right = tl.load(y + place, mask=place < length, other=0.0)
    if RIGHT is not None:
        right *= tl.load(row + RIGHT).to(tl.float32)
    mixed = tl.load(row + LEFT).to(tl.float32) * left + right
    tl.store(x + place, mixed.to(x.dtype.element_ty), mask=place < length)


@triton.jit(do_not_specialize=["group", "length", "most", "least"])
def _move_kernel(
    p, x, hyper, flag, group, length, most, least,
    COLUMNS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    if tl.load(flag) == 0:
        row = hyper + group * COLUMNS
        lr = tl.load(row)
        decay = (1.0 - lr * tl.load(row + 1)).to(tl.float32)
        factor = tl.sqrt_rn(tl.div_rn(most.to(tl.float32), least.to(tl.float32)))
        rate = lr.to(tl.float32) * factor
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(p + place, mask=place < length, other=0.0).to(tl.float32)
        direction = tl.load(x + place, mask=place < length, other=0.0).to(tl.float32)
        moved = decay * value - rate * direction
        tl.store(p + place, moved.to(p.dtype.element_ty), mask=place < length)


def update(flat: Flat, data: Launch) -> None:
    """Blend all moments in one launch, then update matrix by matrix."""
    u = torch.empty_like(flat.params, dtype=torch.float32)
    squares = torch.empty(data.table.chunks, dtype=torch.float32, device=u.device)
    start(_blend_kernel, len(Hyper._fields), flat, data, u, squares)
    first = 0
    for run, hyper in data.matrices:
        direction = run.of(u)
        x = (
            direction
            if hyper.ns_dtype is None
            else direction.new_empty(direction.shape, dtype=DTYPES[hyper.ns_dtype])
        )
        parts = -(-x.numel() // CHUNK)
        row = data.hyper, run.group
        own = squares[first : first + parts]
        _entry(_divide_kernel, x, direction, own, *row, parts, x.numel())
        first += parts
        for _ in range(hyper.ns_steps):
            _iterate(x, row)
        squared = ratio(hyper.adjust_lr_fn, x.shape)
        at = run.group, x.numel()
        _entry(_move_kernel, run.of(flat.params), x, data.hyper, data.flag, *at, *squared)


def _iterate(x: Tensor, row: tuple[Tensor, int]) -> None:
    """Replace X by the next one."""
    tall = x.shape[0] > x.shape[1]
    gram = product(x.t(), x) if tall else product(x, x.t())
    squared = product(gram, gram, stored=False)
    _entry(_mix_kernel, gram, squared, *row, gram.numel(), LEFT=B, RIGHT=C)
    change = product(*((x, gram) if tall else (gram, x)), stored=False)
    _entry(_mix_kernel, x, change, *row, x.numel(), LEFT=A, RIGHT=None)


def _entry(kernel: Any, x: Tensor, *args: Any, **meta: Any) -> None:
    """Launch a kernel over the entries of a matrix."""
    grid = (-(-x.numel() // CHUNK),)
    launch(kernel, grid, x, *args, COLUMNS=len(Hyper._fields), BLOCK=CHUNK, num_warps=4, **meta)


def constants(hyper: Hyper, step: int) -> tuple[float, ...]:
    """Form what an update multiplies by, in double; all steps are alike."""
    decay, momentum = 1.0 - hyper.lr * hyper.weight_decay, hyper.momentum
    return hyper.lr, decay, momentum, 1.0 - momentum, hyper.ns_a, hyper.ns_b, hyper.ns_c, hyper.eps


Branch = tuple[bool, int, str | None, str | None]


def branch(hyper: Hyper) -> Branch:
    """Say which lines of the arithmetic above there are, and how often."""
    return hyper.nesterov, hyper.ns_steps, hyper.adjust_lr_fn, hyper.ns_dtype


def update_in_calls(
    branch: Branch, x: Tensor, grad: Tensor, states: Sequence[Tensor], constants: Sequence[Any]
) -> tuple[Tensor, ...]:  # fmt: skip
    """Write the arithmetic above in ATen calls, each step rounded once."""
    nesterov, steps, adjust_lr_fn, ns_dtype = branch
    lr, decay, momentum, share, a, b, c, eps = constants
    fresh = share * grad
    buffer = momentum * states[0] + fresh
    held = DTYPES[ns_dtype] if ns_dtype else x.dtype
    direction = (momentum * buffer + fresh if nesterov else buffer).to(held)
    norm = wide(direction).square().sum().sqrt()
    norm = torch.where(norm < eps, eps, norm).to(held)
    direction = (wide(direction) / wide(norm)).to(held)
    tall = x.shape[0] > x.shape[1]
    for _ in range(steps):
        turned = direction.t()
        gram = aten_product(turned, direction) if tall else aten_product(direction, turned)
        factor = (b * wide(gram) + c * aten_product(gram, gram, stored=False)).to(held)
        pair = (direction, factor) if tall else (factor, direction)
        direction = (a * wide(direction) + aten_product(*pair, stored=False)).to(held)
    most, least = ratio(adjust_lr_fn, x.shape)
    return decay * x - lr * math.sqrt(most / least) * direction.to(x.dtype), buffer


FORMULA = Formula(constants, branch, update_in_calls)

RULE = Rule(
    name="muon",
    hyper=Hyper,
    check=check,
    states=("momentum_buffer",),
    counted=False,
    stateful=lambda hyper: True,
    aten=twin(FORMULA),
    triton=update,
    formula=FORMULA,
    matrices=True,
    decoupled=True,
    torch=torch.optim.Muon,
)


MOST_KERNELS = 16
"""The blend with and without a scale, the division by the norm, both mixtures, products by a matrix
and by a transposed one, and the move; all but the blend once more for an iteration in bf16; and two
kernels that clip for every optimizer."""


class Muon(Functional):
    """Muon on a list of matrices, copied in: `step(grads)`, `params()`, `state()`."""

    def __init__(
        self, params: list[Tensor], hyper: Any = None, provider: str = "aten", **more: Any
    ) -> None:
        super().__init__(RULE, params, hyper or {}, provider, **more)
