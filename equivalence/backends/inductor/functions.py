"""How far the elementary functions of Inductor's C++ are from the truth, and who says so.

A loop calls those of `at::vec` for whole vectors, and those of the C library where it has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from equivalence.backends.torch.functions import ERF_OF_FIVE_TERMS
from equivalence.worlds.contract import CORRECTLY_ROUNDED, Format, FunctionError, ulps

GLIBC = "glibc's manual, Known Maximum Errors in Math Functions, x86_64"
ERF_WHY = (
    "ATen/cpu/vec/vec512/vec512_float.h and vec256_float.h, erf: Abramowitz and Stegun, 7.1.26"
)

BOTH: Mapping[str, FunctionError] = {
    "exp": ulps(1.0, f"SLEEF, Sleef_expf_u10: 1.0 ulp; {GLIBC}: 1 ulp"),
    "log": ulps(1.0, f"SLEEF, Sleef_logf_u10: 1.0 ulp; {GLIBC}: 1 ulp"),
    "tanh": ulps(2.0, f"SLEEF, Sleef_tanhf_u10: 1.0 ulp; {GLIBC}: 2 ulp"),
    "expm1": ulps(1.0, f"SLEEF, Sleef_expm1f_u10: 1.0 ulp; {GLIBC}: 1 ulp"),
    "log1p": ulps(2.0, f"SLEEF, Sleef_log1pf_u10: 1.0 ulp; {GLIBC}: 2 ulp"),
    "erf": ulps(1.0, f"SLEEF, Sleef_erfd_u10: 1.0 ulp; {GLIBC}: 1 ulp"),
    "sqrt": CORRECTLY_ROUNDED,
    "cos": ulps(3.5, f"SLEEF, Sleef_cosf_u35: 3.5 ulp; {GLIBC}: 1 ulp"),
    "sin": ulps(3.5, f"SLEEF, Sleef_sinf_u35: 3.5 ulp; {GLIBC}: 1 ulp"),
}
"""Those of fp32 and of fp64, as far as they are as good."""


def functions_in(compute: Format) -> dict[str, FunctionError]:
    """Return the errors of the functions in a format of computation."""
    erf = replace(ERF_OF_FIVE_TERMS, source=ERF_WHY)
    return {**BOTH, **({"erf": erf} if compute.short == "f32" else {})}
