"""One task of a worker: watch the kernels of a stranger's backend over the judge's fixed cases."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from equivalence import registry
from equivalence.backends import Capabilities, load
from equivalence.blame import raised
from equivalence.cases.built import build
from equivalence.cases.call import CaseSpec, describe, handed
from equivalence.cases.strata.fixed import strata
from equivalence.races.detector import watching
from equivalence.races.examine import MOST, Examined
from equivalence.races.fault import Fault, Faulty, Place
from equivalence.races.launches import TARGET, hooked
from equivalence.registry import OPS

PREFERRED = ("fp32", "bf16", "fp16", "fp64")
"""The dtype that is watched is the first of these that the backend offers for an op."""


def offered(capabilities: Capabilities, names: Sequence[str] | None = None) -> list[str]:
    """Return the operations of a backend, or those of some names that it offers."""
    return [op for op in OPS if op in capabilities.ops and (names is None or op in names)]


def examine_backend(backend: str, name: str, pages: Sequence[str] = ()) -> Examined:
    """Watch what a backend launches for an op, until a few faults are found or all is called."""
    from fast.binaries import driving

    driving.stand_in(TARGET)
    for where in pages:
        registry.bring(where)
    found = load(backend)
    began, faults = time.perf_counter(), list[tuple[str, Fault]]()
    with watching() as watch, hooked(watch):
        for case in _cases(found, name):
            what, call = f"{backend} {describe(case)}", partial(_call, found, case)
            if (fault := _fault(call)) is not None:
                faults.append((what, fault))
            if len(faults) == MOST:
                break
    return Examined(
        name,
        watch.launches,
        watch.several,
        watch.instances,
        tuple(sorted(watch.kernels)),
        tuple(faults),
        time.perf_counter() - began,
    )


def _cases(backend: Any, name: str) -> Iterator[CaseSpec]:
    """Yield the fixed cases of an op in one dtype of a backend, values first."""
    dtypes = backend.capabilities().ops[name]
    dtype = next(dtype for dtype in (*PREFERRED, *dtypes) if dtype in dtypes)
    for direction in ("value", "vjp") if OPS[name].moves else ("value",):
        yield from strata(name, direction, dtype)


def _fault(call: Any) -> Fault | None:
    """Make a call, and return the fault of its launches, or why it could not be watched.

    What a backend refuses, it does not launch.
    """
    try:
        call()
    except Faulty as error:
        return error.fault
    except NotImplementedError:
        return None
    except Exception as error:
        return Fault("not judged", "its host", Place(), f"the call raised {raised(error)}")
    return None


def _call(backend: Any, case: CaseSpec) -> None:
    """Call a backend on the tensors of a case, which lie on the CPU."""
    built = build(case)
    attributes = handed(case.op, case.attributes(), case.dtype)
    if case.direction == "value":
        backend.value(case.op, built.views(), attributes)
    else:
        backend.vjp(case.op, built.views(), attributes, [item.view for item in built.cotangents])
