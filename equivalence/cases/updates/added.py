"""Cases that a rule adds to the design of every optimizer's row.

rule        from     what every row meets by it
settings    singles  every two levels of hyper-parameters, as groups of one case
parting     singles  groups of one rate, of which the first has another from the second step on
repeated    singles  what an update repeats, as often as by default, where it repeats something
beside      singles  other handles of the same name, which step in turn with the one that is judged
specials    pairs    every kind of special number at every spot, in parameters, gradients, moments
clipped     pairs    the same under a bound of the norm, where one such number changes all

The rules of pairs are shared out among the dtypes of a backend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle, islice
from typing import Any

from equivalence.cases.call import Recipe, Shape
from equivalence.cases.covering import PAIRS, SINGLES, Levels, covering
from equivalence.cases.fills.turns import KINDS, SPOTS
from equivalence.cases.updates.levels import (
    ANOTHER_RATE,
    STARTS,
    accepted,
    choices,
    keeping,
    permitted_pairs,
    remembering,
    settable,
)
from equivalence.cases.updates.spec import Event, Group, UpdateSpec
from equivalence.registry import OPTIMIZERS

DECAY = 0.1
"""The weight decay of parameters that are not finite."""

LENGTHS = (11, 19, 1033)
"""The lengths of parameters: within a vector, beyond one, and beyond several blocks."""

Added = tuple[UpdateSpec, Levels]
Rule = Callable[[str, str], Iterator[Added]]


def plain_settings(
    optimizer: str, max_norm: float | None, weight_decay: float = 0.0
) -> tuple[tuple[str, Any], ...]:
    """Take the plainest settings that remember something, with this weight decay if any."""
    hyper = {name: among[0] for name, among in choices(optimizer).items()}
    hyper |= {**remembering(optimizer), "max_norm": max_norm}
    if "weight_decay" in hyper:
        hyper["weight_decay"] = accepted(optimizer, "weight_decay", weight_decay)
    return permitted_pairs(optimizer, hyper)


def late_settings(
    optimizer: str, max_norm: float | None, weight_decay: float = 0.0
) -> tuple[tuple[str, Any], ...]:
    """Take the same after many updates, when what corrects a bias does not cancel any more."""
    hyper = dict(plain_settings(optimizer, max_norm, weight_decay))
    late = {"start_step": STARTS[-1]} if OPTIMIZERS[optimizer].counted else {}
    return permitted_pairs(optimizer, {**hyper, **late})


def guarded(optimizer: str, dtype: str) -> UpdateSpec:
    """Return the case in which the norm is no larger than what guards the division by it."""
    return UpdateSpec(
        optimizer,
        dtype,
        ((3, 5), (4,)),
        Recipe("nothing"),
        Recipe("small", 3),
        plain_settings(optimizer, 1e-7),
    )


def settings(optimizer: str, dtype: str) -> Iterator[Added]:
    """Let every two levels of hyper-parameters meet, each row of a design a parameter's own."""
    tried = OPTIMIZERS[optimizer].tried

    def allowed(levels: Mapping[str, Any]) -> bool:
        return settable(optimizer, frozenset(levels.items()), stateful=False)

    own = [tuple(sorted(row.items())) for row in covering(tried, allowed, PAIRS)]
    groups: tuple[Group, ...] = tuple(((k,), row) for k, row in enumerate(own) if k)
    numbers = Recipe("normal", 1), Recipe("normal", 2)
    hyper = permitted_pairs(optimizer, dict(own[0]) if own else {})
    case = UpdateSpec(
        optimizer, dtype, ((2,),) * max(len(own), 1), *numbers, hyper, steps=2, groups=groups
    )
    yield case, {"case": "every two levels of hyper-parameters"}


def parting(optimizer: str, dtype: str) -> Iterator[Added]:
    """Set the rate of the first group alone, where others have the same: by name, or by a copy."""
    if "lr" not in OPTIMIZERS[optimizer].arguments:
        return
    hyper, numbers = plain_settings(optimizer, None), (Recipe("normal", 5), Recipe("normal", 6))
    own = tuple((name, value) for name, value in hyper if name in OPTIMIZERS[optimizer].tried)
    groups: tuple[Group, ...] = (((1,), (("lr", dict(own)["lr"]),)), ((2,), own))
    event = Event(1, "set_first_lr", accepted(optimizer, "lr", ANOTHER_RATE))
    case = UpdateSpec(
        optimizer, dtype, ((3,),) * 3, *numbers, hyper, steps=3, groups=groups, events=(event,)
    )
    yield case, {"case": "groups of one rate, of which one changes"}


def beside(optimizer: str, dtype: str) -> Iterator[Added]:
    """Let handles of the same name step in turn, of the same shapes and by other settings."""
    numbers = Recipe("normal", 3), Recipe("normal", 4)
    hyper = plain_settings(optimizer, None)
    case = UpdateSpec(
        optimizer, dtype, ((3, 5), (4,)), *numbers, hyper, steps=2, company="otherwise"
    )
    yield case, {"case": "beside other handles"}


def repeated(optimizer: str, dtype: str) -> Iterator[Added]:
    """Let an update that repeats something do so as often as it does by default."""
    page = OPTIMIZERS[optimizer]
    if page.repeated is None:
        return
    count, plain = page.repeated.count, dict(plain_settings(optimizer, None))
    hyper = permitted_pairs(optimizer, {**plain, count: page.defaults[count]})
    numbers = Recipe("normal", 9), Recipe("normal", 10)
    case = UpdateSpec(optimizer, dtype, ((3, 5), (5, 3), (4, 4)), *numbers, hyper, steps=2)
    yield case, {"case": f"{count} as by default"}


def lengths(optimizer: str) -> tuple[int, ...]:
    """Return the lengths of parameters, short ones where entries look at each other."""
    return LENGTHS if OPTIMIZERS[optimizer].elementwise else LENGTHS[:2]


def specials(optimizer: str, dtype: str) -> Iterator[Added]:
    """Let every kind of number stand at every spot in parameters, gradients and moments.

    The parameters of a length have six turns, by which each kind comes to each spot. Those that are
    special are left alone for a step, and keep their numbers then; and they decay, since whether a
    decay of 0 is left out, or 0 times NaN is added, is nobody's promise. What is not finite is
    written into moments, and not loaded: who loads a checkpoint may refuse it.
    """
    shapes: tuple[Shape, ...] = tuple((n,) for n in lengths(optimizer) for _ in KINDS)
    every, plain = range(len(shapes)), (Recipe("normal", 1), Recipe("normal", 2))
    special, hyper = Recipe("specials_together"), late_settings(optimizer, None)

    def found(where: str, parameters: Recipe, gradients: Recipe, **more: Any) -> Added:
        own = {"hyper": hyper, "steps": 1, **more}
        case = UpdateSpec(optimizer, dtype, shapes, parameters, gradients, **own)
        return case, {"case": f"special numbers in {where}"}

    decays = late_settings(optimizer, None, DECAY)
    alone = tuple((0, k) for k in every)
    yield found("parameters", special, plain[1], hyper=decays, steps=2, missing=alone)
    yield found("gradients", plain[0], special)
    if OPTIMIZERS[optimizer].moments:
        loaded = Event(0, "load", STARTS[-1], Recipe("finite_specials"))
        written = Event(1, "write_state", 0.0, special)
        keeps = permitted_pairs(optimizer, {**dict(hyper), **keeping(optimizer)})
        yield found("moments that are loaded", *plain, hyper=keeps, events=(loaded,))
        yield found("moments that are written", *plain, hyper=keeps, steps=2, events=(written,))


def clipped(optimizer: str, dtype: str) -> Iterator[Added]:
    """Let one entry of all gradients be special at each step, at every spot in turn.

    A NaN makes everything NaN, so that parameters and moments are written anew before each step. By
    an infinite norm entries become 0, and the largest number makes a norm that may overflow.
    """
    for kind in ("nan", "inf", "-inf", "largest"):
        yield clipped_by(optimizer, dtype, kind), {"case": f"one {kind} under a bound of the norm"}


def clipped_by(optimizer: str, dtype: str, kind: str) -> UpdateSpec:
    """Return the case of one kind. Every second parameter, from the first, is written anew."""
    shapes: tuple[Shape, ...] = tuple((n,) for n in reversed(lengths(optimizer)))
    numbers, anew = (Recipe("normal", 1), Recipe("normal", 2)), Recipe("normal", 3)
    steps = range(1, len(SPOTS))
    kinds = ("write", "write_state") if OPTIMIZERS[optimizer].moments else ("write",)
    return UpdateSpec(
        optimizer,
        dtype,
        shapes,
        *numbers,
        late_settings(optimizer, 1.0),
        steps=len(SPOTS),
        spoiled=tuple((step, 0, f"{kind} {place}") for step, place in enumerate(SPOTS)),
        events=tuple(Event(step, what, 0.0, anew) for step in steps for what in kinds),
    )


RULES: dict[int, Sequence[Rule]] = {
    SINGLES: (settings, parting, beside, repeated),
    PAIRS: (specials, clipped),
}
"""The rules by the strength of the designs from which on their cases are added."""


def added(optimizer: str, dtype: str, strength: int, dtypes: Sequence[str] = ()) -> list[Added]:
    """Return the cases that the rules of a strength add to a row.

    dtypes are those among which the cases of pairs are shared out: one has each of them.
    """
    every = [made for rule in RULES.get(strength, ()) for made in rule(optimizer, dtype)]
    if strength == SINGLES or dtype not in dtypes:
        return every
    turns = islice(cycle(dtypes), len(every))
    return [made for made, owner in zip(every, turns, strict=True) if owner == dtype]
