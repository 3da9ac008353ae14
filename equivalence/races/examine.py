"""One task of a worker: watch an op or an optimizer, or plant a fault and see that it is found.

Watched are the pages' examples in every dtype, and the judge's fixed cases. The addresses of an
entrywise op are those of the one pointwise engine, whatever it computes. So of these ops the
examples are all watched, and the cases only of the first with each number of inputs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from equivalence.races.detector import watching
from equivalence.races.fault import Fault, Faulty
from equivalence.races.launches import TARGET
from equivalence.races.planted import PLANTED, Planted
from equivalence.runs.specializations import fixed
from fast.binaries import driving
from fast.ops import OPS

DTYPE = "fp32"
"""The dtype of the cases: of a layout, every dtype has the same addresses in elements."""

MOST = 3
"""How many faults of an op are enough to stop."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What was watched of an op or an optimizer, and the faults, each with what was launched."""

    name: str
    launches: int
    several: int
    instances: int
    kernels: tuple[str, ...]
    faults: tuple[tuple[str, Fault], ...]
    seconds: float

    def line(self) -> str:
        """Say it in a line."""
        return (
            f"{self.name:<14} {self.launches:>4} launches {self.instances:>5} instances "
            f"{self.seconds:6.1f} s  {len(self.faults) or 'no'} faults"
        )


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of the planted fault of some number: the fault that was found, if any."""

    number: int
    found: Fault | None
    seconds: float

    @property
    def planted(self) -> Planted:
        """What was planted."""
        return PLANTED[self.number]

    @property
    def caught(self) -> bool:
        """Whether what was found is what was planted: its kind, its kernel and its line."""
        planted, found = self.planted, self.found
        return found is not None and (
            (found.kind, found.kernel) == (planted.kind, planted.kernel)
            and found.place.text == planted.line
        )

    def line(self) -> str:
        """Say it in a line."""
        said = "found" if self.caught else "NOT FOUND"
        return (
            f"planted: {self.planted.name:<32} {self.seconds:5.1f} s  {self.planted.kind}, {said}"
        )


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


def examine(name: str) -> Examined:
    """Watch an op or an optimizer, until a few faults are found or all is launched."""
    driving.stand_in(TARGET)
    began, faults = time.perf_counter(), list[tuple[str, Fault]]()
    with watching() as watch:
        for what, start in watched(name):
            try:
                start()
            except Faulty as error:
                faults.append((what, error.fault))
            if len(faults) == MOST:
                break
    return Examined(
        name, watch.launches, watch.several, watch.instances, tuple(sorted(watch.kernels)),
        tuple(faults), time.perf_counter() - began,
    )  # fmt: skip


def plant(number: int) -> Tried:
    """Plant a fault and watch the op that has it, until a fault is found."""
    driving.stand_in(TARGET)
    planted, began, found = PLANTED[number], time.perf_counter(), None
    with planted.change.changed(), watching():
        for _, start in watched(planted.op):
            try:
                start()
            except Faulty as error:
                found = error.fault
                break
    return Tried(number, found, time.perf_counter() - began)
