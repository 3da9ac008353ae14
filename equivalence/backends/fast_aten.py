"""Our own operations on torch's kernels: the ATen twins of every page."""

from __future__ import annotations

from equivalence.backends.fast_ops import FastBackend
from equivalence.dtypes import DTYPES


class FastAten(FastBackend):
    """The provider `aten`: any device that torch has, and float64 too."""

    def __init__(self) -> None:
        """Name the provider and the dtypes of its twins."""
        super().__init__("fast-aten", "aten", DTYPES, ring="host", device="cpu")
