"""How large a case is for an interpreted backend: as large as its launches say.

Triton's interpreter runs one program after the other, at about a millisecond each, so that full
sizes would take hours. What can go wrong at a size shows earlier: in the second and third block of
a grid, in the second and third step of a loop within a program, and past the 65,535 programs of a
grid's second axis. So a case grows until its grid has three blocks, the last of them not full, or,
where the grid does not grow, to beyond two of the blocks that the launch names; and once per family
of ops there are more than 65,535 rows.

Launches are read without running a kernel: hosts run, and what they start is written down. An
offset that no int32 holds is out of reach here, as it takes 2^31 elements.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from equivalence.cases.families.growing import MANY_ROWS
from equivalence.cases.families.table import family_of
from equivalence.cases.sizes import SizedCase, build_sized, elements, growths
from equivalence.measure.calling import observe
from equivalence.measure.sizes import grown_to
from equivalence.registry import OPS

Fit = Callable[[SizedCase], SizedCase | None]
"""Returns the call as a backend takes it; None where it does not."""

MOST_PROGRAMS = 512
"""The most programs of one launch of a case, but for those with many rows."""

SMALL = 8
"""The size from which a grid is seen to grow."""

BLOCKS = 3
"""How many blocks there are at least, the last of them not full."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: how many programs, and the extents of blocks that it names."""

    programs: int
    blocks: tuple[int, ...]


@contextmanager
def recording(into: list[Launch]) -> Iterator[None]:
    """Write launches of interpreted kernels down instead of running them."""
    interpreter = sys.modules.get("triton.runtime.interpreter")
    if interpreter is None:
        yield  # Whoever interprets without triton is not read.
        return

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **meta: Any) -> None:
        if warmup:
            return
        given = arguments(self.fn, args, meta)
        shape = grid(given) if callable(grid) else grid
        named = (n for name, n in given.items() if "BLOCK" in name and isinstance(n, int))
        into.append(Launch(math.prod(shape), tuple(named)))

    kernels: Any = interpreter.InterpretedFunction
    before, kernels.run = kernels.run, run
    try:
        yield
    finally:
        kernels.run = before


def arguments(
    kernel: Callable[..., object], args: Sequence[object], meta: Mapping[str, object]
) -> dict[str, Any]:
    """Return the arguments of a launch by name, defaults among them, as a grid function reads them.

    What is named and is no parameter of the kernel (num_warps) comes with them.
    """
    signature = inspect.signature(kernel)
    own = {name: value for name, value in meta.items() if name in signature.parameters}
    bound = signature.bind_partial(*args, **own)
    bound.apply_defaults()
    return {**meta, **bound.arguments}


def launches(backend: Any, case: SizedCase) -> list[Launch]:
    """Return what a backend would launch for a case; results are not looked at.

    A backend may raise, as it reads what no kernel has written. It is judged where it is asked for
    results; here, what it launched before counts.
    """
    found: list[Launch] = []
    built = build_sized(case)
    with recording(found), suppress(Exception):
        observe(backend, built)
    return found


def by_launches(
    backend: Any,
    op: str,
    direction: str,
    dtype: str,
    *,
    all_of_them: bool,
    fit: Fit | None = None,
) -> list[SizedCase]:
    """Return the large cases of a row of an interpreted backend; or only the one of least work.

    fit says which calls the backend takes, if not all. A way to grow in which it does not take
    some size, or refuses it as not implemented, has the case of that size.
    """
    among, where = growths(op), (op, direction, dtype)
    turns = range(len(among))
    fitting = fit or (lambda case: case)
    cases = [grown_to(*where, k, _size(backend, where, k, fitting)) for k in turns]
    if not all_of_them:
        return [min(cases, key=lambda case: _work(backend, case, fitting))]
    first = next(name for name, page in OPS.items() if family_of(page) is family_of(OPS[op]))
    if where == (first, "value", "fp32"):
        cases += [grown_to(*where, k, MANY_ROWS) for k in turns if among[k].what == "rows"][:1]
    return cases


class _NotTaken(Exception):
    """A backend does not take a call, or refuses it as not implemented."""

    def __init__(self, size: int = 0) -> None:
        self.size = size


def _read(backend: Any, case: SizedCase, fit: Fit) -> list[Launch]:
    """Return what a backend would launch for a case, or say that it does not take it."""
    fitted = fit(case)
    if fitted is None:
        raise _NotTaken
    try:
        return launches(backend, fitted)
    except NotImplementedError as error:
        raise _NotTaken from error


def _work(backend: Any, case: SizedCase, fit: Fit) -> float:
    """Return about how long a case takes: its programs, and the steps of their loops.

    What is not taken takes longer than anything, so that another way to grow is preferred.
    """
    try:
        found = _read(backend, case, fit)
    except _NotTaken:
        return math.inf
    return sum(launch.programs for launch in found) * elements(case.case)


def _size(backend: Any, where: tuple[str, str, str], k: int, fit: Fit) -> int:
    """Return the least size at which one way to grow has blocks enough, or is not taken."""
    try:
        return _grown(backend, where, k, fit)
    except _NotTaken as stop:
        return stop.size


def _grown(backend: Any, where: tuple[str, str, str], k: int, fit: Fit) -> int:
    growth = growths(where[0])[k]
    if growth.every:
        return growth.near

    def read(n: int) -> tuple[int, int]:
        try:
            found = _read(backend, grown_to(*where, k, n), fit)
        except _NotTaken:
            raise _NotTaken(n) from None
        programs = max((launch.programs for launch in found), default=0)
        return programs, max((n for launch in found for n in launch.blocks), default=0)

    small, _ = read(SMALL)
    n = SMALL
    while n < growth.near:
        n *= 2
        programs, _ = read(n)
        if programs > MOST_PROGRAMS:
            return n // 2 + 1
        if programs >= small + BLOCKS - 1:
            return n + 1
    _, block = read(n)
    return min(max(2 * block, SMALL), 2 * growth.near) + 1
