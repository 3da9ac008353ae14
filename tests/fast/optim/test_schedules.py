"""Schedules: torch's rates step by step, the reference's within doubles' rounding, refusals."""

from __future__ import annotations

import inspect
import math
import random
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import lr_scheduler

import fast
import spec.op
from equivalence.budgets.judge import fraction_of
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import Bounded, constant, exact
from equivalence.worlds.contract import FP64, Contract, ulps
from fast.optim import schedules as ours
from spec import scalar
from spec.optim import schedules as theirs

LIBC = {"cos": ulps(1.0, "the GNU C library's manual, known maximum errors: cos 1 ulp")}
DOUBLES = Arithmetic(Contract("doubles", FP64, FP64, functions=LIBC))

SCHEDULES: list[tuple[str, dict[str, Any]]] = [
    ("constant", {}),
    ("step", {"step_size": 3}),
    ("step", {"step_size": 1, "gamma": 0.7}),
    ("exponential", {"gamma": 0.9}),
    ("exponential", {"gamma": 1.0}),
    ("cosine", {"total": 10}),
    ("cosine", {"total": 7, "minimum": 1e-3}),
    ("linear_warmup", {"warmup": 5}),
    ("linear_warmup", {"warmup": 9, "start_factor": 0.1}),
    ("warmup_cosine", {"warmup": 4, "total": 11, "start_factor": 0.25, "minimum": 1e-4}),
    ("one_cycle", {"total": 20}),
    ("one_cycle", {"total": 13, "rise": 0.45, "div_factor": 10.0, "final_div_factor": 100.0}),
    ("one_cycle", {"total": 2, "rise": 0.5}),
    ("one_cycle", {"total": 5, "rise": 0.0}),
    ("one_cycle", {"total": 5, "rise": 1.0}),
]
CYCLES: list[dict[str, Any]] = [
    {"step_size_up": 4},
    {"step_size_up": 3, "step_size_down": 5, "minimum": 1e-3},
    {"step_size_up": 1, "step_size_down": 2, "mode": "triangular2"},
    {"step_size_up": 7, "minimum": 0.01, "mode": "triangular2"},
    {"step_size_up": 5, "step_size_down": 1, "mode": "exp_range", "gamma": 0.9},
]
SCHEDULES += [("cyclic", settings) for settings in CYCLES]
POWERS = ("step", "exponential")
WITHOUT_POWERS = [c for c in SCHEDULES if c[0] not in POWERS and "gamma" not in c[1]]
LR = 0.05
STEPS = 25


def optimizer(lr: float = LR) -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.zeros(1)], lr=lr)


def stepped(scheduler: Any, steps: int = STEPS) -> Iterator[tuple[float, float | None]]:
    """The rate at each step: as the scheduler reached it, and by its closed form if it has one."""
    with warnings.catch_warnings():
        # No optimizer steps here, which torch would like to see before its schedulers' steps.
        warnings.simplefilter("ignore")
        for t in range(steps):
            if t:
                scheduler.step()
            closed = getattr(scheduler, "_get_closed_form_lr", None)
            yield scheduler.get_last_lr()[0], None if closed is None else closed()[0]


CLOSED: list[tuple[str, dict[str, Any], Callable[[], Any]]] = [
    ("step", {"step_size": 3}, lambda: lr_scheduler.StepLR(optimizer(), 3)),
    (
        "step",
        {"step_size": 1, "gamma": 0.7},
        lambda: lr_scheduler.StepLR(optimizer(), 1, gamma=0.7),
    ),
    ("exponential", {"gamma": 0.9}, lambda: lr_scheduler.ExponentialLR(optimizer(), 0.9)),
    (
        "linear_warmup",
        {"warmup": 9, "start_factor": 0.1},
        lambda: lr_scheduler.LinearLR(optimizer(), 0.1, total_iters=9),
    ),
]


@pytest.mark.parametrize(("name", "settings", "scheduler"), CLOSED)
def test_rates_are_torchs_closed_forms(
    name: str, settings: dict[str, Any], scheduler: Callable[[], Any]
) -> None:
    rate = getattr(ours, name)(LR, **settings)
    found = [rate(t) for t in range(STEPS)]
    assert found == [closed for _, closed in stepped(scheduler())]
    assert len(set(found)) > 2


@pytest.mark.parametrize(("total", "minimum"), [(10, 0.0), (7, 1e-3), (1, 0.0)])
def test_a_cosine_is_torchs_closed_form_and_stays_at_its_end(total: int, minimum: float) -> None:
    rate = ours.cosine(LR, total=total, minimum=minimum)
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer(), total, minimum)
    expected = [closed for _, closed in stepped(scheduler, total + 1)]
    assert [rate(t) for t in range(total + 1)] == expected
    # There torch turns back up.
    assert rate(total) == rate(total + 1) == rate(10 * total)


@pytest.mark.parametrize("settings", [s for n, s in SCHEDULES if n == "one_cycle"])
def test_one_cycle_is_torchs(settings: dict[str, Any]) -> None:
    total, rise = settings["total"], settings.get("rise", 0.3)
    rate = ours.one_cycle(LR, **settings)
    found = [rate(t) for t in range(total)]
    if rise * total == 1:
        # torch divides by zero here; a rise without any time is over at once.
        assert found[0] == LR
        return
    named = {k: v for k, v in settings.items() if "div" in k}
    scheduler = lr_scheduler.OneCycleLR(
        optimizer(), LR, total_steps=total, pct_start=rise, cycle_momentum=False, **named
    )
    assert found == [last for last, _ in stepped(scheduler, total)]
    assert rate(total - 1) == rate(total) == rate(5 * total)


@pytest.mark.parametrize("settings", CYCLES)
def test_cyclic_is_torchs_without_its_cycling_of_momentum(settings: dict[str, Any]) -> None:
    rate = ours.cyclic(LR, **settings)
    named = {name: value for name, value in settings.items() if name != "minimum"}
    low = settings.get("minimum", 0.0)
    scheduler = lr_scheduler.CyclicLR(optimizer(), low, LR, cycle_momentum=False, **named)
    assert [rate(t) for t in range(STEPS)] == [last for last, _ in stepped(scheduler)]


def test_cycles_without_end_neither_overflow_nor_take_long() -> None:
    settings: dict[str, Any] = {"step_size_up": 1, "mode": "triangular2", "minimum": 0.01}
    for t in (3001, 10**9 + 1):
        assert ours.cyclic(LR, **settings)(t) == theirs.cyclic(LR, **settings)(t) == 0.01


def drawn_schedules(
    count: int,
) -> Iterator[tuple[str, dict[str, Any], Callable[[], list[float]]]]:
    """Draw settings of every schedule in turn, and what asks torch for its rates by them."""
    draw = random.Random(27)
    for k in range(count):
        n, m, share = draw.randint(1, 9), draw.randint(1, 9), draw.uniform(0.05, 1.0)
        low, total = LR * draw.uniform(0.0, 0.9), STEPS + n
        cycle = {"step_size_up": n, "step_size_down": m, "minimum": low}
        yield (
            ("constant", {}, _torchs("ConstantLR", 1.0)),
            ("step", {"step_size": n, "gamma": share}, _torchs("StepLR", n, share)),
            ("exponential", {"gamma": share}, _torchs("ExponentialLR", share)),
            ("cosine", {"total": total, "minimum": low}, _torchs("CosineAnnealingLR", total, low)),
            (
                "linear_warmup",
                {"warmup": n, "start_factor": share},
                _torchs("LinearLR", share, total_iters=n),
            ),
            (
                "warmup_cosine",
                {"warmup": n, "total": total, "start_factor": share, "minimum": low},
                _in_turn(
                    n, _torchs("LinearLR", share, total_iters=n),
                    _torchs("CosineAnnealingLR", STEPS, low),
                ),
            ),
            (
                "one_cycle",
                {"total": total, "rise": share, "div_factor": 1.0 + n, "final_div_factor": m},
                _torchs(
                    "OneCycleLR", LR, total_steps=total, pct_start=share, div_factor=1.0 + n,
                    final_div_factor=float(m), cycle_momentum=False,
                ),
            ),
            *(
                (
                    "cyclic",
                    {**cycle, **more},
                    _torchs("CyclicLR", low, LR, n, m, cycle_momentum=False, **more),
                )
                for more in (
                    {"mode": "triangular"},
                    {"mode": "triangular2"},
                    {"mode": "exp_range", "gamma": share},
                )
            ),
        )[k % 10]  # fmt: skip


def _torchs(name: str, *given: Any, **more: Any) -> Callable[[], list[float]]:
    """Make a scheduler and step it: its rates by its closed form, where it has one.

    Without it torch multiplies rate by rate, and rounds at every step.
    """

    def rates() -> list[float]:
        pairs = stepped(getattr(lr_scheduler, name)(optimizer(), *given, **more))
        return [last if closed is None else closed for last, closed in pairs]

    return rates


def _in_turn(
    first: int, rise: Callable[[], list[float]], fall: Callable[[], list[float]]
) -> Callable[[], list[float]]:
    return lambda: [*rise()[:first], *fall()[: STEPS - first]]


DRAWN = [(name, settings, rates()) for name, settings, rates in drawn_schedules(100)]


def test_a_hundred_schedules_of_every_kind_are_torchs() -> None:
    assert {name for name, _, _ in DRAWN} == {name for name, _ in SCHEDULES}
    for name, settings, expected in DRAWN:
        rate = getattr(ours, name)(LR, **settings)
        assert [rate(t) for t in range(STEPS)] == expected, (name, settings)


def cycled(settings: dict[str, Any], t: int) -> list[Bounded]:
    """Take torch's own steps of a cycle on doubles: what a rate may be, by each side of a kink."""
    up, total = settings["step_size_up"], settings["step_size_up"] + settings["step_size_down"]
    number, low = 1 + t // total, constant(DOUBLES, Fraction(settings["minimum"]))
    share = scalar.divide(constant(DOUBLES, up), constant(DOUBLES, total))
    place = 1 + scalar.divide(constant(DOUBLES, t), constant(DOUBLES, total)) - number
    rising, falling = scalar.divide(place, share), scalar.divide(place - 1, share - 1)
    sides = [rising] * (t % total <= up) + [falling] * (t % total >= up)
    height = constant(DOUBLES, Fraction(LR)) - low
    scale = Fraction(1, 2 ** (number - 1)) if settings["mode"] == "triangular2" else Fraction(1)
    return [low + height * side * constant(DOUBLES, scale) for side in sides]


def test_a_hundred_schedules_are_the_references() -> None:
    """Within the rounding of doubles, in the steps of each side."""
    for name, settings, expected in DRAWN:
        reference = getattr(theirs, name)(LR, **settings)
        if name in POWERS:
            true = [reference(t, like=Fraction(0)) for t in range(STEPS)]
            assert all(within(3, got, rate) for got, rate in zip(expected, true, strict=True))
            continue
        found = [[x] for x in bounded_rates(name, settings)]
        of_reference = zip([reference(t) for t in range(STEPS)], found, strict=True)
        assert all((fraction_of(got, x[0]) or 0.0) <= 1.0 for got, x in of_reference)
        if settings.get("mode") == "exp_range":
            continue  # Its power is torch's by one call, and the reference's by many products.
        if name == "cyclic":
            found = [cycled(settings, t) for t in range(STEPS)]
        for got, either in zip(expected, found, strict=True):
            assert min(fraction_of(got, x) or 0.0 for x in either) <= 1.0, (name, settings)


def within(count: int, got: float, exact_rate: Fraction) -> bool:
    """Whether so many roundings of doubles explain the difference."""
    unit = Fraction(FP64.unit)
    return abs(Fraction(got) - exact_rate) <= ((1 + unit) ** count - 1) * exact_rate


@pytest.mark.parametrize(("name", "settings"), [c[:2] for c in CLOSED if c[0] != "linear_warmup"])
def test_falling_rates_are_the_references_and_torchs_chains(
    name: str, settings: dict[str, Any]
) -> None:
    rate = getattr(ours, name)(LR, **settings)
    reference = getattr(theirs, name)(LR, **settings)
    scheduler = next(make for n, s, make in CLOSED if (n, s) == (name, settings))()
    for t, (chained, _) in enumerate(stepped(scheduler)):
        true = reference(t, like=Fraction(0))
        # pow is within an ulp, which is two roundings; the product is one.
        assert within(3, rate(t), true)
        # torch multiplies by gamma again and again.
        assert within(t, chained, true)


def bounded_rates(name: str, settings: dict[str, Any]) -> list[Any]:
    """The reference on doubles: what every step's rounding allows."""
    (like,) = exact(DOUBLES, 0.0)
    reference = getattr(theirs, name)(LR, **settings)
    return [reference(t, like) for t in range(STEPS)]


@pytest.mark.parametrize(("name", "settings"), WITHOUT_POWERS)
def test_rates_are_the_references_within_the_rounding_of_doubles(
    name: str, settings: dict[str, Any]
) -> None:
    rate = getattr(ours, name)(LR, **settings)
    allowed = bounded_rates(name, settings)
    assert not any(x.unconstrained for x in allowed)
    assert all((fraction_of(rate(t), x) or 0.0) <= 1.0 for t, x in enumerate(allowed))


@pytest.mark.parametrize(("name", "settings"), SCHEDULES)
def test_the_reference_on_floats_agrees_with_the_budget_too(
    name: str, settings: dict[str, Any]
) -> None:
    reference = getattr(theirs, name)(LR, **settings)
    allowed = bounded_rates(name, settings)
    assert all((fraction_of(reference(t), x) or 0.0) <= 1.0 for t, x in enumerate(allowed))


def test_torchs_recursive_cosine_is_ours_within_its_own_rounding() -> None:
    total, minimum = 10, 1e-3
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer(), total, minimum)
    lr, least = constant(DOUBLES, Fraction(LR)), constant(DOUBLES, Fraction(minimum))
    pi = scalar.pi_like(lr)

    def turned(t: int) -> Bounded:
        return 1 + scalar.cos(scalar.divide(pi * constant(DOUBLES, t), constant(DOUBLES, total)))

    for t, (last, _) in enumerate(stepped(scheduler, total + 1)):
        if t:
            lr = scalar.divide(turned(t), turned(t - 1)) * (lr - least) + least
        assert (fraction_of(last, lr) or 0.0) <= 1.0


def test_a_recursive_warmup_is_ours_within_its_own_rounding() -> None:
    warmup, start = 9, 0.1
    scheduler = lr_scheduler.LinearLR(optimizer(), start, total_iters=warmup)
    first = constant(DOUBLES, Fraction(start))
    lr = constant(DOUBLES, Fraction(LR)) * first
    for t, (last, _) in enumerate(stepped(scheduler, warmup + 1)):
        if t:
            bottom = constant(DOUBLES, warmup) * first + constant(DOUBLES, t - 1) * (1 - first)
            lr = lr * (1 + scalar.divide(1 - first, bottom))
        assert (fraction_of(last, lr) or 0.0) <= 1.0


def test_warmup_and_cosine_are_torchs_in_sequence() -> None:
    warmup, total, minimum = 4, 11, 1e-4
    rate = ours.warmup_cosine(LR, warmup=warmup, total=total, start_factor=0.25, minimum=minimum)
    rise = lr_scheduler.LinearLR(optimizer(), 0.25, total_iters=warmup)
    fall = lr_scheduler.CosineAnnealingLR(optimizer(), total - warmup, minimum)
    expected = [closed for _, closed in stepped(rise, warmup)]
    expected += [closed for _, closed in stepped(fall, total - warmup + 1)]
    assert [rate(t) for t in range(total + 1)] == expected
    assert rate(warmup) == LR


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_rates_stay_between_their_ends(t: int, total: int) -> None:
    for rate, least in (
        (ours.cosine(LR, total=total, minimum=0.01), 0.01),
        (ours.linear_warmup(LR, warmup=total), 0.0),
        (ours.exponential(LR, gamma=0.999), 0.0),
    ):
        assert least <= rate(t) <= LR


def test_a_schedule_is_read_at_each_step() -> None:
    s = fast.Session(provider="aten", device="cpu")
    w = s.param([8.0])
    rate = ours.linear_warmup(1.0, warmup=4)
    for t in range(3):
        s.sgd_step(rate(t), s.backward(s.sum(s.use(w))))
        s.reset_tape()
    assert w.value().item() == 8.0 - (0.0 + 0.25 + 0.5)


NAN, INF = math.nan, math.inf
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    *[("constant", {"lr": bad}, "C1") for bad in (-1.0, NAN, INF)],
    *[("step", {"step_size": bad}, "C2") for bad in (0, -1, 2.0, True)],
    *[("step", {"step_size": 1, "gamma": bad}, "C3") for bad in (0.0, 1.5, NAN)],
    ("step", {"lr": -1.0, "step_size": 1}, "C1"),
    *[("exponential", {"gamma": bad}, "C3") for bad in (0.0, -0.5, INF)],
    ("exponential", {"lr": NAN, "gamma": 0.5}, "C1"),
    *[("cosine", {"total": 4, "minimum": bad}, "C1") for bad in (-1e-9, 0.06, NAN)],
    ("cosine", {"total": 0}, "C2"),
    ("linear_warmup", {"warmup": 0}, "C2"),
    *[("linear_warmup", {"warmup": 3, "start_factor": bad}, "C3") for bad in (-0.1, 1.1, NAN)],
    ("warmup_cosine", {"warmup": 4, "total": 4}, "C2"),
    ("warmup_cosine", {"warmup": 4, "total": 9, "minimum": 1.0}, "C1"),
    ("warmup_cosine", {"warmup": 4, "total": 9, "start_factor": 2.0}, "C3"),
    *[("cyclic", {"step_size_up": bad}, "C2") for bad in (0, 2.0)],
    ("cyclic", {"step_size_up": 2, "step_size_down": 0}, "C2"),
    ("cyclic", {"step_size_up": 2, "minimum": 0.06}, "C1"),
    ("cyclic", {"step_size_up": 2, "gamma": 1.5}, "C3"),
    *[("cyclic", {"step_size_up": 2, "mode": bad}, "C5") for bad in ("triangle", None)],
    ("one_cycle", {"total": 0}, "C2"),
    ("one_cycle", {"lr": INF, "total": 4}, "C1"),
    *[("one_cycle", {"total": 4, "rise": bad}, "C3") for bad in (-0.1, 1.1)],
    *[("one_cycle", {"total": 4, "div_factor": bad}, "C3") for bad in (0.0, INF, NAN)],
    ("one_cycle", {"total": 4, "final_div_factor": 0.5}, "C3"),
]


@pytest.mark.parametrize(("name", "settings", "label"), REFUSED)
def test_both_sides_refuse_in_the_same_words(
    name: str, settings: dict[str, Any], label: str
) -> None:
    arguments = {"lr": LR, **settings}
    with pytest.raises(fast.Rejected) as here:
        getattr(ours, name)(**arguments)
    with pytest.raises(spec.op.Rejected) as there:
        getattr(theirs, name)(**arguments)
    assert str(here.value) == str(there.value)
    assert str(here.value).startswith(f"{name} {label}: ")


@pytest.mark.parametrize(("name", "settings"), SCHEDULES)
def test_a_step_is_counted_from_0(name: str, settings: dict[str, Any]) -> None:
    for module, error in ((ours, fast.Rejected), (theirs, spec.op.Rejected)):
        rate = getattr(module, name)(LR, **settings)
        for bad in (-1, 1.0, True, None):
            with pytest.raises(error, match=f"^{name} C4: a step is an int >= 0; got {bad}$"):
                rate(bad)


def test_both_sides_have_the_same_schedules() -> None:
    names = {name for name, _ in SCHEDULES}
    for name in names:
        one, other = (inspect.signature(getattr(m, name)).parameters for m in (ours, theirs))
        assert [(p.name, p.default) for p in one.values()] == [
            (p.name, p.default) for p in other.values()
        ]
    public = {n for n, f in vars(ours).items() if inspect.isfunction(f) and n[0] != "_"}
    assert public - {"need", "telling"} == names


HUGE = 10**400
NUMBERS = [True, "0.5", None, [0.5], torch.ones(2), np.True_, 1j]


@pytest.mark.parametrize(("name", "settings"), SCHEDULES)
def test_a_rate_is_a_double_whatever_number_it_was_made_of(
    name: str, settings: dict[str, Any]
) -> None:
    known = getattr(ours, name)(1.0, **settings)
    exactly = {k: Fraction(v) if isinstance(v, float) else v for k, v in settings.items()}
    for lr in (1, Fraction(1), np.float64(1.0), np.float32(1.0), torch.tensor(1.0)):
        for given_settings in (settings, exactly):
            rate = getattr(ours, name)(lr, **given_settings)
            for t in range(STEPS):
                assert type(rate(t)) is float
                assert rate(t) == known(t)
    assert type(ours.exponential(1, gamma=1)(3)) is float


@pytest.mark.parametrize(("name", "settings"), SCHEDULES)
@pytest.mark.parametrize("strange", [*NUMBERS, HUGE, -HUGE, Fraction(HUGE)], ids="abcdefghij")
def test_a_rate_is_a_number_within_doubles(
    name: str, settings: dict[str, Any], strange: Any
) -> None:
    message = "is beyond the largest double" if isinstance(strange, (int, Fraction)) else "a number"
    message = "a number" if strange is True else message
    with pytest.raises(fast.Rejected, match=f"^{name}: lr .*{message}"):
        getattr(ours, name)(strange, **settings)
    for key, value in settings.items():
        if isinstance(value, float):
            with pytest.raises(fast.Rejected, match=f"^{name}: {key} .*{message}"):
                getattr(ours, name)(LR, **{**settings, key: strange})
        elif not isinstance(value, str):
            with pytest.raises(fast.Rejected, match=f"^{name} C2: {key} is an int"):
                getattr(ours, name)(LR, **{**settings, key: 2.5})
            with pytest.raises(fast.Rejected, match=f"^{name}: {key} is beyond the largest"):
                getattr(ours, name)(LR, **{**settings, key: HUGE})


@pytest.mark.parametrize(("name", "settings"), SCHEDULES)
def test_a_step_is_a_number_within_doubles_too(name: str, settings: dict[str, Any]) -> None:
    rate = getattr(ours, name)(LR, **settings)
    assert 0.0 <= rate(10**300) <= LR
    for huge in (HUGE, 10**5000):
        with pytest.raises(fast.Rejected, match=f"^{name}: a step is beyond the largest"):
            rate(huge)
    with pytest.raises(fast.Rejected, match=f"^{name} C4: a step is an int >= 0"):
        rate(-(10**5000))
