"""How far torch's elementary functions are from the truth, and who says so.

`python -m equivalence.backends.sweep` confirms the numbers of `TORCH`.
"""

from __future__ import annotations

from collections.abc import Mapping

from equivalence.worlds.contract import FunctionError, ulps

TORCH: Mapping[str, FunctionError] = {
    "exp": ulps(1.0, "SLEEF, Sleef_expf_u10: 1.0 ulp"),
    "log": ulps(1.0, "SLEEF, Sleef_logf_u10: 1.0 ulp"),
    "tanh": ulps(1.0, "SLEEF, Sleef_tanhf_u10: 1.0 ulp"),
    "expm1": ulps(1.0, "SLEEF, Sleef_expm1f_u10: 1.0 ulp"),
    "log1p": ulps(1.0, "SLEEF, Sleef_log1pf_u10: 1.0 ulp"),
    "erf": ulps(1.0, "SLEEF, Sleef_erff_u10: 1.0 ulp"),
    "sqrt": ulps(1.0, "Intel MKL VML in high-accuracy mode: below 1 ulp; not correctly rounded"),
    "cos": ulps(3.5, "SLEEF, Sleef_cosf_u35: 3.5 ulp; Intel MKL VML is closer"),
    "sin": ulps(3.5, "SLEEF, Sleef_sinf_u35: 3.5 ulp; Intel MKL VML is closer"),
}
"""torch's vectorized functions on a CPU, in fp32 and in fp64."""

CUDA: Mapping[str, FunctionError] = {
    "exp": ulps(2.0, "CUDA C++ Programming Guide, mathematical functions: expf 2 ulp"),
    "log": ulps(1.0, "CUDA C++ Programming Guide, mathematical functions: logf 1 ulp"),
    "tanh": ulps(2.0, "CUDA C++ Programming Guide, mathematical functions: tanhf 2 ulp"),
    "expm1": ulps(1.0, "CUDA C++ Programming Guide, mathematical functions: expm1f 1 ulp"),
    "log1p": ulps(1.0, "CUDA C++ Programming Guide, mathematical functions: log1pf 1 ulp"),
    "erf": ulps(2.0, "CUDA C++ Programming Guide, mathematical functions: erff 2 ulp"),
    "cos": ulps(2.0, "CUDA C++ Programming Guide, mathematical functions: cosf 2 ulp"),
    "sin": ulps(2.0, "CUDA C++ Programming Guide, mathematical functions: sinf 2 ulp"),
}
"""torch's functions on a GPU."""

ERF_OF_FIVE_TERMS = FunctionError(
    2.0,
    5e-7,
    exact_values=False,
    source="torch's erf of 16 bits, and oneDNN's in gelu, follow Abramowitz and Stegun, 7.1.26, "
    "within 1.5e-7; measured beyond rounding: below 3.3e-7, all 2^16 arguments",
)
"""torch's other error function on a CPU; near 0 its absolute error is larger than its result."""

SAVED_LOGARITHM_WHY = (
    "torch's derivatives.yaml: the gradient exponentiates the saved log-probability p = (x - m) - "
    "log s, whose roundings to storage are relative errors of (|x - m| + |p|) u in exp(p)"
)


def of_saved_logarithm(coarser: float) -> FunctionError:
    """Return the error of exp at an argument that was saved with a unit of `coarser` times u.

    Even exp(0) may be wrong: where the exact argument is 0, the saved one need not be.
    """
    return FunctionError(4.0 * coarser, 0.0, 2.0 * coarser, False, SAVED_LOGARITHM_WHY)
