"""The only crossing between host values and device tensors: upload, download, to_float.

Numbers are rounded once, to nearest, ties to even, into the dtype that the device holds; a Fraction
or a long int too, which never passes through a double on its way.
What arrives is always a copy, so that nothing the caller does later reaches the device.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fast._counters import counters
from fast.buffer import Buffer
from fast.errors import Rejected

ACCEPTED = (
    "int, float or Fraction, nested lists of them, numpy arrays, torch tensors and device buffers"
)
DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp64": torch.float64,
}
# Significand bits, and the exponent of the smallest subnormal.
_FORMATS = {
    torch.float64: (53, -1074),
    torch.float32: (24, -149),
    torch.bfloat16: (8, -133),
    torch.float16: (11, -24),
}
_NARROW = (torch.bfloat16, torch.float16)
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def upload(
    data: Any, dtype: str = "fp32", device: torch.device | str | None = None, owner: str = "caller"
) -> Buffer:
    """Copy host data into a new device buffer of their shape and the named dtype, rounding once.

    The caller owns the buffer. An unknown dtype, nested lists that are not rectangular, and numbers
    of another world are Rejected; the message names what came and what is accepted.
    """
    if dtype not in DTYPES:
        raise Rejected(f"upload: unknown dtype {dtype!r}; there are {', '.join(DTYPES)}")
    return Buffer(to_device(data, DTYPES[dtype], torch.device(device or "cpu")), owner)


def download(source: Buffer | Tensor) -> Tensor:
    """Copy a device buffer into a new host tensor of the same shape and dtype.

    The caller owns the tensor. A buffer that was released raises Released.
    """
    tensor = source.tensor if isinstance(source, Buffer) else source
    counters.downloads += 1
    host = tensor.detach().to("cpu", copy=True)
    return host.contiguous()


def to_float(value: Any) -> float:
    """Read one number as a Python float; a Fraction or a long int is rounded once, to nearest.

    Of a buffer, a tensor or an array there must be one entry, of any rank; else its shape is
    Rejected. A buffer that was released raises Released.
    """
    if isinstance(value, Buffer):
        value = value.tensor
    if isinstance(value, (Tensor, np.ndarray)):
        if math.prod(value.shape) != 1:
            raise Rejected(f"to_float: one number is needed, got the shape {tuple(value.shape)}")
        return float(value.item())
    return round_number(value, torch.float64)


def to_device(data: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a fresh device tensor with the data, each number rounded once to `dtype`.

    Numbers of another world, such as duals or symbols, are Rejected by the name of their world:
    programs in those worlds run in the reference, `spec`.
    """
    if type(data) is Tensor and data.dtype is dtype and data.device == device:
        # What is on the device already has crossed before; on a CPU, this is the crossing.
        counters.uploads += data.is_cpu
        source = data.detach() if data.requires_grad else data
        return source.clone(memory_format=torch.contiguous_format)
    source = _read(data, dtype)
    counters.uploads += not isinstance(data, Buffer)
    return _rounded_copy(source, dtype, device)


def to_host(data: Any, dtype: torch.dtype) -> Tensor:
    """Return a fresh host tensor with the data, each number rounded once to `dtype`."""
    source = _read(data, dtype)
    if not source.is_cpu:
        counters.downloads += 1
    return _rounded_copy(source, dtype, torch.device("cpu"))


def _read(data: Any, dtype: torch.dtype) -> Tensor:
    if isinstance(data, Tensor):
        source = data.detach() if data.requires_grad else data
    elif isinstance(data, Buffer):
        source = data.tensor
    elif isinstance(data, (np.ndarray, np.generic)):
        source = _of_numpy(data)
    else:
        source = _of_numbers(data, dtype)
    if source.dtype is not dtype and source.dtype not in _FORMATS:
        _refuse_dtype(source.dtype)
    return source


def to_indices(data: Any, device: torch.device) -> Tensor:
    """Return integers, such as labels, as a fresh int64 (or int32, as given) device tensor."""
    if type(data) is Tensor and data.dtype is torch.int64 and data.device == device:
        counters.uploads += data.is_cpu
        return data.clone(memory_format=torch.contiguous_format)
    if isinstance(data, Buffer):
        data = data.tensor
    elif isinstance(data, (np.ndarray, np.generic)):
        data = _of_numpy(data)
    elif not isinstance(data, Tensor):
        shape, numbers = _flatten(data)
        bad = [n for n in numbers if not isinstance(n, Integral) or isinstance(n, bool)]
        if bad:
            raise Rejected(f"indices: every entry must be an int; got {_name_world(bad[0])}")
        data = torch.tensor([int(n) for n in numbers], dtype=torch.int64).reshape(shape)
    if data.dtype not in _INTEGERS:
        raise Rejected(f"indices: integers are needed, such as int64; got {data.dtype}")
    counters.uploads += 1
    kept = data.dtype if data.dtype is torch.int32 else torch.int64
    return data.to(device=device, dtype=kept, copy=True).contiguous()


def to_mask(data: Any, device: torch.device) -> Tensor:
    """Return booleans, such as the mask of `where`, as a fresh device tensor."""
    if isinstance(data, Buffer):
        data = data.tensor
    elif isinstance(data, (np.ndarray, np.generic)):
        data = torch.from_numpy(np.array(data, order="C")) if data.dtype == np.bool_ else data
    elif not isinstance(data, Tensor):
        shape, truths = _flatten(data)
        bad = [t for t in truths if not isinstance(t, (bool, np.bool_))]
        if bad:
            raise Rejected(f"mask: every entry must be a bool; got {_name_world(bad[0])}")
        data = torch.tensor([bool(t) for t in truths], dtype=torch.bool).reshape(shape)
    if data.dtype is not torch.bool:
        raise Rejected(f"mask: booleans are needed, such as torch.bool; got {data.dtype}")
    counters.uploads += 1
    fresh: Tensor = data.to(device=device, copy=True)
    return fresh.contiguous()


def round_number(value: Any, dtype: torch.dtype) -> float:
    """Round one number to the nearest value of a format, ties to even, once."""
    if isinstance(value, bool) or not isinstance(value, (Real, Fraction)):
        raise Rejected(_other_world(value))
    exact: Fraction
    if isinstance(value, (Integral, Fraction)):
        exact = Fraction(value)
    else:
        number = float(value)
        if dtype is torch.float64 or not math.isfinite(number) or number == 0.0:
            return number
        exact = Fraction(number)
    return _nearest(exact, *_FORMATS[dtype])


def _nearest(exact: Fraction, digits: int, lowest: int) -> float:
    if exact == 0:
        return 0.0
    magnitude = abs(exact)
    scale = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** scale:
        scale -= 1
    quantum = max(scale - digits + 1, lowest)
    # Python rounds a Fraction to the nearest int, ties to even.
    count = round(magnitude / Fraction(2) ** quantum)
    # The bias of every format here is symmetric: the largest exponent is -(lowest) - digits + 2.
    if count * Fraction(2) ** quantum >= Fraction(2) ** (-lowest - digits + 3):
        return math.inf if exact > 0 else -math.inf
    return math.copysign(math.ldexp(float(count), quantum), exact)


def _rounded_copy(source: Tensor, dtype: torch.dtype, device: torch.device) -> Tensor:
    if source.dtype is dtype and source.device == device:
        return source.clone(memory_format=torch.contiguous_format)
    if dtype in _NARROW and source.dtype is not torch.float32:
        if source.dtype is torch.int64 and source.numel() and source.abs().max() > 2**53:
            source = _of_numbers(source.tolist(), dtype)
        # Two roundings to nearest are not one, unless the first is to odd.
        source = _round_to_odd(source.to(torch.float64))
    return source.to(device=device, dtype=dtype, copy=True, memory_format=torch.contiguous_format)


def _round_to_odd(source: Tensor) -> Tensor:
    """Round float64 to float32 so that a later rounding to fewer digits is exact."""
    nearest = source.to(torch.float32)
    back = nearest.to(torch.float64)
    bits = nearest.view(torch.int32)
    away = (back.abs() > source.abs()) & back.isfinite()
    bits = torch.where(away | (back.isinf() & source.isfinite()), bits - 1, bits)
    inexact = (back != source) & source.isfinite()
    return torch.where(inexact, bits | 1, bits).view(torch.float32)


def _of_numpy(data: np.ndarray[Any, Any] | np.generic) -> Tensor:
    array = np.asarray(data)
    if array.dtype.kind not in "iuf" or array.dtype == np.longdouble:
        raise Rejected(f"upload: a numpy array of {array.dtype} is not accepted; {_accepted()}")
    # A tensor shares memory with the array, which may be read-only, negative-strided or swapped.
    native = array.dtype.newbyteorder("=")
    return torch.from_numpy(np.array(array, dtype=native, order="C", copy=True))


def _of_numbers(data: Any, dtype: torch.dtype) -> Tensor:
    shape, numbers = _flatten(data)
    doubles = [
        number if type(number) is float else round_number(number, dtype) for number in numbers
    ]
    return torch.tensor(doubles, dtype=torch.float64).reshape(shape)


def _flatten(data: Any) -> tuple[tuple[int, ...], list[Any]]:
    if not isinstance(data, (list, tuple)):
        return (), [data]
    parts = [_flatten(part) for part in data]
    shapes = {shape for shape, _ in parts}
    if len(shapes) > 1:
        raise Rejected(
            f"upload: nested lists must be rectangular; got parts of shapes {sorted(shapes)}"
        )
    inner = shapes.pop() if shapes else ()
    return (len(parts), *inner), [number for _, numbers in parts for number in numbers]


def _refuse_dtype(dtype: torch.dtype) -> None:
    if dtype not in _INTEGERS:
        raise Rejected(f"upload: a tensor of {dtype} is not accepted; {_accepted()}")


def _name_world(value: Any) -> str:
    kind = type(value)
    prefix = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return prefix + kind.__qualname__


def _other_world(value: Any) -> str:
    return f"upload: numbers of the world {_name_world(value)} cannot go to a device; {_accepted()}"


def _accepted() -> str:
    return f"accepted are {ACCEPTED} (bool is not a number here: write 0 or 1)"
