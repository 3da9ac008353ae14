"""The only crossing between host values and device tensors: upload, download, to_float.

Numbers are rounded once, to nearest, ties to even, into the dtype that the device holds; a Fraction
or a long int too, which never passes through a double on its way.
What arrives is always a copy, so that nothing the caller does later reaches the device.
"""

from __future__ import annotations

import math
from ctypes import c_float
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fast.device import dtypes
from fast.device.buffer import Buffer
from fast.device.counters import counters
from fast.device.options import placed
from fast.errors import Rejected

ACCEPTED = (
    "int, float or Fraction, nested lists of them, numpy arrays, torch tensors and device buffers"
)
_OF_A_DOUBLE = (torch.float64, torch.float32)
"""What C makes of a double in one rounding to nearest."""
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
"""The dtypes of indices: those of integers that torch calculates with."""
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
NUMBERS = (*dtypes.OF, *INTEGERS, *UNSIGNED)
"""The dtypes of real numbers."""


def upload(
    data: Any, dtype: str = "fp32", device: torch.device | str | None = None, owner: str = "caller"
) -> Buffer:
    """Copy host data into a new device buffer of their shape and the named dtype, rounding once.

    The caller owns the buffer; the device is the CPU where None. An unknown dtype or device, nested
    lists that are not rectangular, sparse tensors, and numbers of another world are Rejected; the
    message names what came and what is accepted. A device that is not here raises Unavailable.
    """
    if not isinstance(dtype, str) or dtype not in dtypes.NAMED:
        raise Rejected(f"upload: unknown dtype {dtype!r}; there are {', '.join(dtypes.NAMED)}")
    place = placed("upload", "cpu" if device is None else device)
    return Buffer(to_device(data, dtypes.NAMED[dtype].storage, place), owner)


def download(source: Buffer | Tensor) -> Tensor:
    """Copy a device buffer into a new host tensor of the same shape and dtype.

    The caller owns the tensor. What is neither a buffer nor a tensor is Rejected; a buffer that was
    released raises Released.
    """
    tensor = source.tensor if isinstance(source, Buffer) else source
    if not isinstance(tensor, Tensor):
        raise Rejected(
            f"download: a device buffer or a torch tensor is needed, got {_name_world(source)}"
        )
    counters.downloads += 1
    host = tensor.detach().to("cpu", copy=True)
    return host.contiguous()


def to_float(value: Any) -> float:
    """Read one number as a Python float; a Fraction or a long int is rounded once, to nearest.

    Of a buffer, a tensor or an array there must be one entry, of any rank; else its shape is
    Rejected, as are numbers of another world, complex ones among them. A buffer that was released
    raises Released.
    """
    if isinstance(value, Buffer):
        value = value.tensor
    if isinstance(value, (Tensor, np.ndarray)):
        if math.prod(value.shape) != 1:
            raise Rejected(f"to_float: one number is needed, got the shape {tuple(value.shape)}")
        value = value.item()
    return round_number(value, torch.float64)


def to_device(data: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a fresh device tensor with the data, each number rounded once to `dtype`.

    Numbers of another world, such as duals or symbols, are Rejected by the name of their world:
    programs in those worlds run in the reference, `spec`.
    """
    if (
        type(data) is Tensor
        and data.dtype is dtype
        and data.device == device
        and data.layout is torch.strided
    ):
        # What is on the device already has crossed before; on a CPU, this is the crossing.
        counters.uploads += data.is_cpu
        source = data.detach() if data.requires_grad else data
        return source.clone(memory_format=torch.contiguous_format)
    source = _read(data, dtype)
    counters.uploads += not isinstance(data, Buffer)
    return _rounded_copy(source, dtype, device)


def to_host(data: Any, dtype: torch.dtype) -> Tensor:
    """Return a fresh host tensor with the data, each number rounded once to `dtype`.

    Refusals are `to_device`'s.
    """
    source = _read(data, dtype)
    if not source.is_cpu:
        counters.downloads += 1
    return _rounded_copy(source, dtype, torch.device("cpu"))


def _read(data: Any, dtype: torch.dtype) -> Tensor:
    if isinstance(data, (Tensor, Buffer)):
        source = dense("upload", data.tensor if isinstance(data, Buffer) else data)
    elif isinstance(data, (np.ndarray, np.generic)) and type(data) is not np.longdouble:
        source = _of_numpy(data)
    else:
        source = _of_numbers(data, dtype)
    if source.dtype is not dtype and source.dtype not in dtypes.OF:
        _refuse_dtype(source.dtype)
    return source


def dense(who: str, source: Tensor) -> Tensor:
    """Return a tensor without its autograd graph; one that holds no dense numbers is Rejected."""
    if source.is_nested or source.layout is not torch.strided or source.is_meta:
        kind = "the meta device" if source.is_meta else source.layout
        kind = "nested tensors" if source.is_nested else kind
        raise Rejected(
            f"{who}: a dense tensor is needed, got one of {kind}; accepted is a dense one that "
            "holds its numbers "
            "(to_dense() makes one of a sparse tensor)"
        )
    return source.detach() if source.requires_grad else source


def to_indices(data: Any, device: torch.device, who: str = "indices") -> Tensor:
    """Return integers, such as labels, as a fresh int64 (or int32, as given) device tensor.

    What is no integer, or does not fit int64, is Rejected; the message begins with `who`.
    """
    if (
        type(data) is Tensor
        and data.dtype is torch.int64
        and data.device == device
        and data.layout is torch.strided
    ):
        counters.uploads += data.is_cpu
        return data.clone(memory_format=torch.contiguous_format)
    if isinstance(data, Buffer):
        data = data.tensor
    elif isinstance(data, (np.ndarray, np.generic)):
        if data.dtype.kind not in "iu":
            raise Rejected(f"{who}: integers are needed, such as int64; got {_of_dtype(data)}")
        data = _of_numpy(data)
    elif not isinstance(data, Tensor):
        shape, numbers = _flatten(data, who)
        bad = [n for n in numbers if not isinstance(n, Integral) or isinstance(n, bool)]
        if bad:
            raise Rejected(f"{who}: every entry must be an int; got {_name_world(bad[0])}")
        data = torch.tensor([_within_int64(int(n), who) for n in numbers], dtype=torch.int64)
        data = data.reshape(shape)
    data = dense(who, data)
    if data.dtype in UNSIGNED:
        data = _signed(data, who)
    if data.dtype not in INTEGERS:
        raise Rejected(f"{who}: integers are needed, such as int64; got {_of_dtype(data)}")
    counters.uploads += 1
    kept = data.dtype if data.dtype is torch.int32 else torch.int64
    return data.to(device=device, dtype=kept, copy=True).contiguous()


def _of_dtype(data: Any) -> str:
    """Say what an array or a tensor is, as its caller had it."""
    kind = "tensor" if isinstance(data, Tensor) else "numpy array"
    return f"a {kind} of {data.dtype}"


def _within_int64(number: int, who: str) -> int:
    if not -(2**63) <= number < 2**63:
        raise Rejected(f"{who}: every entry must fit int64, [-2^63, 2^63); got {number}")
    return number


def _signed(source: Tensor, who: str) -> Tensor:
    """Return unsigned integers, of which torch computes little, as int64, if they fit."""
    wide = source.to(torch.int64)
    if wide.numel() and int(wide.min()) < 0:
        _within_int64(int(wide[wide < 0].max()) + 2**64, who)
    return wide


def to_mask(data: Any, device: torch.device, who: str = "mask") -> Tensor:
    """Return booleans, such as the mask of `where`, as a fresh device tensor.

    What is no boolean is Rejected; the message begins with `who`.
    """
    if isinstance(data, Buffer):
        data = data.tensor
    elif isinstance(data, (np.ndarray, np.generic)):
        data = torch.from_numpy(np.array(data, order="C")) if data.dtype == np.bool_ else data
    elif not isinstance(data, Tensor):
        shape, truths = _flatten(data, who)
        bad = [t for t in truths if not isinstance(t, (bool, np.bool_))]
        if bad:
            raise Rejected(f"{who}: every entry must be a bool; got {_name_world(bad[0])}")
        data = torch.tensor([bool(t) for t in truths], dtype=torch.bool).reshape(shape)
    if data.dtype is not torch.bool:
        raise Rejected(f"{who}: booleans are needed, such as torch.bool; got {_of_dtype(data)}")
    data = dense(who, data)
    counters.uploads += 1
    fresh: Tensor = data.to(device=device, copy=True)
    return fresh.contiguous()


def round_number(value: Any, dtype: torch.dtype) -> float:
    """Round one number to the nearest value of a format, ties to even, once.

    What is no real number, or a boolean, is Rejected by the name of its world.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise Rejected(_other_world(value))
    if isinstance(value, float) and dtype in _OF_A_DOUBLE:
        return float(value) if dtype is torch.float64 else c_float(value).value
    exact, format = _exactly(value), dtypes.OF[dtype]
    if exact is None or exact == 0:
        return float(value)
    return _nearest(exact, format.digits, format.lowest)


def _exactly(value: Real) -> Fraction | None:
    """Return the number as a fraction; None of what is not finite."""
    if isinstance(value, Integral):
        return Fraction(int(value))
    if isinstance(value, Rational):
        # Those of other libraries are read through ints, not through a double.
        return Fraction(int(value.numerator), int(value.denominator))
    try:
        ratio = getattr(value, "as_integer_ratio", None) or float(value).as_integer_ratio
        return Fraction(*ratio())
    except (OverflowError, ValueError):
        return None


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
    long = source.dtype is torch.int64 and source.numel() and source.abs().max() > 2**53
    if long and dtypes.OF[dtype].narrow:
        source = _of_numbers(source.tolist(), dtype)
    return dtypes.copied(source, dtype, device)


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


def _flatten(data: Any, who: str = "upload") -> tuple[tuple[int, ...], list[Any]]:
    if not isinstance(data, (list, tuple)):
        return (), [data]
    parts = [_flatten(part, who) for part in data]
    shapes = {shape for shape, _ in parts}
    if len(shapes) > 1:
        raise Rejected(
            f"{who}: nested lists must be rectangular; got parts of shapes {sorted(shapes)}"
        )
    inner = shapes.pop() if shapes else ()
    return (len(parts), *inner), [number for _, numbers in parts for number in numbers]


def _refuse_dtype(dtype: torch.dtype) -> None:
    if dtype not in INTEGERS:
        raise Rejected(f"upload: a tensor of {dtype} is not accepted; {_accepted()}")


def _name_world(value: Any) -> str:
    kind = type(value)
    prefix = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return prefix + kind.__qualname__


def _other_world(value: Any) -> str:
    return f"upload: numbers of the world {_name_world(value)} cannot go to a device; {_accepted()}"


def _accepted() -> str:
    return f"accepted are {ACCEPTED} (bool is not a number here: write 0 or 1)"
