"""What the steps of a session share: groups of parameters, each with its own hyper-parameters.

>>> groups_of("sgd", [{"params": (), "lr": 0.5}])
[{'params': [], 'lr': 0.5}]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from spec.refusals import Rejected, listed, refuse

Groups = Sequence[Mapping[str, Any]] | None
"""Mappings with 'params' and the hyper-parameters that differ for them, and bounds of their own."""


def groups_of(name: str, groups: Groups) -> list[dict[str, Any]]:
    """List the groups of an update, and the 'params' of each, or refuse what is none."""
    found: list[dict[str, Any]] = []
    given = [] if groups is None else listed(name, "groups are mappings in a list", groups)
    for number, group in enumerate(given, 1):
        who = f"{name}: group {number}"
        if not isinstance(group, Mapping):
            raise refuse(name, f"group {number} is a mapping", type(group).__name__)
        known = dict(cast("Mapping[str, Any]", group))
        if "params" not in known:
            raise Rejected(f"{who} names no 'params'")
        known["params"] = listed(who, "'params' are Params in a list", known["params"])
        found.append(known)
    return found
