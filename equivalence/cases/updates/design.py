"""Which cases an optimizer's row has: fixed ones by a covering design, and drawn ones.

The factors are read off the page and off what a handle can do. Every level occurs among the first
few cases, and every pair of levels that may meet does in the whole design; then come long walks,
one per level of the hyper-parameters at once, a group each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from equivalence import registry
from equivalence.cases.call import Recipe
from equivalence.cases.covering import PAIRS, SINGLES, Levels, covering, dealt
from equivalence.cases.declared.inside import Inside, narrowing
from equivalence.cases.fills.regimes import NONFINITE
from equivalence.cases.guard import LAYOUTS
from equivalence.cases.updates.added import DECAY, added, guarded, plain_settings
from equivalence.cases.updates.clipping import bounds_drawn, clipped_apart, with_bounds
from equivalence.cases.updates.extras import combinations, switched_on, with_extras
from equivalence.cases.updates.levels import (
    ANOTHER_RATE,
    GAPS,
    GRADIENTS,
    GROUPS,
    LONG_SHAPES,
    NORMS,
    PARAMETERS,
    SCALES,
    SHAPES,
    WRITABLE,
    accepted,
    changes,
    choices,
    gaps,
    groups,
    permitted_pairs,
    remembering,
    settable,
    small_rate,
)
from equivalence.cases.updates.spec import HANDINGS, Event, Group, UpdateSpec
from equivalence.dtypes import DTYPES
from equivalence.registry import OPTIMIZERS

if TYPE_CHECKING:
    from hypothesis import strategies as st

QUIET = "nothing"
"""The event that is none."""

ARGUMENTS = "set_arguments"
"""The event by which all arguments of a step change that are not the rate."""

WALK = 1000
"""How many steps a long walk has."""

GUARDED: Levels = {"case": "a norm near its guard"}
WALKED: Levels = {"case": f"a walk of {WALK} steps"}
"""The levels of the cases that stand beside the design."""

BASES = 8
"""How many rows that a backend takes are changed to find out which levels it takes."""


def events(optimizer: str) -> tuple[str, ...]:
    """Name what may happen between the steps; a state may be loaded before the first one, too.

    Arguments that are not the rate change together, so that the design has no more rows for them.
    """
    rated = ("set_lr", "set_first_lr") if "lr" in OPTIMIZERS[optimizer].arguments else ()
    kept = ("resume", "load", "write_state") if OPTIMIZERS[optimizer].moments else ()
    return (QUIET, *rated, ARGUMENTS, *kept, "write")


def factors(optimizer: str) -> dict[str, tuple[Any, ...]]:
    """Return everything that an optimizer's case is made of, by name, with its levels.

    A page whose entries look at each other is asked about short parameters alone.
    """
    every = OPTIMIZERS[optimizer].elementwise
    return {
        "shapes": tuple(name for name in SHAPES if every or name not in LONG_SHAPES),
        "parameters": PARAMETERS,
        "placed": WRITABLE,
        "gradients": GRADIENTS,
        "layout": LAYOUTS,
        **choices(optimizer),
        "grad_scale": SCALES,
        "groups": GROUPS,
        "event": events(optimizer),
        "handing": HANDINGS,
        "gaps": GAPS,
    }


def allowed(optimizer: str, levels: Levels) -> bool:
    """Say whether levels may meet in a case, or may yet, where some are not there.

    Squares of tiny numbers underflow: their norm's budget would leave everything open, and so would
    what is left of them by a scale. One parameter is in no group. A state is loaded where there is
    one to load.
    """
    tried = OPTIMIZERS[optimizer].tried
    hyper = frozenset((name, levels[name]) for name in tried if name in levels)
    kept = levels.get("event") in ("resume", "load", "write_state")
    scaled = levels.get("max_norm") is not None or levels.get("grad_scale", SCALES[0]) != SCALES[0]
    scaled = scaled or levels.get("event") == ARGUMENTS
    if levels.get("gradients") == "tiny" and scaled:
        return False
    if levels.get("shapes") == "one" and levels.get("groups", GROUPS[0]) != GROUPS[0]:
        return False
    return settable(optimizer, hyper, kept)


def assembled(optimizer: str, dtype: str, levels: Mapping[str, Any], number: int) -> UpdateSpec:
    """Make a case of a level of each factor; number is its seed, and chooses what is no factor."""
    shapes, page = SHAPES[levels["shapes"]], OPTIMIZERS[optimizer]
    missing, zeroed, steps = gaps(levels["gaps"], len(shapes))
    hyper = {name: levels[name] for name in page.tried}
    resumed = levels["event"] == "resume"
    of_case = {name: levels[name] for name in ("start_step", "max_norm") if name in levels}
    if levels["grad_scale"] != SCALES[0]:
        of_case["grad_scale"] = levels["grad_scale"]
    if resumed and page.counted:
        of_case["start_step"] = 0
    grouped = groups(optimizer, levels["groups"], hyper, len(shapes), number)
    return UpdateSpec(
        optimizer,
        dtype,
        shapes,
        Recipe(levels["parameters"], number, levels["placed"]),
        Recipe(levels["gradients"], number, levels["layout"]),
        permitted_pairs(optimizer, {**hyper, **of_case}),
        steps,
        missing,
        grouped,
        (),
        zeroed,
        _happening(optimizer, levels, grouped, number),
        levels["handing"],
    )


def _told(
    optimizer: str, levels: Mapping[str, Any], grouped: Sequence[Group], number: int
) -> Iterator[Event]:
    """Yield the events by which arguments that are not the rate change, each to another level."""
    own = {name: levels[name] for name in OPTIMIZERS[optimizer].tried}
    told = changes(optimizer, own, grouped)
    if told:
        name, value = told[number % len(told)]
        yield Event(1, "set_hyper", value, name=name)
    for name, among in (("grad_scale", SCALES), ("max_norm", NORMS)):
        others = [n for n in among if n is not None and n != levels[name]]
        yield Event(1, f"set_{name}", others[number % len(others)])


def _happening(
    optimizer: str, levels: Mapping[str, Any], grouped: Sequence[Group], number: int
) -> tuple[Event, ...]:
    """Return the events of a case by their name: what is written lies in every layout in turn."""
    event, start = levels["event"], levels.get("start_step", 0)
    recipe = Recipe(PARAMETERS[number % len(PARAMETERS)], number, LAYOUTS[number % len(LAYOUTS)])
    if event in ("set_lr", "set_first_lr"):
        return (Event(1, event, accepted(optimizer, "lr", ANOTHER_RATE)),)
    if event == ARGUMENTS:
        return tuple(_told(optimizer, levels, grouped, number))
    if event == "resume":
        return (Event(0, "load", max(start, 1), recipe),)
    if event == "load":
        return (Event(1, event, max(start, 1), recipe),)
    return () if event == QUIET else (Event(1, event, 0.0, recipe),)


@registry.remembering
def rows(optimizer: str, strength: int) -> tuple[Mapping[str, Any], ...]:
    return tuple(covering(factors(optimizer), lambda row: allowed(optimizer, row), strength))


def update_strata(
    optimizer: str,
    dtype: str,
    strength: int = PAIRS,
    dtypes: Sequence[str] = (),
    inside: Inside | None = None,
) -> list[UpdateSpec]:
    """Return the fixed cases of an optimizer's row, by a design of this strength.

    Those of a smaller strength come first. dtypes are those in which a backend has this row, this
    one among them: every level meets every dtype, and two levels meet in one of them.
    inside says which steps the backend takes, if not all: a predicate may say so of one dtype
    alone, so that its design is not shared out.
    """
    return [case for case, _ in designed_updates(optimizer, dtype, strength, dtypes, inside)]


def designed_updates(
    optimizer: str,
    dtype: str,
    strength: int = PAIRS,
    dtypes: Sequence[str] = (),
    inside: Inside | None = None,
) -> list[tuple[UpdateSpec, Levels]]:
    """Return the fixed cases of an optimizer's row, each with its levels."""
    levels = Narrowed(optimizer, inside)
    own = levels.rows(strength)
    designed = ((assembled(optimizer, dtype, row, number), row) for number, row in enumerate(own))
    found = [(guarded(optimizer, dtype), GUARDED), *designed]
    by_rules = added(optimizer, dtype, SINGLES)
    if strength > SINGLES:
        among: list[str] = []
        if dtype in dtypes and (inside is None or inside.part is not None):
            among = [name for name in DTYPES if name in dtypes]
            everywhere = 1 + len(levels.rows(SINGLES))
            found = dealt(found, everywhere, among.index(dtype), len(among))
        found.append((levels.nearest(walk(optimizer, dtype)), WALKED))
        by_rules += added(optimizer, dtype, PAIRS, among)
    if inside is not None and inside.extras:
        singles = found[: 1 + len(levels.rows(SINGLES))]
        by_rules += [
            *switched_on(optimizer, dtype, inside.extras, singles, tuple(by_rules)),
            *clipped_apart(optimizer, dtype, inside.extras),
        ]
    found += by_rules
    return [(case, row) for case, row in found if inside is None or inside.takes_case(case)]


class Narrowed:
    """The rows of a design, of all levels or of those that a backend takes.

    Which levels it takes is found by changing one level of a few rows that it takes. Rows of these
    levels that it does not take, since two levels do not meet there, are left out.
    """

    def __init__(self, optimizer: str, inside: Inside | None) -> None:
        """Ask about the levels, if not all are taken."""
        self.optimizer = optimizer
        self.inside = narrowing(inside)
        self.levels = factors(optimizer) if self.inside is None else self._taken()

    def rows(self, strength: int) -> Sequence[Levels]:
        """Return the rows of the design of some strength."""
        if self.inside is None:
            return rows(self.optimizer, strength)
        if not all(self.levels.values()):
            return ()
        found = covering(self.levels, lambda row: allowed(self.optimizer, row), strength)
        return [row for row in found if self._takes(row)]

    def nearest(self, case: UpdateSpec) -> UpdateSpec:
        """Return a case without groups, where a backend takes none."""
        alone = replace(case, groups=())
        ask = self.inside
        return alone if ask and not ask.takes_case(case) and ask.takes_case(alone) else case

    def _takes(self, row: Levels) -> bool:
        assert self.inside is not None
        return self.inside.takes_case(assembled(self.optimizer, self.inside.dtype, row, 0))

    def _taken(self) -> dict[str, tuple[Any, ...]]:
        every = factors(self.optimizer)
        among = (row for row in rows(self.optimizer, PAIRS) if self._takes(row))
        bases = [dict(row) for row in islice(among, BASES)]

        def taken(name: str, level: Any) -> bool:
            changed = ({**base, name: level} for base in bases)
            return any(
                base[name] == level or (allowed(self.optimizer, row) and self._takes(row))
                for base, row in zip(bases, changed, strict=True)
            )

        return {n: tuple(level for level in own if taken(n, level)) for n, own in every.items()}


def walk(optimizer: str, dtype: str) -> UpdateSpec:
    """Return the case of many steps, by parameters that differ in every hyper-parameter.

    No rate is so large that what it moves walks out of a narrow format's range, and none is 0.
    """
    hyper = {**remembering(optimizer), **small_rate(optimizer)}
    return UpdateSpec(
        optimizer,
        dtype,
        ((3, 3),) * 4,
        Recipe("normal", 1),
        Recipe("normal", 2),
        permitted_pairs(optimizer, hyper),
        WALK,
        groups=tuple(
            (members, tuple((name, value) for name, value in pairs if name != "lr"))
            for members, pairs in groups(optimizer, "each", hyper, 4, 0)
        ),
        handing="reused",
    )


def spoiled_cases(optimizer: str, dtype: str, inside: Inside | None = None) -> list[UpdateSpec]:
    """Return the cases with numbers that are not finite, or near the ends of the range.

    They are a gradient's first entry, and every regime of such numbers in parameters or gradients,
    with and without clipping. Such parameters decay: whether a decay of 0 is left out, or 0 times
    NaN is added, is nobody's promise. The first step comes without a gradient for one of them,
    which keeps its numbers.
    """
    regular = [("normal", "normal", ((1, 0, what),)) for what in ("inf", "nan")]
    whole = [(of, "normal", ()) for of in NONFINITE] + [("normal", of, ()) for of in NONFINITE]
    every = (
        UpdateSpec(
            optimizer,
            dtype,
            ((3, 5), (4,)),
            Recipe(parameters, 1),
            Recipe(gradients, 2),
            plain_settings(optimizer, max_norm, DECAY if parameters in NONFINITE else 0.0),
            spoiled=spoiled,
            missing=((0, 0),) if parameters in NONFINITE else (),
        )
        for max_norm in (None, 1.0)
        for parameters, gradients, spoiled in (*regular, *whole)
    )
    return [case for case in every if inside is None or inside.takes_case(case)]


def update_specs(
    optimizer: str, dtype: str, inside: Inside | None = None
) -> st.SearchStrategy[UpdateSpec]:
    """Return the strategy that draws cases of an optimizer."""
    from hypothesis import strategies as st

    taken = Narrowed(optimizer, inside).levels
    if not all(taken.values()):
        return st.nothing()
    drawn = {name: st.sampled_from(levels) for name, levels in taken.items()}
    levels = st.fixed_dictionaries(drawn).filter(lambda row: allowed(optimizer, row))
    extras = () if inside is None else inside.extras
    found = st.builds(
        lambda row, number, chosen, bounds: with_bounds(
            with_extras(assembled(optimizer, dtype, row, number), chosen), *bounds
        ),
        levels,
        st.integers(0, 2**16 - 1),
        st.sampled_from(combinations(optimizer, extras)),
        st.sampled_from(bounds_drawn(extras)),
    )
    return found if inside is None else found.filter(inside.takes_case)
