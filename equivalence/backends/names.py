"""Names that somebody wrote, against those that exist: what is refused is told its neighbours."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence

from equivalence.cases.declared.reading import WrongDeclaration, read_declaration
from equivalence.cases.updates.clipping import CLIPPING
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


def wrong_form(offered: object, what: str) -> str:
    """Say what is wrong with the form of a mapping of names to dtypes; empty where nothing is."""
    if not isinstance(offered, Mapping):
        return f"its {what}s are no mapping of names to dtypes, but {offered!r}"
    for name, dtypes in offered.items():
        if isinstance(dtypes, str):
            return f"the dtypes of {name} are a collection; for {dtypes!r} write ({dtypes!r},)"
        if not isinstance(dtypes, Collection):
            return f"the dtypes of {name} are a collection, such as ('fp32',); got {dtypes!r}"
    return ""


def unknown_in(offered: Mapping[str, Collection[str]], what: str, known: Sequence[str]) -> str:
    """Say which names a backend offers that nobody knows; empty where there is none."""
    dtypes = {dtype for some in offered.values() for dtype in some}
    return strangers(what, offered, known) or strangers("dtype", dtypes, tuple(DTYPES))


def wrong_extras(offered: Collection[str], extras: object) -> str:
    """Say what is wrong with the extra hyper-parameters that a backend names; empty if nothing."""
    if not isinstance(extras, Mapping):
        return f"extras is no mapping of optimizers to names, but {extras!r}"
    for name, named in extras.items():
        if name not in offered:
            near = strangers("optimizer", [name], tuple(offered))
            return f"extras names what the backend does not offer: {near}"
        if isinstance(named, str) or not isinstance(named, Collection):
            return f"the extras of {name} are a collection, such as ('maximize',); got {named!r}"
        known = (*OPTIMIZERS[name].extras, *CLIPPING)
        if wrong := strangers("extra hyper-parameter", named, known):
            return f"extras of {name}: {wrong}; its page has {', '.join(known) or 'none'}"
    return ""


def wrong_parts(offered: Collection[str], takes: object) -> str:
    """Say what is wrong with what a backend declares of parts of ops; empty where nothing is."""
    if not isinstance(takes, Mapping):
        return f"takes is no mapping of names to parts, but {takes!r}"
    for name, written in takes.items():
        if name not in offered:
            near = strangers("operation", [name], tuple(offered))
            return f"takes narrows what the backend does not offer: {near}"
        try:
            read_declaration(name, written)
        except WrongDeclaration as error:
            return str(error)
    return ""
