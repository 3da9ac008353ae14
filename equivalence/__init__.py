"""The judge: cases drawn from the pages, budgets that follow from arithmetic, element by element.

Start at `python -m equivalence run --help`.
To have your own kernels judged, read docs/backends.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

ROOMS = (
    "blame",
    "registry",
    "dtypes",
    "conventions",
    "answers",
    "processor",
    "draws",
    "cases",
    "worlds",
    "budgets",
    "backends",
    "measure",
    "trials",
    "workers",
    "exact",
    "runs",
    "bounds",
    "direct",
    "races",
    "sessions",
    "training",
    "cli",
    "__main__",
)
"""The reading order, which the house rules check: a file imports only what stands before it."""

if TYPE_CHECKING:
    from equivalence.backends import (
        BF16,
        CORRECTLY_ROUNDED,
        FP16,
        FP32,
        FP64,
        TF32,
        Backend,
        Capabilities,
        Contract,
        Conventions,
        Form,
        FunctionError,
        OptimizerHandle,
        UnknownBackend,
        declared,
        granted,
        load,
        ulps,
    )
    from equivalence.direct.conforms import assert_conforms
    from equivalence.direct.page_checks import check_call
    from equivalence.direct.replay import Replayed, replay_case
    from equivalence.exact.points import standing
    from equivalence.measure.kept import Kept, keeping
    from equivalence.races.fault import Faulty
    from equivalence.races.launches import NoLaunch, watching
    from equivalence.registry import Unregistered, register, registered, unregister
    from equivalence.runs.run import Done, Request, Unusable, perform

_LAZY = {
    "Unregistered": "equivalence.registry",
    "register": "equivalence.registry",
    "registered": "equivalence.registry",
    "unregister": "equivalence.registry",
    "BF16": "equivalence.backends",
    "CORRECTLY_ROUNDED": "equivalence.backends",
    "FP16": "equivalence.backends",
    "FP32": "equivalence.backends",
    "FP64": "equivalence.backends",
    "TF32": "equivalence.backends",
    "Backend": "equivalence.backends",
    "Capabilities": "equivalence.backends",
    "Contract": "equivalence.backends",
    "Conventions": "equivalence.backends",
    "Form": "equivalence.backends",
    "FunctionError": "equivalence.backends",
    "OptimizerHandle": "equivalence.backends",
    "UnknownBackend": "equivalence.backends",
    "declared": "equivalence.backends",
    "granted": "equivalence.backends",
    "load": "equivalence.backends",
    "ulps": "equivalence.backends",
    "assert_conforms": "equivalence.direct.conforms",
    "check_call": "equivalence.direct.page_checks",
    "Replayed": "equivalence.direct.replay",
    "replay_case": "equivalence.direct.replay",
    "standing": "equivalence.exact.points",
    "Kept": "equivalence.measure.kept",
    "keeping": "equivalence.measure.kept",
    "Done": "equivalence.runs.run",
    "Request": "equivalence.runs.run",
    "Unusable": "equivalence.runs.run",
    "perform": "equivalence.runs.run",
    "Faulty": "equivalence.races.fault",
    "NoLaunch": "equivalence.races.launches",
    "watching": "equivalence.races.launches",
}
"""The public names, by where they live. Each is imported when it is first asked for, so that a part
of this package needs no more libraries than it imports itself."""

__all__ = [
    "BF16",
    "CORRECTLY_ROUNDED",
    "FP16",
    "FP32",
    "FP64",
    "TF32",
    "Backend",
    "Capabilities",
    "Contract",
    "Conventions",
    "Done",
    "Faulty",
    "Form",
    "FunctionError",
    "Kept",
    "NoLaunch",
    "OptimizerHandle",
    "Replayed",
    "Request",
    "UnknownBackend",
    "Unregistered",
    "Unusable",
    "assert_conforms",
    "check_call",
    "declared",
    "granted",
    "keeping",
    "load",
    "perform",
    "register",
    "registered",
    "replay_case",
    "standing",
    "ulps",
    "unregister",
    "watching",
]


if not TYPE_CHECKING:
    # A type checker that saw it would take any name for a name of this package.
    def __getattr__(name: str) -> Any:
        if name in _LAZY:
            return getattr(importlib.import_module(_LAZY[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
