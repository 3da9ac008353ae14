"""The speed: a device tape with Triton kernels, and ATen twins where there is no GPU.

Importing this package needs torch and fixes, for the process, how triton will run; triton itself
is imported with the first op.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fast.errors import (
    Frozen,
    Interpreted,
    OtherThreads,
    Rejected,
    Released,
    SessionError,
    Stale,
    Unavailable,
    Unmoved,
    Unverified,
    extra,
)

# Not by import statements: the name torch would hide the package fast.torch.
try:
    for _library in ("torch", "numpy", "safetensors"):
        importlib.import_module(_library)
except ImportError as error:
    raise ImportError(f"fast needs {_library}, which {extra('fast')}") from error

from fast.device.mode import decide

decide()

ROOMS = (
    "errors",
    "answers",
    "protocol",
    "disk",
    "device",
    "tape",
    "indexing",
    "einsum",
    "products",
    "broadcasting",
    "normalizing",
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
    "loops",
    "torch",
    "binaries",
    "commands",
    "__main__",
)
"""The reading order, which the house rules check: a file imports only what stands before it."""

if TYPE_CHECKING:
    from fast.compiled import CompiledSession
    from fast.device.counters import counters
    from fast.ops import OPS
    from fast.session import Buffer, GradMap, IndexRef, NamedBuffer, Param, Ref, Session

_LAZY = {
    "Session": "fast.session",
    "CompiledSession": "fast.compiled",
    "Ref": "fast.session",
    "IndexRef": "fast.session",
    "NamedBuffer": "fast.session",
    "Param": "fast.session",
    "GradMap": "fast.session",
    "Buffer": "fast.session",
    "OPS": "fast.ops",
    "counters": "fast.device.counters",
}

__all__ = [
    "OPS",
    "Buffer",
    "CompiledSession",
    "Frozen",
    "GradMap",
    "IndexRef",
    "Interpreted",
    "NamedBuffer",
    "OtherThreads",
    "Param",
    "Ref",
    "Rejected",
    "Released",
    "Session",
    "SessionError",
    "Stale",
    "Unavailable",
    "Unmoved",
    "Unverified",
    "counters",
]


if not TYPE_CHECKING:
    # A type checker that saw it would take any name for a name of this package.
    def __getattr__(name: str) -> Any:
        if name in _LAZY:
            return getattr(importlib.import_module(_LAZY[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
