"""Where a backend can be loaded from again: what the line that replays a failure has to say."""

from __future__ import annotations

import inspect
import shlex
import sys
from typing import Any

from equivalence.backends import BUILT_IN


def address_of(given: str, backend: Any) -> str | None:
    """Return what a shell's `--backend` takes to load a backend, None where nothing would.

    given is the name in the request; it may be no more than a label of an object that was handed
    over. Then the object is looked for in the module of its class.
    """
    if given in BUILT_IN or ":" in given:
        return shlex.quote(given)
    kind = type(backend)
    module = sys.modules.get(kind.__module__)
    if module is None or module.__name__ == "__main__":
        return None
    for name, value in vars(module).items():
        if value is backend or (value is kind and _made_without_arguments(kind)):
            return f"{module.__name__}:{name}"
    return None


def _made_without_arguments(kind: type) -> bool:
    """Say whether a class can be called as `load` calls it."""
    try:
        inspect.signature(kind).bind()
    except (TypeError, ValueError):
        return False
    return True


def replay_line(address: str | None, case: str) -> str:
    """Return the line that replays a case, or say what is missing for it to run."""
    if address is not None:
        return f"python -m equivalence replay-case '{case}' --backend {address}"
    return (
        f"python -m equivalence replay-case '{case}' --backend MODULE:ATTRIBUTE "
        "(this backend was handed over as an object that no module holds under a name; save it "
        "in a file, say mine.py, and write --backend mine:NAME)"
    )
