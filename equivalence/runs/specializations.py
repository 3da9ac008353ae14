"""How many kernels the suite's cases make an op compile for a dtype: a few, whatever the shapes.

    python -m equivalence.runs.specializations [--target sm_90] [--ops ...] [--profile ci]

A kernel that triton compiles anew for each size costs a training run its first minutes. So the
hosts are driven over the cases of a profile in compile-only mode, where nothing runs, and the
distinct kernels are counted. Exit code 1 where an op needs more for one dtype than
`fast.binaries.compilation` allows: four, or what its page declares in `MOST_KERNELS`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

import torch

from equivalence.cases.built import build
from equivalence.cases.call import CaseSpec, handed
from equivalence.dtypes import ASKED
from equivalence.registry import OPS as PAGES
from equivalence.registry import OPTIMIZERS

DIRECTIONS = ("value", "vjp")


def count(op: str, dtype: str, cases: int) -> int:
    """Count the distinct kernels that the fixed and the drawn cases of an op and dtype compile."""
    from fast.device import launch

    seen: set[str] = set()
    for start in launches(op, dtype, cases):
        launch.compiled.clear()
        start()
        seen.update(compiled.hash for _, compiled, _ in launch.compiled)
    return len(seen)


class Start:
    """One call of an op's hosts on the tensors of a case."""

    def __init__(self, case: CaseSpec) -> None:
        """Remember the case; its tensors are built when it starts."""
        self._case = case

    def __call__(self) -> None:
        """Launch the value and, where the case has a cotangent, the VJP."""
        from fast.ops import OPS

        case = self._case
        built = build(case)
        page, inputs = OPS[case.op], list(built.views())
        place = {"device": torch.device("cpu")} if page.source else {}
        attributes = handed(case.op, case.attributes(), case.dtype)
        _, saved = page.value(*inputs, **attributes, **place)
        if case.direction == "vjp" and built.cotangents:
            needs = [k not in page.index_inputs for k in range(len(inputs))]
            seeds = tuple(item.view for item in built.cotangents)
            page.vjp(saved, seeds if page.results > 1 else seeds[0], needs)


def launches(op: str, dtype: str, cases: int) -> Iterator[Start]:
    """Yield every case of an op's rows of one dtype, as a profile would run them."""
    from equivalence.cases.strategies import case_specs, draw_many

    for direction in _directions(op):
        drawn = draw_many(case_specs(op, direction, dtype), cases, 0)
        for case in drawn:
            yield Start(case)
    for _, start in fixed(op, dtype):
        yield start


def _directions(op: str) -> tuple[str, ...]:
    """Return the directions in which an op has cases: of indices there are values alone."""
    return DIRECTIONS if PAGES[op].moves else DIRECTIONS[:1]


def fixed(op: str, dtype: str) -> Iterator[tuple[CaseSpec, Start]]:
    """Yield the cases of an op's rows of one dtype that are the same in every run."""
    from equivalence.cases.strata.fixed import extras, strata

    for direction in _directions(op):
        for case in (*strata(op, direction, dtype), *extras(op, direction, dtype)):
            yield case, Start(case)


def counted(target: str, ops: Sequence[str], cases: int) -> int:
    """Print a line per op, in a process that is in compile-only mode; return the exit code."""
    from fast.binaries import compilation, driving
    from fast.ops import OPS

    driving.stand_in(target)
    worst, over = 0, False
    for op in (name for name in ops or OPS if name not in OPTIMIZERS):
        numbers = {dtype: count(op, dtype, cases) for dtype in ASKED}
        most = compilation.most_kernels(op)
        worst, beyond = max(worst, *numbers.values()), max(numbers.values()) > most
        over |= beyond
        shown = ", ".join(f"{number} in {dtype}" for dtype, number in numbers.items())
        print(f"{op:<14} {shown}" + (f", over {most}" if beyond else ""))
    print(
        f"{target}: at most {worst} compiled kernels for one op and dtype; "
        f"{compilation.MOST_PER_OP} are allowed, or what a page declares"
    )
    return int(over)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the count in a process of its own, whose triton only compiles."""
    from equivalence.runs.runner import PROFILES
    from fast.device.mode import COMPILE_TARGET, INTERPRET, compile_target

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", default="sm_90", help="the GPU to compile for")
    parser.add_argument(
        "--ops", nargs="*", default=[], help="all if unset; optimizers are passed over"
    )
    parser.add_argument("--profile", choices=tuple(PROFILES), default="ci")
    chosen = parser.parse_args(arguments)
    if compile_target() is not None:
        return counted(chosen.target, chosen.ops, PROFILES[chosen.profile])
    environment = {**os.environ, COMPILE_TARGET: chosen.target}
    environment.pop(INTERPRET, None)
    given = sys.argv[1:] if arguments is None else list(arguments)
    command = [sys.executable, "-m", "equivalence.runs.specializations", *given]
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
