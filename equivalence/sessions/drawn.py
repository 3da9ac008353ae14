"""What Hypothesis draws for sessions: random programs, and trainings.

A drawn case is plain data. The function that judges it is a fixed run, which needs no Hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from equivalence.budgets.ledger import Ledger
from equivalence.cases.strategies import quiet
from equivalence.cases.updates.levels import of_every_shape
from equivalence.draws import reproducible
from equivalence.runs.results import Row, RowResult
from equivalence.runs.runner import row_seed
from equivalence.sessions.compiled import examine_compiled
from equivalence.sessions.curvature import programs as curvature
from equivalence.sessions.graphs import examine
from equivalence.sessions.pair import SessionPair
from equivalence.sessions.seen import Seen
from equivalence.sessions.texts import Offer, operands
from equivalence.sessions.trainers import ENGINES
from equivalence.sessions.trainings import (
    LAYERS,
    SHAPES,
    Falling,
    Text,
    Training,
    judge_mean,
    train,
    train_list,
)
from spec.linked import GraphSession
from spec.ops import OPS
from spec.optim import OPTIMIZERS
from spec.session import Session

SEEDS = st.integers(0, 2**16)

NAMES = sorted(name for name, op in OPS.items() if operands(op, Offer(1), (0, 0, 0)))
"""The ops that programs are made of: all but those of exponents, which would pile up."""

PROGRAMS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(0, 3), st.integers(0, 3)),
    min_size=1,
    max_size=5,
)

TEXTS = st.builds(
    Text,
    st.lists(st.sampled_from(sorted(LAYERS)), max_size=3).map(tuple),
    st.sampled_from(("cross_entropy", "mse_loss")),
    st.sampled_from(("mean", "sum")),
)
RATES = st.sampled_from((0.5, 0.1, 0.01)) | st.sampled_from((0.5, 0.1)).map(Falling)
DECAYS = st.sampled_from((0.0, 0.1))


@st.composite
def hypers(draw: Any, optimizer: str) -> dict[str, Any]:
    """Draw the hyper-parameters of an optimizer, and groups that differ."""
    known = OPTIMIZERS[optimizer].arguments
    rates = {"lr": draw(RATES), "weight_decay": draw(DECAYS)}
    own: dict[str, Any] = {name: value for name, value in rates.items() if name in known}
    if "momentum" in known:
        own["momentum"] = draw(st.sampled_from((0.0, 0.5, 0.9)))
        kinds = ("plain", "damped", "nesterov") if "nesterov" in known else ("plain",)
        kind = draw(st.sampled_from(kinds))
        if kind == "damped":
            own["dampening"] = 0.5
        elif kind == "nesterov" and own["momentum"]:
            own["nesterov"] = True
    if "beta1" in known:
        own["beta1"] = draw(st.sampled_from((0.9, 0.5)))
    if "eps" in known and "beta1" in known:
        own["eps"] = draw(st.sampled_from((1e-8, 1e-2)))
    if draw(st.booleans()):
        members = draw(st.sets(st.integers(0, len(SHAPES) - 1), min_size=1, max_size=3))
        own["groups"] = [{"params": sorted(members), "lr": draw(RATES), "weight_decay": 0.25}]
    return own


def batches(most: int) -> st.SearchStrategy[dict[str, Any]]:
    """Draw how a batch comes: whole, split, or in pieces with weights of their own."""
    weights = st.sampled_from((0.5, 0.3, 2.0, Fraction(1, 3), Fraction(2, 3), -1.0))
    return st.one_of(
        st.just({}),
        st.fixed_dictionaries(
            {"count": st.integers(2, most), "reduction": st.sampled_from(("mean", "sum"))}
        ),
        st.fixed_dictionaries({"weights": st.lists(weights, min_size=1, max_size=most)}),
    )


@st.composite
def trainings(draw: Any) -> Training:
    """Draw a training of up to three steps."""
    optimizer = draw(st.sampled_from(of_every_shape()))
    step = st.fixed_dictionaries(
        {
            "seed": st.integers(0, 2**16),
            "rows": st.integers(3, 4),
            "form": batches(3),
            "before": st.sampled_from((None, None, "freeze", "thaw", "set", "look")),
            "max_norm": st.sampled_from((None, 0.25, 1e3)),
            "max_value": st.sampled_from((None, None, 0.125)),
        }
    )
    flags = st.tuples(*[st.sampled_from((True, True, True, False))] * len(SHAPES))
    return Training(
        draw(TEXTS),
        draw(flags.filter(lambda found: found[0] or found[3])),
        optimizer,
        draw(hypers(optimizer)),
        draw(st.lists(step, min_size=1, max_size=3)),
    )


LIST_HYPERS = hypers("sgd").filter(lambda own: "groups" not in own and not callable(own["lr"]))
LIST_STEPS = st.lists(st.tuples(SEEDS, st.integers(0, 31)), min_size=1, max_size=3)

Drawn = tuple[Callable[..., Ledger], tuple[st.SearchStrategy[Any], ...]]
"""How a case is judged, and by what it is drawn."""


def programs_of(row: Row) -> Drawn:
    """Draw programs that run on a graph, and on the device tape or compiled by an engine."""
    if row.op in ENGINES:
        return partial(examine_compiled, engine=row.op, precision=row.dtype), (
            PROGRAMS,
            SEEDS,
            SEEDS,
        )
    judge = partial(examine, provider=row.direction, precision=row.dtype)
    return judge, (PROGRAMS, SEEDS, SEEDS)


def trainers_of(row: Row) -> Drawn:
    """Draw trainings, steps of a list of parameters, or means over a batch."""
    where: dict[str, Any] = {"provider": row.direction, "precision": row.dtype}
    if row.op == "list":
        norms = st.sampled_from((None, 0.25, 1e3))
        return partial(train_list, **where), (LIST_HYPERS, LIST_STEPS, norms)
    if row.op == "mean":

        def judge(kind: Any, seed: int, count: int, far: bool) -> Ledger:
            return judge_mean(SessionPair(kind(), **where), seed, count, far)

        kinds = st.sampled_from((Session, GraphSession))
        return judge, (kinds, SEEDS, st.integers(1, 7), st.booleans())
    ours, _, theirs = row.op.partition("-")
    return partial(train, interpreters=(ours, theirs), **where), (trainings(),)


WHOLE = 10
"""All columns of a Hessian cost about as much as so many products with vectors."""

FEWEST = 20
"""Of fewer drawn programs, one that leaves its numbers open decides over a row."""

MOVING = st.sampled_from(((True, True, True), (True, False, False)))


def curvature_of(row: Row) -> Drawn:
    """Draw programs and points whose second derivatives are taken."""
    kinds: Mapping[str, Drawn] = {
        "product": (partial(curvature.product, whole=False), (PROGRAMS, SEEDS)),
        "exact-product": (partial(curvature.product, whole=True), (PROGRAMS, SEEDS)),
        "hessian": (curvature.columns, (PROGRAMS, SEEDS)),
        "labels": (curvature.by_labels, (SEEDS,)),
        "distance": (curvature.distance, (SEEDS, MOVING)),
    }
    judge, strategies = kinds[row.op]
    return partial(judge, precision=row.dtype), strategies


DRAWN: Mapping[str, Callable[[Row], Drawn]] = {
    "programs": programs_of,
    "trainers": trainers_of,
    "curvature": curvature_of,
}
"""What each command draws for a row."""


def judge_drawn(command: str, row: Row, cases: int, number: int, shrink: bool = False) -> RowResult:
    """Judge so many drawn cases of a row, fewer where each of them costs more."""
    judge, strategies = DRAWN[command](row)
    if command == "curvature" and row.op in curvature.WHOLE:
        cases = max(cases // WHOLE, min(cases, FEWEST))
    return examine_drawn(row, judge, strategies, cases, number, shrink)


def drawing(cases: int, shrink: bool, **more: Any) -> settings:
    """Return settings that draw so many cases, and shrink the first that fails if asked to."""
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    return settings(quiet(cases, *phases), report_multiple_bugs=False, **more)


def examine_drawn(
    row: Row,
    judge: Callable[..., Ledger],
    strategies: Sequence[st.SearchStrategy[Any]],
    cases: int,
    number: int,
    shrink: bool = False,
) -> RowResult:
    """Judge so many drawn cases; the same number always draws the same ones.

    judge raises an AssertionError, such as a Violation, where a promise is broken. Shrinking then
    finds a smaller case that breaks one, and may take minutes.
    """
    seen = Seen()

    def check(case: tuple[Any, ...]) -> None:
        seen.begin(", ".join(map(repr, case)))
        seen.add(judge(*case))

    with seen.watching(), reproducible():
        drawn = given(st.tuples(*strategies))(check)
        drawing(cases, shrink)(seed(row_seed(number, row))(drawn))()
    return seen.result(row)
