"""Sweeps: confirm a declared function error by evaluating a library on many arguments.

A documented bound is a promise of somebody else; a sweep lays the library beside certified balls
and reports the largest error it saw, in units of u |y|, and as a fraction of what is declared.
Arguments are equally spaced among the float32 numbers of an interval, so that all binades and
all significands take part.
`python -m equivalence.backends.sweep` prints the table for the libraries that the contracts name.

>>> worst = sweep("sqrt", np.sqrt, CORRECTLY_ROUNDED, 1000)
>>> worst.fraction <= 1, worst.count
(True, 1000)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

import flint
import numpy as np
import numpy.typing as npt
import torch

from equivalence.backends.fast.functions import NUMPY, triton_functions
from equivalence.backends.torch.functions import TORCH
from equivalence.worlds.balls import Arb
from equivalence.worlds.contract import CORRECTLY_ROUNDED, FP32, FunctionError

Singles = npt.NDArray[np.float32]
Interval = tuple[float, float]

CORE: Mapping[str, Sequence[Interval]] = {
    "exp": ((-87.0, -0.0001), (0.0001, 88.0)),
    "log": ((FP32.min_normal, 0.5), (0.5, 2.0), (2.0, 1e38)),
    "tanh": ((-10.0, -1e-6), (1e-6, 10.0)),
    "expm1": ((-20.0, -1e-30), (1e-30, 1.0), (1.0, 88.0)),
    "log1p": ((-0.9999999, -1e-30), (1e-30, 1.0), (1.0, 1e38)),
    "erf": ((-4.0, -1e-30), (1e-30, 4.0)),
    "sqrt": ((FP32.min_normal, 1e38),),
    "cos": ((1e-6, 6.2831855), (6.2831855, 3e38)),
    "sin": ((1e-6, 6.2831855), (6.2831855, 3e38)),
    "cos of turns": ((2.0**-24, 1.0),),
    "sin of turns": ((2.0**-24, 1.0),),
    "divide": ((1e-18, 1e18),),
}
"""Where each function is swept: where its results are normal numbers, densely where it is hard."""

EXACT: Mapping[str, Callable[[Arb], Arb]] = {
    **{name: methodcaller(name) for name in (*TORCH, *NUMPY)},
    "cos of turns": lambda x: (2 * x).cos_pi(),
    "sin of turns": lambda x: (2 * x).sin_pi(),
}


@dataclass(frozen=True, slots=True)
class Observed:
    """The worst of a sweep: its error in units of u |y|, and its fraction of the declared error."""

    name: str
    error: float
    fraction: float
    argument: float
    count: int


def between(low: float, high: float, count: int) -> Singles:
    """Return count float32 numbers, equally spaced among those from low to high.

    >>> between(1.0, 4.0, 3)
    array([1., 2., 4.], dtype=float32)
    """
    first, last = np.array([low, high], dtype=np.float32).view(np.int32).tolist()
    return np.linspace(first, last, num=count).astype(np.int32).view(np.float32)


def arguments(name: str, count: int) -> Singles:
    """Return count arguments of a function, shared out among the intervals where it is swept."""
    intervals = CORE[name]
    parts = [count // len(intervals)] * len(intervals)
    parts[0] += count - sum(parts)
    return np.concatenate(
        [between(low, high, n) for (low, high), n in zip(intervals, parts, strict=True)]
    )


def sweep(
    name: str, function: Callable[[Singles], Any], declared: FunctionError, count: int
) -> Observed:
    """Evaluate a function of one argument and return its worst error."""
    x = arguments(name, count)
    exact = EXACT[name]
    true = [exact(flint.arb(a)) for a in x.tolist()]
    return _worst(name, x, np.asarray(function(x)), true, declared)


def sweep_division(
    function: Callable[[Singles, Singles], Any], declared: FunctionError, count: int
) -> Observed:
    """Evaluate a division on pairs of arguments and return its worst error."""
    x = between(*CORE["divide"][0], count)
    y = x[np.arange(count) * 7919 % count]
    true = [flint.arb(a) / b for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    return _worst("divide", x, np.asarray(function(x, y)), true, declared)


def _worst(
    name: str, x: Singles, got: Singles, true: Sequence[Arb], declared: FunctionError
) -> Observed:
    unit = FP32.unit
    error = fraction = argument = 0.0
    for a, z, y in zip(x.tolist(), got.tolist(), true, strict=True):
        distance = abs(flint.arb(z) - y)
        scale = abs(y) * unit
        if scale.is_zero():
            continue
        allowed = scale * (declared.relative + declared.slope * abs(a)) + declared.absolute
        share = float(distance / allowed)
        if share > fraction:
            fraction, argument = share, a
        error = max(error, float(distance / scale))
    return Observed(name, error, fraction, argument, len(true))


def of_torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Singles], Singles]:
    """Return a torch function as one of numpy arrays."""
    return lambda x: function(torch.from_numpy(x)).numpy()


LIBRARIES: Mapping[str, Mapping[str, tuple[Callable[[Singles], Any], FunctionError]]] = {
    "numpy": {
        name: (getattr(np, name), error)
        for name, error in {**NUMPY, "sqrt": CORRECTLY_ROUNDED}.items()
    },
    "torch": {name: (of_torch(getattr(torch, name)), error) for name, error in TORCH.items()},
}
"""The libraries behind the declared contracts, with the error declared for each function."""


def triton_library() -> dict[str, tuple[Callable[[Singles], Any], FunctionError]]:
    """Return the kernels of our own pages, and cosine and sine of an angle in turns, on the ring
    that this machine offers."""
    from fast.device import mode
    from fast.kernels.elementwise import functions, pointwise
    from fast.ops import OPS

    def on_device(kernel: Callable[..., torch.Tensor], *first: Any) -> Callable[[Singles], Any]:
        return lambda x: kernel(*first, torch.from_numpy(x).to(mode.device())).cpu().numpy()

    def page(name: str, x: torch.Tensor) -> torch.Tensor:
        z: torch.Tensor = OPS[name].value(x)[0]
        return z

    errors = {**triton_functions(), "sqrt": CORRECTLY_ROUNDED}
    pages = {name: (on_device(page, name), error) for name, error in errors.items() if name in OPS}
    turns = {"cos": functions.cos_of_turns, "sin": functions.sin_of_turns}
    return pages | {
        f"{name} of turns": (on_device(pointwise.value, fn), errors[name])
        for name, fn in turns.items()
    }


DIVISIONS: Mapping[str, Callable[[Singles, Singles], Any]] = {
    "numpy": np.divide,
    "torch": lambda x, y: torch.from_numpy(x).div(torch.from_numpy(y)).numpy(),
}


def table(count: int) -> list[tuple[str, Observed]]:
    """Sweep every library and return what was observed."""
    rows = [
        (library, sweep(name, function, declared, count))
        for library, listed in {**LIBRARIES, "triton": triton_library()}.items()
        for name, (function, declared) in listed.items()
    ]
    divisions = [
        (library, sweep_division(function, CORRECTLY_ROUNDED, count))
        for library, function in DIVISIONS.items()
    ]
    return rows + divisions


def main() -> int:
    """Print the table at 2^16 arguments each; 1 if a declared error was exceeded."""
    rows = table(2**16)
    for library, seen in rows:
        print(
            f"{library:8} {seen.name:8} error {seen.error:6.3f} u   fraction of the declared "
            f"{seen.fraction:.3f}   at {seen.argument!r}   of {seen.count}"
        )
    return int(any(seen.fraction > 1 for _, seen in rows))


if __name__ == "__main__":
    raise SystemExit(main())
