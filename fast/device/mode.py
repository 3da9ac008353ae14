"""Decides, before triton is first imported, whether kernels run on a device or interpreted.

Triton fixes that choice when a kernel is decorated, its own library included, and once per process.
So this is the only place in `fast` that imports triton or reads the environment:
`from fast.device.mode import triton, tl` makes the choice, and refuses when it came too late.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from fast.device.versions import mend
from fast.errors import Interpreted, Unavailable, extra

if TYPE_CHECKING:
    import triton  # noqa: F401
    import triton.language as tl  # noqa: F401

INTERPRET = "TRITON_INTERPRET"
COMPILE_TARGET = "TWINGRAD_COMPILE_TARGET"
_TRUE = ("1", "true", "yes", "on", "y")
_ASKED = os.environ.get(INTERPRET, "").lower() in _TRUE
"""Whether the interpreter was asked for, before `decide` asks triton for it."""


@cache
def cuda_available() -> bool:
    """Say whether torch sees a CUDA device."""
    return torch.cuda.is_available()


def compile_target() -> str | None:
    """Name the target, such as `sm_90`, that this process only compiles for, if it does."""
    return os.environ.get(COMPILE_TARGET) or None


@cache
def ring() -> str:
    """Name how kernels run here: `device`, `interpreted`, or `compiled` where they never run."""
    if compile_target() is not None:
        return "compiled"
    if os.environ.get(INTERPRET, "").lower() in _TRUE or not cuda_available():
        return "interpreted"
    return "device"


def say_if_interpreted(who: str, stacklevel: int) -> None:
    """Warn whoever asked for Triton's kernels that they are interpreted here, for want of a GPU.

    It is said once for each line that asks, as Python's warnings are, and not where the interpreter
    was asked for too, by the environment.
    """
    if ring() == "interpreted" and not _ASKED:
        warnings.warn(
            f"{who}: provider 'triton' is interpreted here, since torch sees no CUDA device: it "
            "shows what the kernels compute, hundreds of times slower than provider 'aten'; "
            f"{INTERPRET}=1 in the environment says that this is meant",
            Interpreted,
            stacklevel=stacklevel + 1,
        )


def described(provider: str) -> str:
    """Name a provider for a report, and say where it is interpreted."""
    interpreted = provider == "triton" and ring() == "interpreted"
    return f"{provider} (interpreted)" if interpreted else provider


def device() -> torch.device:
    """Return the device on which this process's kernels find their tensors."""
    return torch.device("cuda" if ring() == "device" else "cpu")


def decide() -> None:
    """Fix the mode for a later import of triton, by whoever it comes, without importing it."""
    if "triton" not in sys.modules:
        if ring() == "interpreted":
            os.environ[INTERPRET] = "1"
        else:
            os.environ.pop(INTERPRET, None)


@cache
def require_triton() -> Any:
    """Import triton in this process's mode, or raise `Unavailable` and say what to do."""
    decide()
    try:
        module = importlib.import_module("triton")
        standard = importlib.import_module("triton.language.standard")
    except ImportError as error:
        raise Unavailable(
            f"fast: the Triton kernels need triton, which is for Linux, and which {extra('fast')}"
        ) from error
    loaded = type(standard.zeros).__name__ == "InterpretedFunction"
    if loaded != (ring() == "interpreted"):
        raise Unavailable(_too_late(loaded))
    if loaded:
        mend(module)
    return module


def _too_late(interpreted: bool) -> str:
    if interpreted:
        found, wanted = "interpreted", "compiled"
        advice = f"remove {INTERPRET} from the environment before triton is imported"
    else:
        found, wanted = "compiled", "interpreted"
        advice = f"set {INTERPRET}=1 in the environment, or import fast before what imports triton"
    return (
        f"fast: triton was loaded in {found} mode before fast could choose, and a process has one "
        f"mode; kernels here must run {wanted} (ring {ring()!r}): {advice}"
    )


def __getattr__(name: str) -> Any:
    if name == "triton":
        return require_triton()
    if name == "tl":
        require_triton()
        return importlib.import_module("triton.language")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
