"""Our own operations under each of their providers: torch's kernels, and Triton's.

Triton fixes the mode once per process, so `fast-triton-interpreted` asks for the interpreter before
anything imports the kernels.
"""

from __future__ import annotations

import os

from equivalence.backends.fast.backend import FastBackend
from equivalence.dtypes import ASKED, DTYPES
from fast.device import mode


class FastAten(FastBackend):
    """The provider `aten`, the ATen twins of every page: any device that torch has, float64 too."""

    def __init__(self) -> None:
        """Name the provider and the dtypes of its twins."""
        super().__init__("fast-aten", "aten", DTYPES, ring="host", device="cpu")


class FastTriton(FastBackend):
    """The provider `triton`, in the ring that this machine offers."""

    def __init__(self) -> None:
        """Read the ring and the device off `fast`, which decides both."""
        super().__init__(
            "fast-triton", "triton", ASKED, ring=mode.ring(), device=str(mode.device())
        )


class FastTritonInterpreted(FastBackend):
    """The provider `triton` in Triton's interpreter, also where there is a GPU."""

    def __init__(self) -> None:
        """Choose the interpreter, or refuse where the kernels are already compiled."""
        os.environ[mode.INTERPRET] = "1"
        mode.ring.cache_clear()
        mode.require_triton()
        super().__init__(
            "fast-triton-interpreted", "triton", ASKED, ring="interpreted", device="cpu"
        )
