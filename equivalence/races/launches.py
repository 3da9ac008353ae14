"""What is watched: the pages' examples in every dtype, and the judge's fixed cases.

The addresses of an entrywise op are those of the one pointwise engine, whatever it computes. So of
these ops the examples are all watched, and the cases only of the first with each number of inputs.
"""

from __future__ import annotations

from collections.abc import Iterator

from equivalence.runs.specializations import fixed
from fast.binaries import driving
from fast.ops import OPS

TARGET = "sm_90"
"""TTIR differs by target only where a kernel asks for it, and none does."""

DTYPE = "fp32"
"""The dtype of the cases: of a layout, every dtype has the same addresses in elements."""


def watched(name: str) -> Iterator[tuple[str, driving.Start]]:
    """Yield what is to be launched for an op or an optimizer, and how to call it in a report."""
    for direction, dtype, start in driving.examples(name):
        yield f"{name} {direction} {dtype.name}, an example", start
    if name in OPS and has_cases(name):
        for case, start in fixed(name, DTYPE):
            yield f"{name} {case.direction} {DTYPE}, case {case.shapes}", start


def has_cases(name: str) -> bool:
    """Say whether the cases of an op are watched too."""
    if not OPS[name].entrywise:
        return True
    inputs = len(OPS[name].inputs)
    alike = (op for op in OPS.values() if op.entrywise and len(op.inputs) == inputs)
    return next(alike).name == name
