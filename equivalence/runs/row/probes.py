"""Other calls that show the cause of a failure: in plain ways, at other extents, by contracts.

Each of them is a question of its own, so that one at which a process ends is known afterwards.
"""

from __future__ import annotations

import math
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from equivalence.backends.libraries import FAMILIES, declared
from equivalence.budgets.outcome import Detail, Outcome
from equivalence.cases.built import build
from equivalence.cases.call import CaseSpec, Recipe
from equivalence.cases.declared.inside import Inside
from equivalence.cases.fills.regimes import REGIMES
from equivalence.cases.shrink import accepted
from equivalence.cases.sizes import elements, growths
from equivalence.cases.smaller.extents import renamed
from equivalence.measure.call import result_names
from equivalence.measure.explained.around import origin_of_nan
from equivalence.measure.explained.lengths import TELLING, TRIED, rule
from equivalence.measure.plainly import laid_plainly
from equivalence.registry import OPS
from equivalence.runs.kinds import Case, Kind
from equivalence.runs.results import CONFORMANT, CRASH, NONCONFORMANT
from equivalence.runs.row.asking import Asking, outcome_of
from equivalence.workers.afresh import in_a_worker, run_afresh
from equivalence.workers.executor import Question

INTERPRETED = "triton-interpreted"
"""The family that is asked first where kernels ran in Triton's interpreter."""

LONGEST = 5.0
"""For how many seconds other extents of a failing call are tried."""

ENOUGH = 8.0
"""A result that is as many budgets off fails at an extent, however far it was off before."""

MOST_ENTRIES = 2**13
"""How many entries such a call has at most in one tensor."""

AFRESH = {str(CONFORMANT): True, str(NONCONFORMANT): False, str(CRASH): False}
"""Whether a replayed case passed, by the exit code of its process."""

GROSS = 16.0
"""A result that is this many budgets off is no matter of a contract."""


class Probes:
    """Puts other calls than a failing one to the backend of a row."""

    def __init__(self, asking: Asking) -> None:
        """Remember who asks."""
        self.asking = asking

    def cause(self, kind: Kind, case: Case) -> str | None:
        """Say in which plain way the numbers of a failing case pass; "" where they fail in all.

        None says that there is no other way, or that nobody could ask.
        """
        *single, whole = kind.ways(case) or [()]
        if not whole or self.asking.executor.exhausted or not self._passes(kind, case, whole):
            return "" if whole else None
        way = next((way for way in single if self._passes(kind, case, way)), whole)
        return " and ".join(way)

    def _passes(self, kind: Kind, case: Case, way: tuple[str, ...]) -> bool:
        """Put the numbers of a case in a plain way, and say whether they pass."""
        if self.asking.executor.exhausted:
            return False
        words = " and ".join(way)
        put = partial(kind.measure_plainly, self.asking.backend, case, self.asking.contract, way)
        text, title = f"{case.to_json()} {words}", f"{kind.describe(case)}, {words}"
        answer = self.asking.executor.ask(Question(text, title, put, form=Outcome))
        return not outcome_of(answer).failed

    def passes_afresh(self, kind: Kind, case: Case) -> bool | None:
        """Say whether a failing case passes in a new process, as its line is run to replay it.

        None says that nobody knows: the backend has no address, this is no worker, whose processes
        are its own, or the line ran too long.
        """
        address = self.asking.address
        if address is None or not in_a_worker() or self.asking.executor.exhausted:
            return None
        line = ["replay-case", case.to_json(), "--jobs", "0", "--backend", *shlex.split(address)]
        title = f"{kind.describe(case)}, in a new process"
        put = partial(_said_afresh, line)
        answer = self.asking.executor.ask(
            Question(f"{case.to_json()} afresh", title, put, form=str)
        )
        return AFRESH.get(answer) if isinstance(answer, str) else None

    def passes_plainly_afresh(self, kind: Kind, case: Case) -> bool:
        """Say whether a call passes in a new process, alone and on tensors that lie row-major."""
        if not isinstance(case, CaseSpec):
            return False
        return self.passes_afresh(kind, replace(laid_plainly(case), calling="alone")) is True

    def found(self, kind: Kind, case: Case, outcome: Outcome, start: Case) -> Iterator[str]:
        """Yield what other calls than a failing one show; start is what it was made smaller from.

        Of large calls, and of steps, nothing is tried.
        """
        if not isinstance(case, CaseSpec) or outcome.crash is not None or outcome.detail is None:
            return
        yield from self._memory(kind, case, outcome.detail)
        if outcome.detail.fraction > GROSS:
            yield from self._extents(kind, [case, start], outcome.detail.fraction)

    def _memory(self, kind: Kind, case: CaseSpec, detail: Detail) -> Iterator[str]:
        """Say where a NaN comes from that should be a number."""
        backend, executor = self.asking.backend, self.asking.executor
        if detail.got != "nan" or executor.exhausted:
            return

        def put() -> str:
            built = build(case, backend.capabilities().device)
            return origin_of_nan(backend, built, detail.result, detail.index, result_names(case))

        title = f"{kind.describe(case)}, with 0 around its tensors"
        answer = executor.ask(Question(f"{case.to_json()} around", title, put, form=str))
        if isinstance(answer, str) and answer:
            yield answer

    def family(self, kind: Kind, case: Case, outcome: Outcome) -> str:
        """Name the family of contracts by which a result would pass that is over by little."""
        detail, own = outcome.detail, self.asking.contract
        if not isinstance(case, CaseSpec) or detail is None:
            return ""
        if said := self._flushing(kind, case, detail):
            return said
        if not detail.fraction <= GROSS:
            return ""
        interpreted = "triton.runtime.interpreter" in sys.modules
        for family in sorted(FAMILIES, key=lambda name: interpreted and name != INTERPRETED):
            if family.endswith("-device"):
                continue
            other = declared(family)(case.op, case.dtype)
            if self.asking.executor.exhausted:
                return ""
            if not self.asking.measure(kind, case, other, family).failed:
                return (
                    f"{kind.describe(case)} is over budget by the declared {own.name!r}, and "
                    f"within it by declared({family!r}): in whose arithmetic does the kernel run?"
                )
        return ""

    def _flushing(self, kind: Kind, case: CaseSpec, detail: Detail) -> str:
        """Say of a composite that is 0 by mistake that a step on its way may be a flushed one."""
        own, composite = self.asking.contract, OPS[case.op].kind == "composite"
        zero = detail.got in ("0.0", "-0.0") and own.flush == "none"
        if not (zero and composite) or self.asking.executor.exhausted:
            return ""
        if self.asking.measure(kind, case, replace(own, flush="outputs"), "flushed").failed:
            return ""
        return (
            f"{kind.describe(case)} is over budget by the declared {own.name!r}, and within it if "
            "a step may be 0 where it is subnormal, as 1 / (1 + e^-x) is where e^-x overflows: is "
            f"replace(contract, flush='outputs') the contract of {case.op}?"
        )

    def _extents(self, kind: Kind, cases: Sequence[CaseSpec], fraction: float) -> Iterator[str]:
        """Say at which extents calls fail, if a rule tells; of the first extent that has one."""
        least = min(math.sqrt(fraction), ENOUGH)
        ends = time.process_time() + LONGEST
        for base in sorted(dict.fromkeys(map(usual, cases)), key=_repetitions):
            for extent in sorted({n for shape in base.shapes for n in shape if n}, reverse=True):
                failing = dict[int, bool]()
                for n in (*TELLING, *TRIED):
                    if n in failing or time.process_time() > ends:
                        continue
                    if n == TRIED[0] and len(set(failing.values())) < 2:
                        break
                    fails = self._fails(kind, renamed(base, extent, n), least)
                    failing |= {} if fails is None else {n: fails}
                said = rule({n: failing[n] for n in sorted(failing)})
                own = _extents_at(cases[0], base, extent)
                if said and all(self._fails(kind, renamed(base, extent, n), least) for n in own):
                    yield f"{kind.describe(base)}, with other extents for {extent}: {said}"
                    return

    def _fails(self, kind: Kind, case: CaseSpec, least: float) -> bool | None:
        """Say whether a small call is so many budgets off; None where it gives nothing to judge."""
        inside: Inside | None = getattr(kind, "inside", None)
        # A part is asked for a call that the page takes, of which alone it can tell the types.
        if self.asking.executor.exhausted or not _is_possible(case):
            return None
        if inside is not None and not inside.takes_case(case):
            return None
        found = self.asking.measure(kind, case, rung="extents")
        if found.crash is not None or found.refused is not None:
            return None
        return found.problem is not None or (found.fraction or 0.0) > least


def _said_afresh(line: Sequence[str]) -> str:
    """Run a line in a new process, and return its exit code as text."""
    return str(run_afresh(line))


def _extents_at(case: CaseSpec, base: CaseSpec, extent: int) -> set[int]:
    """Return which extents a failing case has where another call has some extent.

    A rule that lets one of them pass speaks of another mistake, or of other numbers.
    """
    found = {extent}
    if [len(shape) for shape in case.shapes] == [len(shape) for shape in base.shapes]:
        pairs = zip(chain(*case.shapes), chain(*base.shapes), strict=True)
        found |= {own for own, other in pairs if other == extent}
    return found


def _repetitions(case: CaseSpec) -> tuple[int, int]:
    """Return how often an extent stands for another role as well, and the size of a call."""
    extents = [n for shape in case.shapes for n in shape]
    return len(extents) - len(set(extents)), elements(case)


def usual(case: CaseSpec) -> CaseSpec:
    """Return a call like another one, alone, on plain numbers that lie row-major.

    One without axes gets one, if the page lets it; one that works entry by entry has but one.
    """
    changed: dict[str, Any] = {name: _normal(recipe) for name, recipe in case.seeds()}
    recipes = tuple(map(_normal, case.recipes))
    plain = replace(case, calling="alone", recipes=recipes, **changed)
    alike = len(set(case.shapes)) == 1
    by_entry = any(growth.by_entry for growth in growths(case.op))
    if any(case.shapes) and not (alike and by_entry):
        return plain
    longer = replace(plain, shapes=((max(1, math.prod(case.shapes[0])),),) * len(case.shapes))
    return longer if accepted(longer) else plain


def _normal(recipe: Recipe) -> Recipe:
    return Recipe("normal" if recipe.regime in REGIMES else recipe.regime, recipe.seed)


def _is_possible(case: CaseSpec) -> bool:
    """Say whether the page takes a call, and the call is a small one."""
    return accepted(case) and elements(case) <= MOST_ENTRIES
