"""Cases of clipping by value, and by the norm of each group, for a backend that names them.

Both came after most handles were written, so that they are asked for by the names of `CLIPPING`
among a backend's extras. A gradient is divided by its scale first, then its entries are clipped,
and then the norm of what is left. Every two levels of bounds, of what else is named and of
hyper-parameters meet in one case, each row of a design a parameter's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from equivalence.cases.call import Recipe, attribute_pairs
from equivalence.cases.covering import PAIRS, covering
from equivalence.cases.updates.added import Added, late_settings, lengths
from equivalence.cases.updates.levels import SHAPES, settable
from equivalence.cases.updates.spec import Event, Group, UpdateSpec
from equivalence.registry import OPTIMIZERS

CLIPPING = ("max_value", "group_norms")
"""What a backend may name beside the extras of a page, of any optimizer.

max_value     entries of gradients are clipped, by a bound of all or of a group
group_norms   a group may have a `max_norm` of its own, which is that of its gradients alone
"""

VALUES = (None, 0.25, 2.0)
"""Bounds of entries: none, one that clips most of a usual gradient, and one that clips few."""

OWN = (("max_norm", 0.5),)
"""The bound of a group's own norm."""

SHARED = "shared"
"""The level of a group without a bound of its own: its norm is that of all such groups."""


def bounds_drawn(extras: Sequence[str]) -> list[tuple[float | None, bool]]:
    """Return every way to clip a drawn case further: by which value, and whether in a group."""
    values = VALUES if "max_value" in extras else VALUES[:1]
    return [(v, own) for v in values for own in (False, True)[: 1 + ("group_norms" in extras)]]


def with_bounds(case: UpdateSpec, value: float | None, own: bool) -> UpdateSpec:
    """Return a case whose entries are clipped, and whose first group has a norm of its own.

    Nothing is clipped of tiny gradients, whose budget would leave everything open.
    """
    if case.gradients.regime == "tiny":
        return case
    if value is not None:
        case = replace(case, hyper=attribute_pairs({**dict(case.hyper), "max_value": value}))
    if own and case.groups:
        (members, pairs), *rest = case.groups
        case = replace(case, groups=((members, (*pairs, *OWN)), *rest))
    return case


def clipped_apart(optimizer: str, dtype: str, extras: Sequence[str]) -> Iterator[Added]:
    """Yield the cases of what is named."""
    if "max_value" in extras:
        yield from _by_value(optimizer, dtype)
        yield _paired(optimizer, dtype, extras)
    if "group_norms" in extras:
        yield from _by_group(optimizer, dtype)


def _plain(optimizer: str, dtype: str, **hyper: float | None) -> UpdateSpec:
    """Return a case of five short parameters under some bounds, or without them."""
    usual = {n: v for n, v in late_settings(optimizer, None) if n != "max_norm"}
    numbers = Recipe("normal", 11), Recipe("normal", 12)
    given = attribute_pairs({**usual, "max_norm": None, **hyper})
    return UpdateSpec(optimizer, dtype, ((3, 5), (4,), (2, 3), (7,), (4,)), *numbers, given)


def _by_value(optimizer: str, dtype: str) -> Iterator[Added]:
    """Clip by a value: before and after what else is done, at special numbers, and in groups."""
    for value in VALUES[1:]:
        for norm in (None, 1.0):
            case = _plain(optimizer, dtype, max_value=value, max_norm=norm, grad_scale=48.0)
            yield case, {"case": f"entries to {value}, the norm to {norm}"}
    special = replace(
        _plain(optimizer, dtype, max_value=0.25),
        shapes=tuple((n,) for n in lengths(optimizer)),
        gradients=Recipe("specials_together"),
        steps=1,
    )
    yield special, {"case": "special numbers under a bound of entries"}
    groups: tuple[Group, ...] = (((1,), (("max_value", 2.0),)), ((2, 4), (("max_value", None),)))
    case = _plain(optimizer, dtype, max_value=0.25, max_norm=1.0)
    yield replace(case, groups=groups), {"case": "entries by groups, the norm to 1.0"}


def _paired(optimizer: str, dtype: str, extras: Sequence[str]) -> Added:
    """Let every two levels of hyper-parameters, extras and bounds meet; a parameter has a row."""
    page = OPTIMIZERS[optimizer]
    factors: dict[str, tuple[Any, ...]] = {
        **page.tried,
        **{name: page.extras[name] for name in extras if name in page.extras},
        "max_value": VALUES,
    }
    if "group_norms" in extras:
        factors["max_norm"] = (SHARED, None, *(bound for _, bound in OWN))

    def allowed(levels: Mapping[str, Any]) -> bool:
        chosen = frozenset((name, levels[name]) for name in page.tried if name in levels)
        return settable(optimizer, chosen, stateful=False)

    first, *others = (
        attribute_pairs({name: level for name, level in row.items() if level != SHARED})
        for row in covering(factors, allowed, PAIRS)
    )
    case = UpdateSpec(
        optimizer,
        dtype,
        ((3,),) * (1 + len(others)),
        Recipe("normal", 13),
        Recipe("normal", 14),
        attribute_pairs({"max_norm": 1.0, **dict(first)}),
        steps=2,
        groups=tuple(((k,), row) for k, row in enumerate(others, 1)),
    )
    return case, {"case": "every two levels of hyper-parameters, extras and bounds"}


def _by_group(optimizer: str, dtype: str) -> Iterator[Added]:
    """Clip norms of groups: beside others, without gradients, by NaN, and of many blocks."""
    groups: tuple[Group, ...] = (((1, 3), OWN), ((2,), (("max_norm", None),)))
    case = replace(_plain(optimizer, dtype, max_norm=1.0), groups=groups)
    yield replace(case, missing=((1, 3),)), {"case": "norms of groups beside another"}
    alone = replace(_plain(optimizer, dtype), groups=groups)
    yield alone, {"case": "norms of groups alone"}
    yield replace(case, events=(Event(1, "set_max_norm", 0.1),)), {"case": "the other norm changes"}
    spoiled = ((1, 1, "nan"),)
    yield replace(case, spoiled=spoiled), {"case": "one NaN under the norm of a group"}
    if OPTIMIZERS[optimizer].elementwise:
        long = replace(case, shapes=SHAPES["blocks"], groups=(((0, 2), OWN),), steps=2)
        yield long, {"case": "norms of many blocks"}
