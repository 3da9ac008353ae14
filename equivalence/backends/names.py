"""Names that somebody wrote, against those that exist: what is refused is told its neighbours."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence

from equivalence.dtypes import DTYPES
from equivalence.registry import OPS, OPTIMIZERS


def strangers(what: str, names: Collection[object], known: Sequence[str]) -> str:
    """Say which names are unknown, each with its nearest neighbours; empty where none is."""
    parts = []
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, cutoff=0.5)
            parts.append(f"{name!r}" + (f" (nearest: {', '.join(near)})" if near else ""))
    return f"unknown {what} {', '.join(parts)}" if parts else ""


def unknown_calls(names: Collection[object]) -> str:
    """Say which names are neither operations nor optimizers; empty where all are."""
    return strangers("operation", names, (*OPS, *OPTIMIZERS))


def unknown_in(offered: object, what: str, known: Sequence[str]) -> str:
    """Say what is wrong with a mapping of names to dtypes that a backend offers."""
    if not isinstance(offered, Mapping):
        return f"its {what}s are no mapping of names to dtypes, but {offered!r}"
    dtypes = {
        dtype for some in offered.values() for dtype in ([some] if isinstance(some, str) else some)
    }
    return strangers(what, offered, known) or strangers("dtype", dtypes, tuple(DTYPES))


def bare_in(offered: Mapping[str, object]) -> str:
    """Say which dtypes are one name instead of a collection of names; empty where none is.

    Its letters would count as dtypes, and every row be unsupported.
    """
    for name, some in offered.items():
        if isinstance(some, str):
            return f"the dtypes of {name!r} are names in a collection, ({some!r},); got {some!r}"
    return ""
