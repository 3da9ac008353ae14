"""Trainers against the reference's: every loss, gradient, parameter and moment is within budget.

Losses, batches whole and in pieces, and optimizers are drawn. What was seen after one step is where
the next one starts, on both sides, so that every step is judged by itself.

In bf16, drawn batches have two pieces at most: see the test of three pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fast.train
import spec.train
from equivalence.budgets.declared import of_program
from equivalence.budgets.violation import Violation
from equivalence.twins import trainers
from equivalence.twins.programs import integers, numbers
from equivalence.twins.sides import Sides
from equivalence.twins.trainers import Batch, TwinTrainer
from fast import CompiledSession, Session
from fast.optim._flat import FlatOptimizer
from fast.programs.total import Total
from spec.linked import GraphSession
from spec.optim import OPTIMIZERS
from spec.session import Session as SpecSession

CONFIGURATIONS = [
    ("aten", "fp32"),
    ("aten", "bf16"),
    ("aten", "fp16"),
    ("triton", "fp32"),
    ("triton", "bf16"),
]
INTERPRETERS = [("eager", "graph"), ("compiled", "eager")]
EXAMPLES = {"aten": 50, "triton": 3}
"""How many lives are drawn; Triton's interpreter takes a hundred times as long for one."""

WILD = 2.0**6
"""A parameter with a larger entry ends a life, which would soon be one of infinities."""

FEATURES, HIDDEN, CLASSES = 2, 3, 2
SHAPES = [(HIDDEN, FEATURES), (HIDDEN,), (HIDDEN, HIDDEN), (CLASSES, HIDDEN), (CLASSES,)]

LAYERS: dict[str, Callable[..., Any]] = {
    "relu": lambda ops, h, u, b: ops.relu(h),
    "tanh": lambda ops, h, u, b: ops.tanh(h),
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


def schedule(start: float) -> Callable[[int], float]:
    """A learning rate that falls with the steps taken."""
    return lambda step: start / (1 + step)


TEXTS = st.builds(
    Text,
    st.lists(st.sampled_from(sorted(LAYERS)), max_size=3).map(tuple),
    st.sampled_from(("cross_entropy", "mse_loss")),
    st.sampled_from(("mean", "sum")),
)
RATES = st.sampled_from((0.5, 0.1, 0.01)) | st.sampled_from((0.5, 0.1)).map(schedule)
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


@pytest.mark.parametrize("interpreters", INTERPRETERS, ids="-".join)
@pytest.mark.parametrize(("provider", "precision"), CONFIGURATIONS)
def test_every_step_of_a_trainer_is_within_budget(
    provider: str, precision: str, interpreters: tuple[str, str]
) -> None:
    judged = unconstrained = 0

    @settings(max_examples=EXAMPLES[provider])
    @given(lives(precision))
    def run(life: Life) -> None:
        nonlocal judged, unconstrained
        ledger = live(life, interpreters, provider, precision).ledger
        judged, unconstrained = judged + ledger.judged, unconstrained + ledger.unconstrained

    run()
    assert judged > 10 * unconstrained


@pytest.mark.parametrize("provider", ["aten", "triton"])
def test_every_step_of_a_list_is_within_budget(provider: str) -> None:
    @settings(max_examples=EXAMPLES[provider])
    @given(
        hypers("sgd").filter(lambda hyper: "groups" not in hyper and not callable(hyper["lr"])),
        st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 31)), min_size=1, max_size=3),
        st.sampled_from((None, 0.25, 1e3)),
    )
    def run(hyper: dict[str, Any], steps: list[tuple[int, int]], max_norm: float | None) -> None:
        flags = [True, True, True, False, True]
        twin = TwinTrainer(Text((), "mse_loss", "sum"), values(7), flags, provider=provider)
        for number, (seed, reached) in enumerate(steps):
            drawn = values(seed)
            gradients = [g if reached >> k & 1 else None for k, g in enumerate(drawn)]
            twin.step_by(f"step {number}", "sgd", gradients, **hyper, max_norm=max_norm)
        assert not twin.ledger.unconstrained

    run()


def mean_of(ops: Any, train: Any, leaves: Sequence[Any], data: Sequence[Any], far: bool) -> Any:
    """The mean of a few distances, which reach the second leaf only if they are asked to."""
    w, b = leaves

    def one(example: Any) -> Any:
        x, y = example
        h = ops.tanh(ops.linear(x, w, b)) if far else ops.matmul(x, w)
        return ops.mse_loss(h, y)

    return train.mean_scalar_over(ops, "batch", data, one)


@pytest.mark.parametrize(("provider", "precision"), CONFIGURATIONS)
def test_a_mean_of_losses_and_its_gradients_are_within_budget(
    provider: str, precision: str
) -> None:
    @settings(max_examples=EXAMPLES[provider])
    @given(
        st.sampled_from((SpecSession, GraphSession)),
        st.integers(0, 2**16),
        st.integers(1, 7),
        st.booleans(),
    )
    def run(kind: Callable[[], Any], seed: int, count: int, far: bool) -> None:
        judge_mean(Sides(kind(), provider, precision), seed, count, far)

    run()


def judge_mean(both: Sides, seed: int, count: int, far: bool) -> None:
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
    assert both.ledger.judged and not both.ledger.unconstrained


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_losses_of_three_pieces_are_added_as_one_sum(precision: str) -> None:
    def loss(ops: Any, w: Any, x: Any) -> Any:
        return ops.sum(ops.mul(x, ops.broadcast_to(w, shape=x.shape)))

    twin = TwinTrainer(loss, [torch.tensor(1.0)], precision=precision)
    x = torch.tensor([2.0**8, 1.0, 1.0]).to(twin.options.compute)
    twin.step("step", "sgd", Batch([x], 3, "sum"), lr=0.0)


def cancel() -> None:
    """Take a step whose gradient is a weight, rounded up, less a product that is truncated."""

    def loss(ops: Any, w: Any, x: Any) -> Any:
        return ops.sum(ops.mul(ops.mul(w, x), x))

    x = torch.tensor([1.0, 1.0 + 11 / 128]).bfloat16()
    up = 1 + Fraction(45, 256) + Fraction(1, 2**12)
    twin = TwinTrainer(loss, [torch.ones(1)], provider="triton", precision="bf16")
    twin.step("step", "sgd", Batch([x], weights=[up, -1.0]), lr=0.5)


def test_weights_are_rounded_to_nearest_where_kernels_truncate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cancel()
    found = of_program("triton-interpreted", "bf16")
    truncating = replace(found, store_rounding="toward_zero")
    monkeypatch.setattr(trainers, "of_program", lambda family, precision: truncating)
    with pytest.raises(Violation, match=r"^step: gradient of parameter 0"):
        cancel()


Change = Callable[[pytest.MonkeyPatch], None]


def piece_unweighted(monkeypatch: pytest.MonkeyPatch) -> None:
    backward = Session.backward
    monkeypatch.setattr(
        Session,
        "backward",
        lambda self, loss, seed=None, into=None: backward(self, loss, None, into),
    )


def loss_unweighted(monkeypatch: pytest.MonkeyPatch) -> None:
    add = Total.add
    monkeypatch.setattr(Total, "add", lambda self, out, weight: add(self, out, 1))


def pieces_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    backward = Session.backward

    def alone(self: Any, loss: Any, seed: Any = None, into: Any = None) -> Any:
        if into is not None:
            into.release()
        return backward(self, loss, seed)

    monkeypatch.setattr(Session, "backward", alone)


def momentum_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    step = FlatOptimizer.step

    def forgetful(self: Any, *given: Any, **more: Any) -> None:
        for arena in self._states or ():
            arena.flat.zero_()
        step(self, *given, **more)

    monkeypatch.setattr(FlatOptimizer, "step", forgetful)


def schedule_early(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduled = fast.train.ScalarTrainer._scheduled

    def early(self: Any, hyper: Any) -> Any:
        self.steps += 1
        try:
            return scheduled(self, hyper)
        finally:
            self.steps -= 1

    monkeypatch.setattr(fast.train.ScalarTrainer, "_scheduled", early)


def group_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Session.sgd_step
    monkeypatch.setattr(
        Session, "sgd_step", lambda self, *a, **k: step(self, *a, **{**k, "groups": None})
    )


def norm_unclipped(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Session.sgd_step
    monkeypatch.setattr(
        Session, "sgd_step", lambda self, *a, **k: step(self, *a, **{**k, "max_norm": None})
    )


def batch_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    first: dict[Any, Any] = {}
    take = CompiledSession._take

    def stale(self: Any, value: Any) -> Any:
        taken = take(self, value)
        return first.setdefault((tuple(taken.shape), taken.dtype), taken)

    monkeypatch.setattr(CompiledSession, "_take", stale)


PLANTED: list[tuple[Change, str]] = [
    (piece_unweighted, "step 0: gradient of parameter 0"),
    (loss_unweighted, "step 0: loss"),
    (pieces_forgotten, "step 0: gradient of parameter 0"),
    (momentum_lost, "step 1: parameter 0"),
    (schedule_early, "step 0: parameter 3"),
    (group_ignored, "step 0: parameter 0"),
    (norm_unclipped, "step 0: parameter 0"),
    (batch_stale, "step 0: loss"),
]
"""Bugs, and the first thing that each of them spoils."""


def two_steps() -> None:
    """Take two steps that use everything that a planted bug may break."""
    rate = schedule(0.25)
    hyper = {"lr": rate, "momentum": 0.5, "nesterov": True}
    groups = [{"params": [0, 1], "lr": 0.125}]
    form = {"count": 2, "reduction": "mean"}
    steps = [
        {"seed": k, "rows": 4, "form": form, "before": None, "max_norm": 2**-6} for k in (1, 2)
    ]
    text = Text(("relu",), "cross_entropy", "mean")
    life = Life(text, (True,) * 5, "sgd", {**hyper, "groups": groups}, steps)
    live(life, ("compiled", "eager"), "aten", "fp32")


def test_two_steps_are_right() -> None:
    two_steps()


@pytest.mark.parametrize(("plant", "spoils"), PLANTED, ids=[p.__name__ for p, _ in PLANTED])
def test_a_planted_bug_is_found(
    plant: Change, spoils: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(Violation, match=f"^{spoils}"):
        two_steps()
