"""One task of a worker: watch the kernels of a stranger's backend over the judge's fixed cases."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from equivalence import registry
from equivalence.backends import Capabilities, load
from equivalence.backends.parts import dtypes_offered, offers, part_of
from equivalence.blame import raised
from equivalence.budgets.outcome import Outcome
from equivalence.cases.built import build
from equivalence.cases.call import CaseSpec, describe, handed
from equivalence.cases.covering import SINGLES
from equivalence.cases.declared.inside import Inside, Misdeclared, narrowing
from equivalence.cases.strata.fixed import strata
from equivalence.cases.updates import spec
from equivalence.cases.updates.design import update_strata
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.measure.shadow import parts
from equivalence.measure.update import shorter
from equivalence.races.detector import watching
from equivalence.races.examine import MOST, Examined
from equivalence.races.fault import Fault, Faulty, Place
from equivalence.races.launches import TARGET, hooked
from equivalence.registry import OPS, OPTIMIZERS

PREFERRED = ("fp32", "bf16", "fp16", "fp64")
"""The dtype that is watched is the first of these in which the backend takes some call."""

MOST_STEPS = 3
"""How many steps of an optimizer are watched in a case: the first, and those after its events."""


def offered(capabilities: Capabilities, names: Sequence[str] | None = None) -> list[str]:
    """Return the ops and optimizers of a backend, or those of some names that it offers."""
    own = {**capabilities.ops, **capabilities.optimizers}
    return [n for n in (*OPS, *OPTIMIZERS) if n in own and (names is None or n in names)]


def examine_backend(backend: str, name: str, pages: Sequence[str] = ()) -> Examined:
    """Watch what a backend launches for an op or an optimizer.

    It ends when a few faults are found, or when all that the backend takes was called.
    """
    from fast.binaries import driving

    driving.stand_in(TARGET)
    for where in pages:
        registry.bring(where)
    found = load(backend)
    began, faults = time.perf_counter(), list[tuple[str, Fault]]()
    with watching() as watch, hooked(watch):
        try:
            for case, declared in _cases(found.capabilities(), name):
                fault = _fault(partial(_call, found, case), declared)
                if fault is not None:
                    faults.append((f"{backend} {_described(case)}", fault))
                if len(faults) == MOST:
                    break
        except Misdeclared as error:
            faults.append((backend, Fault("not judged", "its declaration", Place(), str(error))))
    return Examined(
        name,
        watch.launches,
        watch.several,
        watch.instances,
        tuple(sorted(watch.kernels)),
        tuple(faults),
        time.perf_counter() - began,
    )


def _cases(capabilities: Capabilities, name: str) -> Iterator[tuple[CaseSpec | UpdateSpec, bool]]:
    """Yield the fixed cases that a backend takes in one dtype, values first.

    Beside each it is said whether the backend declares which part it takes.
    """
    directions = ("value", "vjp") if name in OPS and OPS[name].moves else ("value",)
    if name in OPTIMIZERS:
        directions = ("update",)
    dtypes = dtypes_offered(capabilities, name, directions[0])
    for dtype in dict.fromkeys(d for d in (*PREFERRED, *dtypes) if d in dtypes):
        taken = 0
        for direction in directions:
            if not offers(capabilities, name, direction, dtype):
                continue
            inside = part_of(capabilities, name, direction, dtype)
            for case in _fixed(name, direction, dtype, inside):
                taken += 1
                yield case, narrowing(inside) is not None
            if inside is not None:
                inside.again()
        if taken:
            return


def _fixed(
    name: str, direction: str, dtype: str, inside: Inside | None
) -> Sequence[CaseSpec | UpdateSpec]:
    """Return the fixed cases of a row; of an optimizer they are cut to what can be watched."""
    if direction != "update":
        return strata(name, direction, dtype, inside=inside)
    among = (_few(shorter(case)[0]) for case in update_strata(name, dtype, SINGLES, inside=inside))
    return [case for case in dict.fromkeys(among) if inside is None or inside.takes_case(case)]


def _few(case: UpdateSpec) -> UpdateSpec:
    """Return a case of few steps."""
    if case.steps <= MOST_STEPS:
        return case
    return replace(
        case,
        steps=MOST_STEPS,
        missing=tuple(place for place in case.missing if place[0] < MOST_STEPS),
        zeroed=tuple(place for place in case.zeroed if place[0] < MOST_STEPS),
        events=tuple(event for event in case.events if event.step < MOST_STEPS),
    )


def _described(case: CaseSpec | UpdateSpec) -> str:
    return describe(case) if isinstance(case, CaseSpec) else spec.describe(case)


def _fault(call: Callable[[], None], declared: bool) -> Fault | None:
    """Make a call, and return the fault of its launches, or why it could not be watched.

    What a backend refuses, it does not launch; of what it declares to take, it may refuse nothing.
    """
    try:
        call()
    except Faulty as error:
        return error.fault
    except NotImplementedError as error:
        said = f"declared, then refused: {raised(error)}"
        return Fault("not judged", "its host", Place(), said) if declared else None
    except Exception as error:
        return Fault("not judged", "its host", Place(), f"the call raised {raised(error)}")
    return None


def _call(backend: Any, case: CaseSpec | UpdateSpec) -> None:
    """Call a backend on the tensors of a case, which lie on the CPU."""
    if isinstance(case, UpdateSpec):
        # Nobody judges the numbers of a step: kernels that are only compiled write none.
        for _ in parts(backend, case, lambda steps, own: Outcome()):
            pass
        return
    built = build(case)
    attributes = handed(case.op, case.attributes(), case.dtype)
    if case.direction == "value":
        backend.value(case.op, built.views(), attributes)
    else:
        backend.vjp(case.op, built.views(), attributes, [item.view for item in built.cotangents])
