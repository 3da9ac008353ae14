"""Formats and dtypes, one record each: how numbers are rounded, stored, computed and drawn.

A dtype joins the judge by its record here: rows, cases, contracts and sessions read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format: its precision in bits and its range of exponents."""

    name: str
    precision: int
    min_exponent: int
    max_exponent: int

    @property
    def short(self) -> str:
        """The name in the ladder: f32 for fp32."""
        return self.name.replace("fp", "f")

    @property
    def unit(self) -> float:
        """The unit roundoff u: the largest relative error of rounding to nearest."""
        return 2.0**-self.precision

    @property
    def least_exponent(self) -> int:
        """The exponent of the smallest subnormal number: every number is a multiple of it."""
        return self.min_exponent - self.precision + 1

    @property
    def min_normal(self) -> float:
        """The smallest positive normal number."""
        return 2.0**self.min_exponent

    @property
    def max_finite(self) -> float:
        """The largest finite number."""
        return (2.0 - 2.0 ** (1 - self.precision)) * 2.0**self.max_exponent


FP64 = Format("fp64", 53, -1022, 1023)
FP32 = Format("fp32", 24, -126, 127)
TF32 = Format("tf32", 11, -126, 127)
BF16 = Format("bf16", 8, -126, 127)
FP16 = Format("fp16", 11, -14, 15)

FORMATS: Mapping[str, Format] = {f.name: f for f in (FP64, FP32, TF32, BF16, FP16)}
"""The formats by name; a dtype's name is its format's."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far the numbers of a case go: far enough to show a defect, and no further than results
    of it stay within the format.

    mixed, positive     the largest exponent, up and down, of numbers of mixed scales
    tiny, small         the exponent of numbers whose squares vanish, and of small gradients
    offset, constant    what numbers lie around, and what fills a slice
    logit               the spread of logits
    peak                what exponentials overflow by, beside numbers around 0
    largest             the largest finite number
    smallest, least     the smallest normal number, and the smallest of all but 0
    """

    mixed: int = 12
    positive: int = 100
    tiny: int = -118
    small: int = -26
    offset: float = 1e3
    constant: float = 1e4
    logit: float = 30.0
    peak: float = 120.0
    largest: float = FP32.max_finite
    smallest: float = FP32.min_normal
    least: float = 2.0**FP32.least_exponent

    def of(self, format: Format) -> Reach:
        """Return the same, up to the ends of a format."""
        least = 2.0**format.least_exponent
        return replace(self, largest=format.max_finite, smallest=format.min_normal, least=least)


FAR = Reach()
"""For exponents of 8 bits and more."""


@dataclass(frozen=True, slots=True)
class Dtype:
    """One dtype of tensors.

    store       the format of its numbers, by whose name it goes
    compute     the format in which a backend computes on it
    torch       the name in torch of the dtype of its tensors
    master      the name of the dtype in which a session of this precision keeps its parameters
    reach       how far the numbers of its cases go
    asked       whether every backend is asked about it, and every provider runs sessions in it
    """

    store: Format
    compute: Format
    torch: str
    master: str
    reach: Reach = FAR
    asked: bool = True

    @property
    def narrow(self) -> bool:
        """Whether it is computed in a wider format than it is stored in."""
        return self.store.precision < self.compute.precision


_HALF = Reach(mixed=4, positive=8, tiny=-10, small=-20, offset=32.0, constant=128.0, logit=8.0).of(
    FP16
)
"""For exponents of 5 bits: squares stay below 65504, a row of e^x too, and e^128 leaves fp32."""

DTYPES: Mapping[str, Dtype] = {
    dtype.store.name: dtype
    for dtype in (
        Dtype(FP32, FP32, "float32", "fp32"),
        Dtype(BF16, FP32, "bfloat16", "fp32", FAR.of(BF16)),
        Dtype(FP16, FP32, "float16", "fp32", _HALF),
        Dtype(FP64, FP64, "float64", "fp64", replace(FAR, peak=800.0).of(FP64), asked=False),
    )
}
"""The records by name."""

ASKED = tuple(name for name, dtype in DTYPES.items() if dtype.asked)
"""The names of those that every backend is asked about, and every provider runs sessions in."""


def master_of(precision: str) -> str:
    """Name the dtype of the parameters of a session; tf32 is a precision of fp32's."""
    return DTYPES[precision].master if precision in DTYPES else "fp32"
