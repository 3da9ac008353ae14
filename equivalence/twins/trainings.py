"""Lives of trainers: every loss, gradient, parameter and moment is within budget.

Losses, batches whole and in pieces, and optimizers are drawn. What was seen after one step is where
the next one starts, on both sides, so that every step is judged by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import torch
from hypothesis import strategies as st

import fast.train
import spec.train
from equivalence.budgets.ledger import Ledger
from equivalence.registry import OPTIMIZERS
from equivalence.runs.results import Row, RowResult
from equivalence.twins.examined import CONFIGURATIONS, examine_drawn
from equivalence.twins.programs import integers, numbers
from equivalence.twins.sides import Sides
from equivalence.twins.trainers import Batch, TwinTrainer
from spec.linked import GraphSession
from spec.session import Session as SpecSession

INTERPRETERS = (("eager", "graph"), ("compiled", "eager"))
"""Those of the two sides: each is met on either."""

WILD = 2.0**6
"""A parameter with a larger entry ends a life, which would soon be one of infinities."""

FEATURES, HIDDEN, CLASSES = 2, 3, 2
SHAPES = [(HIDDEN, FEATURES), (HIDDEN,), (HIDDEN, HIDDEN), (CLASSES, HIDDEN), (CLASSES,)]

LAYERS: dict[str, Callable[..., Any]] = {
    "relu": lambda ops, h, u, b: ops.relu(h),
    "tamed": lambda ops, h, u, b: ops.tanh(h),
    "again": lambda ops, h, u, b: ops.linear(h, u, b),
    "squared": lambda ops, h, u, b: ops.mul(h, h),
    "dropout": lambda ops, h, u, b: ops.dropout(h, p=0.25, seed=3),
    "fixed": lambda ops, h, u, b: ops.mul(h, ops.detach(ops.broadcast_to(b, shape=h.shape))),
}
"""What may stand between the first and the last layer: u may be unreached, b used many times."""


@dataclass(frozen=True)
class Text:
    """A loss of parameters and a batch, as a value that prints, compares and hashes."""

    layers: tuple[str, ...]
    end: str
    reduction: str

    def __call__(self, ops: Any, w: Any, b: Any, u: Any, v: Any, c: Any, x: Any, y: Any) -> Any:
        """Run it; `ops` is a session of either side."""
        h = ops.linear(x, w, b)
        for layer in self.layers:
            h = LAYERS[layer](ops, h, u, b)
        return getattr(ops, self.end)(ops.linear(h, v, c), y, reduction=self.reduction)


@dataclass(frozen=True)
class Life:
    """A loss, which parameters are trained, an optimizer, and what happens step by step."""

    text: Text
    flags: tuple[bool, ...]
    optimizer: str
    hyper: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Falling:
    """A learning rate that falls with the steps taken."""

    start: float

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        return self.start / (1 + step)


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
        kind = draw(st.sampled_from(("plain", "damped", "nesterov")))
        if kind == "damped":
            own["dampening"] = 0.5
        elif kind == "nesterov" and own["momentum"]:
            own["nesterov"] = True
    if "beta1" in known:
        own["beta1"] = draw(st.sampled_from((0.9, 0.5)))
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
def lives(draw: Any, precision: str) -> Life:
    """Draw a life of up to three steps."""
    optimizer = draw(st.sampled_from((*OPTIMIZERS,)))
    step = st.fixed_dictionaries(
        {
            "seed": st.integers(0, 2**16),
            "rows": st.integers(3, 4),
            "form": batches(3),
            "before": st.sampled_from((None, None, "freeze", "thaw", "set", "look")),
            "max_norm": st.sampled_from((None, 0.25, 1e3)),
        }
    )
    flags = st.tuples(*[st.sampled_from((True, True, True, False))] * len(SHAPES))
    return Life(
        draw(TEXTS),
        draw(flags.filter(lambda found: found[0] or found[3])),
        optimizer,
        draw(hypers(optimizer)),
        draw(st.lists(step, min_size=1, max_size=3)),
    )


def values(seed: int) -> list[torch.Tensor]:
    """Draw the parameters."""
    return [numbers(seed + k, *shape) / 2 for k, shape in enumerate(SHAPES)]


def batch(text: Text, seed: int, rows: int, dtype: torch.dtype, **form: Any) -> Batch:
    """Draw a batch that a loss takes."""
    x = numbers(seed, rows, FEATURES).to(dtype)
    if text.end == "mse_loss":
        return Batch([x, numbers(seed + 1, rows, CLASSES).to(dtype)], **form)
    return Batch([x, integers(seed + 1, CLASSES, rows)], **form)


def live(life: Life, interpreters: tuple[str, str], provider: str, precision: str) -> TwinTrainer:
    """Take the steps of a life."""
    twin = TwinTrainer(life.text, values(7), life.flags, interpreters, provider, precision)
    for number, step in enumerate(life.steps):
        if not all(bool((value.abs() <= WILD).all()) for value in twin.values):
            break
        rows, seed, dtype = step["rows"], step["seed"], twin.options.compute
        given = batch(life.text, seed, rows, dtype, **step["form"])
        if step["before"] in ("freeze", "thaw"):
            twin.freeze(seed % len(SHAPES), step["before"] == "freeze")
        elif step["before"] == "set":
            twin.set_values(values(seed))
        elif step["before"] == "look":
            twin.look(f"look {number}", given)
        hyper = {**life.hyper, "max_norm": step["max_norm"]}
        twin.step(f"step {number}", life.optimizer, given, **hyper)
    return twin


def live_list(
    hyper: Mapping[str, Any],
    steps: Sequence[tuple[int, int]],
    max_norm: float | None,
    provider: str,
    precision: str,
) -> Ledger:
    """Take steps of a list of parameters, each by gradients of some of them."""
    flags = [True, True, True, False, True]
    text = Text((), "mse_loss", "sum")
    twin = TwinTrainer(text, values(7), flags, provider=provider, precision=precision)
    for number, (seed, reached) in enumerate(steps):
        gradients = [g if reached >> k & 1 else None for k, g in enumerate(values(seed))]
        twin.step_by(f"step {number}", "sgd", gradients, **hyper, max_norm=max_norm)
    return twin.ledger


def mean_of(ops: Any, train: Any, leaves: Sequence[Any], data: Sequence[Any], far: bool) -> Any:
    """The mean of a few distances, which reach the second leaf only if they are asked to."""
    w, b = leaves

    def one(example: Any) -> Any:
        x, y = example
        h = ops.tanh(ops.linear(x, w, b)) if far else ops.matmul(x, w)
        return ops.mse_loss(h, y)

    return train.mean_scalar_over(ops, "batch", data, one)


def judge_mean(both: Sides, seed: int, count: int, far: bool) -> Ledger:
    """Judge the mean of so many losses, and its gradient by leaves, reached and not."""
    drawn = [both.seen(numbers(seed + k, *shape)) for k, shape in enumerate([(2, 2), (2,)])]
    pairs = [[both.seen(numbers(seed + 9 * j + k, 3, 2)) for k in (3, 4)] for j in range(count)]
    found: list[Any] = []
    for train, session, given_as in (
        (fast.train, both.fast, lambda x: x),
        (spec.train, both.spec, both.lift),
    ):
        leaves = [session.input(given_as(x), requires_grad=True) for x in drawn]
        data = [[session.input(given_as(x)) for x in pair] for pair in pairs]
        loss = mean_of(session, train, leaves, data, far)
        asked = [*leaves, *data[0], loss]
        found.append((session.value(loss), train.gradients_of(session, loss, asked)))
    (loss, gradients), (exact, due) = found
    both.judge("mean", loss, exact)
    for k, (got, allowed) in enumerate(zip(gradients, due, strict=True)):
        both.judge(f"gradient {k}", got, allowed)
    return both.ledger


SEEDS = st.integers(0, 2**16)

LIST_HYPERS = hypers("sgd").filter(lambda own: "groups" not in own and not callable(own["lr"]))
LIST_STEPS = st.lists(st.tuples(SEEDS, st.integers(0, 31)), min_size=1, max_size=3)

ROWS = (
    *(Row("-".join(pair), *where) for pair in INTERPRETERS for where in CONFIGURATIONS),
    *(Row("list", provider, "fp32") for provider in ("aten", "triton")),
    *(Row("mean", *where) for where in CONFIGURATIONS),
)
"""Trainers by their interpreters; lists that are updated by hand; means over a batch."""


def judged(row: Row, cases: int, number: int, shrink: bool = False) -> RowResult:
    """Judge the drawn lives of a row."""
    where = row.direction, row.dtype
    judge: Callable[..., Ledger]
    if row.op == "list":
        drawn: tuple[Any, ...] = (LIST_HYPERS, LIST_STEPS, st.sampled_from((None, 0.25, 1e3)))

        def judge(hyper: Any, steps: Any, max_norm: Any) -> Ledger:
            return live_list(hyper, steps, max_norm, *where)

    elif row.op == "mean":
        kinds = st.sampled_from((SpecSession, GraphSession))
        drawn = (kinds, SEEDS, st.integers(1, 7), st.booleans())

        def judge(kind: Any, seed: int, count: int, far: bool) -> Ledger:
            return judge_mean(Sides(kind(), *where), seed, count, far)

    else:
        ours, _, theirs = row.op.partition("-")
        drawn = (lives(row.dtype),)

        def judge(life: Any) -> Ledger:
            return live(life, (ours, theirs), *where).ledger

    return examine_drawn(row, judge, drawn, cases, number, shrink)
