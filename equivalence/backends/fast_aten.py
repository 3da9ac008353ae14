"""Our own operations on torch's kernels: the ATen twins of every page."""

from __future__ import annotations

from equivalence.backends.fast_ops import FastBackend


class FastAten(FastBackend):
    """The provider `aten`: any device that torch has, and float64 too."""

    def __init__(self) -> None:
        """Name the provider and the dtypes of its twins."""
        super().__init__("fast-aten", "aten", ("fp32", "bf16", "fp64"), ring="host", device="cpu")
