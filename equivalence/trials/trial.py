"""A trial: the laws are tried on a registered page before it judges anyone.

The calls are small and their numbers are fractions, with stand-ins for exp, log and the like
(`equivalence.worlds.opaque`). The stand-ins have the differential rules of the functions and few of
their identities, so that a right page may break a law there: sin(2 x) is not 2 sin x cos x.
So what is broken there is an accusation only where the true functions say the same, by fractions
where they have them, and else by balls.

A page may choose its derivative where there is none. So pushforward is broken only where it is
broken a little aside, too.

>>> from spec.kinds import pointwise, same_shape
>>> def rule(x):
...     return same_shape("cube", x)
>>> def cube(rate):
...     return pointwise("cube", rule, lambda x: x.map(lambda a: a * a * a), rate)
>>> trial(cube(lambda a: (3 * a * a,))).broken
{}
>>> print(trial(cube(lambda a: (2 * a * a,))).sentence("cube"))
the page cube breaks the law pushforward (jvp is not the derivative that dual numbers carry) at \
cube(Tensor(Fraction(1, 1))); fix the page; no backend was judged
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Set
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import Any

from hypothesis import Phase, given, reject, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, HypothesisException, Unsatisfiable

from equivalence.cases.families.table import NoFamily, family_of
from equivalence.cases.probes import Call, Probe, probes
from equivalence.cases.strategies import quiet
from equivalence.draws import reproducible
from equivalence.registry import ENTRIES, OPS, OPTIMIZERS, remembering
from equivalence.trials.laws import Breach, Inexact, broken
from equivalence.trials.steps import OF_A_PAGE, OF_A_STEP, Step, like_torch, steps
from equivalence.worlds.opaque import opaque
from spec.op import AnyTensor, Misstated, Op

PROBES = 30
"""At how many calls a page is tried."""

ASIDE = Fraction(1, 2**12)
"""How far aside of a call no two entries tie."""


class BrokenPage(ValueError):
    """A registered page cannot judge: it breaks a law, or nothing calls it; the message says so."""


class Unconfirmed(Exception):
    """The stand-ins accuse a page, and nothing can say whether the true functions do."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What a trial of a page found.

    broken   what the broken laws say, by name
    call     the smallest call found at which they are broken, as one would write it
    tried    at how many calls the page obeyed; those whose result is empty show little
    untried  what kept the page from being tried, "" where it was
    """

    broken: dict[str, str]
    call: str
    tried: int
    untried: str

    def sentence(self, name: str) -> str:
        """Say of a page which laws it breaks."""
        laws = " and ".join(f"{law} ({says})" for law, says in self.broken.items())
        many = "laws" if len(self.broken) > 1 else "law"
        return (
            f"the page {name} breaks the {many} {laws} at {self.call}; "
            "fix the page; no backend was judged"
        )


def try_pages(names: Iterable[str]) -> dict[str, str]:
    """Try the registered pages among some names, and say why some could not be tried.

    BrokenPage says which law a page breaks.
    """
    untried: dict[str, str] = {}
    for name in dict.fromkeys(names):
        if name not in ENTRIES:
            continue
        try:
            found = trial(OPS[name]) if name in OPS else trial_of_steps(name)
        except (NoFamily, Misstated) as error:
            raise BrokenPage(str(error)) from error
        if found.broken:
            raise BrokenPage(found.sentence(name))
        if found.untried:
            untried[name] = found.untried
    return untried


@remembering
def trial(op: Op) -> Trial:
    """Try the laws on a page; the same page always gets the same trial.

    A call at which the page leaves the world of fractions tells nothing of it.
    """
    family_of(op)
    accusations: list[tuple[Probe, dict[str, str]]] = []
    obeyed: list[Probe] = []
    doubts: list[str] = []
    refused: Counter[str] = Counter()

    @seed(0)
    @settings(quiet(PROBES, Phase.generate, Phase.shrink), report_multiple_bugs=False)
    @given(st.data())
    def obeys(data: st.DataObject) -> None:
        try:
            with opaque():
                probe: Probe = data.draw(probes(op, refused))
                shown = bool(probe.call.value.data)
            found = accusation(probe)
        except (HypothesisException, Misstated):
            raise
        except (Unconfirmed, Inexact) as error:
            doubts.append(str(error))
            return
        except Exception as error:
            refused[f"{type(error).__name__}: {error}"] += 1
            reject()
        if found:
            accusations.append((probe, found))
            raise Breach
        if not shown:
            reject()
        obeyed.append(probe)

    with suppress(Breach, Unsatisfiable, Flaky), reproducible():
        obeys()
    if accusations:
        smallest, says = accusations[-1]  # Hypothesis ends with the smallest.
        return Trial(says, repr(smallest.call), len(obeyed), "")
    reasons = (
        *doubts,
        *(why for why, _ in refused.most_common()),
        "no call was drawn whose result has entries",
    )
    return Trial({}, "", len(obeyed), reasons[0] if doubts or not obeyed else "")


@remembering
def trial_of_steps(name: str) -> Trial:
    """Try the laws of optimizers on a page: of its record, then of its steps, then torch's."""
    page, obeyed, doubt = OPTIMIZERS[name], 0, ""
    try:
        with opaque():
            for law, breaks in OF_A_PAGE.items():
                for call, says in breaks(page):
                    return Trial({law: says}, call, 0, "")
            for step in steps(page):
                found = broken_at(step)
                if found:
                    return Trial(found, str(step), obeyed, "")
                obeyed += 1
    except Exception as error:
        doubt = f"{type(error).__name__}: {error}"
    try:
        for call, says in like_torch(page):
            return Trial({"torch": says}, call, obeyed, "")
    except Exception as error:
        doubt = doubt or f"{type(error).__name__}: {error}"
    return Trial({}, "", obeyed, doubt)


def broken_at(step: Step) -> dict[str, str]:
    """Return what the laws say that a page breaks at a step."""
    for law, breaks in OF_A_STEP.items():
        # What is no step at all cannot be asked the other laws.
        for says in breaks(step):
            return {law: says}
    return {}


def accusation(probe: Probe) -> dict[str, str]:
    """Return what the laws say that a page breaks at a probe, by the stand-ins and in truth."""
    with opaque():
        # Where the shapes are wrong, the other laws cannot be asked.
        found = broken(probe, ("types",)) or broken(probe)
    suspected = found.keys() - {"types"}
    if not suspected:
        return found
    try:
        confirmed = in_truth(probe, suspected)
        if "pushforward" in confirmed and not in_truth(probe, {"pushforward"}, ASIDE):
            del confirmed["pushforward"]
    except Exception as error:
        raise Unconfirmed(
            f"{' and '.join(found.values())} at {probe.call!r}, by stand-ins of exp and log; "
            f"balls of the true functions cannot say whether: {type(error).__name__}: {error}"
        ) from error
    return {law: says for law, says in found.items() if law in confirmed or law == "types"}


def in_truth(probe: Probe, laws: Set[str], step: Fraction = Fraction(0)) -> dict[str, str]:
    """Check laws without stand-ins: by fractions, and by balls where a function has none."""
    try:
        return broken(in_world(probe, Fraction, step), laws)
    except Exception:
        from equivalence.worlds.balls import ball

        return broken(in_world(probe, ball, step), laws)


def in_world(probe: Probe, number: Callable[[Fraction], Any], step: Fraction) -> Probe:
    """Return a probe on numbers of a world; those of its inputs lie different steps aside."""
    call, steps = probe.call, count(1)

    def moved(x: Fraction) -> Any:
        return number(x + step * next(steps))

    def direction(x: AnyTensor | None) -> Any:
        return None if x is None else x.map(number)

    inputs = tuple(
        x if k in call.op.index_inputs else x.map(moved) for k, x in enumerate(call.inputs)
    )
    attributes = {n: number(a) if n == "like" else a for n, a in call.attributes.items()}
    first, second = probe.cotangents
    return Probe(
        Call(call.op, inputs, attributes),
        tuple(map(direction, probe.tangents)),
        (direction(first), direction(second)),
        probe.factors,
    )
