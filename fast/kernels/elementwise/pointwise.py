"""One engine for every pointwise page: any rank, strides, offsets and sizes, one launch.

A page hands over `@triton.jit` functions of fp32 tiles. The function of a value takes the inputs
(then any scalars) and returns the output; the function of a VJP takes the saved tensors and the
cotangent and returns one gradient per input. The engine casts each load to fp32 and each store,
once, to the storage type. In the place of one function a `Chain` of them may stand, which the
kernel walks in its registers: no source is generated.

Operands that are all contiguous and 16-byte aligned take the flat kernel, whose full tiles load
128 bits at a time. All others take the strided kernel, after dimensions that allow it are merged;
more than four that do not merge are first copied to contiguous storage, and more than 2^30
elements are cut into slabs, so that indices fit 32 bits while offsets have 64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.page import Op, Value, Vjp

BLOCK = 1024
MAX_INPUTS = 3
MAX_RANK = 4
SLAB = 2**30
_POINTERS = ["z0", "z1", "x0", "x1", "x2"]
_STRIDES = [f"t{i}{axis}" for i in range(MAX_INPUTS) for axis in range(MAX_RANK)]


class Chain(NamedTuple):
    """Functions of one input that are applied one after the other, and those that lead back.

    places      where the scalars of each function begin, and how many it has
    back        the functions of the VJPs, the last step's first; none for a value
    turns       the same of them, and which number on the way each reads again: 0 is the input, k
                the result of step k, and -1 none
    """

    fns: Any
    places: tuple[tuple[int, int], ...] | None
    back: tuple[Any, ...] | None
    turns: tuple[tuple[int, int, int], ...] | None


@triton.jit
def _with_own(given, scalars, FIRST: tl.constexpr, COUNT: tl.constexpr):
    for j in tl.static_range(COUNT):
        given += (scalars[FIRST + j],)
    return given


@triton.jit
def _along(
    arguments, scalars, FNS: tl.constexpr, PLACES: tl.constexpr,
    BACK: tl.constexpr, TURNS: tl.constexpr,
):  # fmt: skip
    values = (arguments[0],)
    for i in tl.static_range(len(FNS)):
        given = _with_own((values[i],), scalars, PLACES[i][0], PLACES[i][1])
        values += (FNS[i](*given),)
    result = values[len(FNS)]
    if len(BACK) > 0:
        result = arguments[1]
        for k in tl.static_range(len(BACK)):
            if TURNS[k][2] < 0:
                given = _with_own((result,), scalars, TURNS[k][0], TURNS[k][1])
            else:
                pair = (values[TURNS[k][2]], result)
                given = _with_own(pair, scalars, TURNS[k][0], TURNS[k][1])
            result = BACK[k](*given)
    return result


@triton.jit
def _tile(
    FN: tl.constexpr, PLACES: tl.constexpr, BACK: tl.constexpr, TURNS: tl.constexpr,
    INPUTS: tl.constexpr, RESULTS: tl.constexpr,
    z0, z1, needs, index, inputs, offsets, mask, scalars,
):  # fmt: skip
    arguments = ()
    for i in tl.static_range(INPUTS):
        if mask is None:
            x = tl.load(inputs[i] + offsets[i])
        else:
            x = tl.load(inputs[i] + offsets[i], mask=mask, other=0)
        arguments += (x.to(tl.float32),)
    if PLACES is None:
        results = FN(*(arguments + scalars))
    else:
        results = _along(arguments, scalars, FN, PLACES, BACK, TURNS)
    if RESULTS == 1:
        tl.store(z0 + index, results.to(z0.dtype.element_ty), mask=mask)
    else:
        if needs & 1:
            tl.store(z0 + index, results[0].to(z0.dtype.element_ty), mask=mask)
        if needs & 2:
            tl.store(z1 + index, results[1].to(z1.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["needs", "n"])
def _flat_kernel(
    z0, z1, x0, x1, x2, needs, n: tl.int64, scalars,
    FN: tl.constexpr, PLACES: tl.constexpr, BACK: tl.constexpr, TURNS: tl.constexpr,
    INPUTS: tl.constexpr, RESULTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    inputs = (x0, x1, x2)
    start = tl.program_id(0).to(tl.int64) * BLOCK
    index = start + tl.arange(0, BLOCK)
    offsets = (index, index, index)
    if start + BLOCK <= n:
        _tile(FN, PLACES, BACK, TURNS, INPUTS, RESULTS,
              z0, z1, needs, index, inputs, offsets, None, scalars)  # fmt: skip
    else:
        _tile(FN, PLACES, BACK, TURNS, INPUTS, RESULTS,
              z0, z1, needs, index, inputs, offsets, index < n, scalars)  # fmt: skip


@triton.jit(
    do_not_specialize=["needs", "n", "n1", "n2", "n3", *_STRIDES],
    do_not_specialize_on_alignment=_POINTERS,
)
def _strided_kernel(
    z0, z1, x0, x1, x2, needs, n: tl.int32, n1: tl.int32, n2: tl.int32, n3: tl.int32,
    t00: tl.int64, t01: tl.int64, t02: tl.int64, t03: tl.int64,
    t10: tl.int64, t11: tl.int64, t12: tl.int64, t13: tl.int64,
    t20: tl.int64, t21: tl.int64, t22: tl.int64, t23: tl.int64, scalars,
    FN: tl.constexpr, PLACES: tl.constexpr, BACK: tl.constexpr, TURNS: tl.constexpr,
    INPUTS: tl.constexpr, RESULTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    strides = ((t00, t01, t02, t03), (t10, t11, t12, t13), (t20, t21, t22, t23))
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i3 = index % n3
    i2 = index // n3 % n2
    i1 = index // n3 // n2 % n1
    i0 = index // n3 // n2 // n1
    offsets = ()
    for i in tl.static_range(INPUTS):
        t = strides[i]
        offsets += (i0 * t[0] + i1 * t[1] + i2 * t[2] + i3 * t[3],)
    inputs = (x0, x1, x2)
    _tile(FN, PLACES, BACK, TURNS, INPUTS, RESULTS,
          z0, z1, needs, index, inputs, offsets, index < n, scalars)  # fmt: skip


@triton.jit
def _identity(x):
    return x


_watching: ContextVar[list[Any] | None] = ContextVar("watching", default=None)


@contextmanager
def watched() -> Iterator[list[tuple[Any, Sequence[Tensor], tuple[float, ...]]]]:
    """List what would be launched, its function, inputs and scalars, and launch nothing."""
    seen: list[tuple[Any, Sequence[Tensor], tuple[float, ...]]] = []
    token = _watching.set(seen)
    try:
        yield seen
    finally:
        _watching.reset(token)


def value(fn: Any, *inputs: Tensor, scalars: tuple[float, ...] = ()) -> Tensor:
    """Apply `fn` to inputs of equal shape, into fresh contiguous storage of the first's dtype."""
    z = torch.empty_like(inputs[0], memory_format=torch.contiguous_format)
    run(fn, inputs, (z,), scalars)
    return z


def vjp(
    fn: Any,
    saved: Sequence[Tensor],
    cotangent: Tensor,
    needs: Sequence[bool],
    scalars: tuple[float, ...] = (),
) -> tuple[Tensor | None, ...]:
    """Write the gradients that are needed, in one launch; the others are None."""
    gradients = [torch.empty_like(cotangent, memory_format=torch.contiguous_format)
                 if need else None for need in needs]  # fmt: skip
    if any(needs):
        run(fn, (*saved, cotangent), gradients, scalars)
    return tuple(gradients)


def op(
    name: str,
    check: Callable[..., None],
    value: Value,
    vjp: Vjp,
    aten_value: Value,
    aten_vjp: Vjp,
    *,
    inputs: tuple[str, ...],
    attributes: Mapping[str, object] = MappingProxyType({}),
) -> Op:
    """Make the record of a pointwise page: it saves nothing but inputs and result.

    Without attributes, its check is that of entries: one shape, one floating dtype, one device.
    """
    return Op(
        name, check, value, vjp, aten_value, aten_vjp, inputs=inputs, attributes=attributes,
        plain=True, entrywise=not attributes,
    )  # fmt: skip


def copy(x: Tensor, wide: bool = True, dtype: torch.dtype | None = None) -> Tensor:
    """Copy a view of any layout to fresh contiguous storage, of another dtype if one is given.

    A page that needs few compiled kernels more than 128-bit loads says that it is not `wide`.
    """
    z = torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)
    run(_identity, (x,), (z,), wide=wide)
    return z


def run(
    fn: Any,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor | None],
    scalars: tuple[float, ...] = (),
    wide: bool = True,
) -> None:
    """Launch `fn` on inputs of one shape; outputs are contiguous, and None where not needed."""
    watching = _watching.get()
    if watching is not None:
        watching.append((fn, inputs, scalars))
        return
    z = next(output for output in outputs if output is not None)
    n = z.numel()
    checks.for_kernels(z)
    if n == 0:
        return
    flat = wide and all(x.is_contiguous() and x.data_ptr() % 16 == 0 for x in (*inputs, z))
    if not flat and n > SLAB:
        _halves(fn, inputs, outputs, scalars, wide)
        return
    sizes, strides = ((), ()) if flat else merged(z.shape, tuple(x.stride() for x in inputs))
    if len(sizes) > MAX_RANK:
        run(fn, [x.contiguous() for x in inputs], outputs, scalars, wide)
        return
    needs = sum(1 << i for i, output in enumerate(outputs) if output is not None)
    results = [z if output is None else output for output in outputs]
    pointers = (results[0], results[-1], *inputs, *(inputs[0],) * (MAX_INPUTS - len(inputs)))
    grid = ((n + BLOCK - 1) // BLOCK,)
    fns = fn if isinstance(fn, Chain) else Chain(fn, None, None, None)
    meta = {
        "FN": fns.fns, "PLACES": fns.places, "BACK": fns.back, "TURNS": fns.turns,
        "INPUTS": len(inputs), "RESULTS": len(outputs), "BLOCK": BLOCK,
    }  # fmt: skip
    if flat:
        launch(_flat_kernel, grid, *pointers, needs, n, scalars, **meta)
        return
    strides = (*strides, *((),) * (MAX_INPUTS - len(strides)))
    steps = [step for walk in strides for step in _padded(walk, 0)]
    sizes = _padded(sizes, 1)[1:]
    launch(_strided_kernel, grid, *pointers, needs, n, *sizes, *steps, scalars, **meta)


def _halves(
    fn: Any,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor | None],
    scalars: tuple[float, ...],
    wide: bool,
) -> None:
    shape = inputs[0].shape
    axis = next(axis for axis, size in enumerate(shape) if size > 1)
    half = shape[axis] // 2
    for start, length in ((0, half), (half, shape[axis] - half)):
        run(
            fn,
            [x.narrow(axis, start, length) for x in inputs],
            [None if z is None else z.narrow(axis, start, length) for z in outputs],
            scalars,
            wide,
        )


def _padded(values: Sequence[int], fill: int) -> tuple[int, ...]:
    return (*(fill,) * (MAX_RANK - len(values)), *values)


@lru_cache(maxsize=4096)
def merged(
    shape: Sequence[int], strides: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Drop axes of one element and merge neighbours that every operand walks evenly.

    `strides` has a tuple per operand, with 0 along the axes that it is broadcast along; what is
    returned are the fewest sizes, and the operands' strides over them.
    """
    if 0 in shape:
        return (0,), ((1,),) * len(strides)
    sizes: list[int] = []
    walks: list[list[int]] = [[] for _ in strides]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        here = [t[axis] for t in strides]
        if sizes and all(walk[-1] == t * size for walk, t in zip(walks, here, strict=True)):
            sizes[-1] *= size
            for walk, t in zip(walks, here, strict=True):
                walk[-1] = t
        else:
            sizes.append(size)
            for walk, t in zip(walks, here, strict=True):
                walk.append(t)
    return tuple(sizes), tuple(tuple(walk) for walk in walks)
