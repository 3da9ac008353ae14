"""Cases with extra hyper-parameters, for a backend that names them.

An extra came to a formula after most implementations of it were written. So the design of an
optimizer has none of them, and no backend is asked about one that it does not name. For one that
does, the first cases of the design come once more, with the extras switched on in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, product
from typing import Any

from equivalence import registry
from equivalence.cases.call import Recipe, attribute_pairs
from equivalence.cases.covering import Levels
from equivalence.cases.updates.added import Added, plain_settings
from equivalence.cases.updates.levels import plainest
from equivalence.cases.updates.spec import Group, UpdateSpec
from equivalence.registry import OPTIMIZERS


def combinations(optimizer: str, extras: Sequence[str]) -> list[dict[str, Any]]:
    """Return every way to set those of some extras that the page has: only what is no default.

    The first is empty.
    """
    page = OPTIMIZERS[optimizer]
    named = [name for name in extras if name in page.extras]
    every = product(*(page.extras[name] for name in named))
    found = (dict(zip(named, values, strict=True)) for values in every)
    return [{n: v for n, v in one.items() if v != page.defaults[n]} for one in found]


def idle_at(case: UpdateSpec, parameter: int, step: int) -> frozenset[str]:
    """Name the moments that only an extra lets an update keep, where a parameter has no such one.

    An implementation that does not know the extra may hold anything by that name, or nothing.
    """
    hyper = case.hyper_parameters(parameter, step)
    chosen = {n: v for n, v in hyper.items() if n in OPTIMIZERS[case.optimizer].extras}
    return _idle(case.optimizer, attribute_pairs(chosen))


@registry.remembering
def _idle(optimizer: str, chosen: tuple[tuple[str, Any], ...]) -> frozenset[str]:
    page = OPTIMIZERS[optimizer]

    def kept(extras: Mapping[str, Any]) -> frozenset[str]:
        return frozenset(page.kept({**plainest(optimizer), **extras}))

    every = map(kept, combinations(optimizer, [*page.extras]))
    return frozenset[str]().union(*every) - kept({}) - kept(dict(chosen))


def with_extras(case: UpdateSpec, chosen: Mapping[str, Any]) -> UpdateSpec:
    """Return a case with some extras set, for all of its parameters."""
    return replace(case, hyper=attribute_pairs({**dict(case.hyper), **chosen}))


def names_extras(case: UpdateSpec) -> bool:
    """Say whether a case sets some extra, of a group or of all parameters."""
    own = {name for _, pairs in case.groups for name, _ in pairs}
    named = own | {name for name, _ in case.hyper}
    by_bounds = "max_norm" in own or "max_value" in named
    return by_bounds or not named.isdisjoint(OPTIMIZERS[case.optimizer].extras)


def switched_on(
    optimizer: str,
    dtype: str,
    extras: Sequence[str],
    designed: Sequence[tuple[UpdateSpec, Levels]],
    by_rules: Sequence[Added],
) -> Iterator[Added]:
    """Yield cases again: those of a design by each combination in turn, those of rules by the last.

    The last has all extras on. Before them come groups that differ in extras.
    """
    _, *on = combinations(optimizer, extras)
    if not on:
        return
    yield from _grouped(optimizer, dtype, on)
    for (case, levels), chosen in (
        *zip(designed, cycle(on), strict=False),
        *((added, on[-1]) for added in by_rules),
    ):
        yield with_extras(case, chosen), {**levels, **chosen}


def _grouped(optimizer: str, dtype: str, on: Sequence[Mapping[str, Any]]) -> Iterator[Added]:
    """Give each parameter a combination of its own: beside plain settings, and beside the last."""
    defaults = OPTIMIZERS[optimizer].defaults
    hyper, numbers = plain_settings(optimizer, None), (Recipe("normal", 7), Recipe("normal", 8))
    plain = UpdateSpec(optimizer, dtype, ((3,),) * (len(on) + 1), *numbers, hyper, steps=3)
    for base in ({}, on[-1]):
        off = {name: defaults[name] for name in base}
        others = [{**off, **chosen} for chosen in ({}, *on) if chosen != base]
        groups: tuple[Group, ...] = tuple(
            ((k,), attribute_pairs(chosen)) for k, chosen in enumerate(others, 1)
        )
        case = replace(with_extras(plain, base), groups=groups)
        yield case, {"case": f"groups that differ in extras, beside {base or 'none'}"}
