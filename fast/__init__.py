"""The speed: a device tape with Triton kernels, and ATen twins where there is no GPU.

Importing this package needs torch and fixes, for the process, how triton will run; triton itself
is imported with the first op.
"""

from __future__ import annotations

import importlib
from typing import Any

try:
    # Not by an import statement, whose name would hide the package fast.torch.
    importlib.import_module("torch")
except ImportError as error:
    raise ImportError(
        "fast needs torch, which the extra [fast] installs: pip install 'twingrad[fast]'"
    ) from error

from fast.device.mode import decide
from fast.errors import (
    Interpreted,
    Rejected,
    Released,
    SessionError,
    Stale,
    Unavailable,
    Unverified,
)

decide()

ROOMS = (
    "errors",
    "protocol",
    "device",
    "tape",
    "ref",
    "naturals",
    "kernels",
    "ops",
    "optim",
    "batches",
    "runtime",
    "session",
    "compiled",
    "programs",
    "autodiff",
    "train",
    "checkpoint",
    "torch",
    "commands",
    "__main__",
)
"""The reading order, which the house rules check: a file imports only what stands before it."""

_LAZY = {
    "Session": "fast.session",
    "CompiledSession": "fast.compiled",
    "Ref": "fast.session",
    "Param": "fast.session",
    "GradMap": "fast.session",
    "Buffer": "fast.session",
    "OPS": "fast.ops",
    "counters": "fast.device.counters",
}

__all__ = [
    "Interpreted",
    "Rejected",
    "Released",
    "SessionError",
    "Stale",
    "Unavailable",
    "Unverified",
    *_LAZY,
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
