"""How far the elementary functions of our Triton kernels are from the truth."""

from __future__ import annotations

from collections.abc import Mapping

from equivalence.worlds.contract import FunctionError, ulps

NUMPY: Mapping[str, FunctionError] = {
    "exp": ulps(2.52, "numpy loops_exponent_log.dispatch.c.src: max ULP error 2.52, all float32"),
    "log": ulps(3.84, "numpy loops_exponent_log.dispatch.c.src: max ULP error 3.83, all float32"),
    "tanh": ulps(4.0, "numpy loops_hyperbolic: Intel SVML's low-accuracy class, below 4 ulp"),
}
"""numpy's float32 loops, which Triton's interpreter calls; 3.832 was seen for log."""


def triton_functions() -> dict[str, FunctionError]:
    """Read the errors that the kernels declare; this loads triton, as the kernels do."""
    from fast.kernels.elementwise.functions import ERRORS

    source = "fast.kernels.elementwise.functions.ERRORS"
    return {name: FunctionError(*error, source=source) for name, error in ERRORS.items()}
