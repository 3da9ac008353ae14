"""The optimizers, against their formulas worked out by hand in exact fractions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.worlds.opaque import opaque
from spec import scalar
from spec.op import AnyTensor
from spec.optim import adam, adamw, clip, sgd
from spec.optim.adam import Adam
from spec.optim.adamw import AdamW
from spec.optim.sgd import Sgd
from spec.tensor import tensor

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
NUMBERS = st.integers(-4, 4).map(lambda n: Fraction(n, 2))


def sgd_run(parameter: Any, gradients: list[Any], hyper: Sgd) -> tuple[list[Any], sgd.State]:
    """Take one step per gradient; return every parameter on the way and the last state."""
    p = tensor(parameter)
    state, found = sgd.init(p), []
    for gradient in gradients:
        p, state = sgd.update(p, tensor(gradient), state, hyper)
        found.append(p.nested())
    return found, state


def adamw_run(parameter: Any, gradients: list[Any], hyper: AdamW) -> tuple[list[Any], adamw.State]:
    """Take one step per gradient; return every parameter on the way and the last state."""
    p = tensor(parameter)
    state, found = adamw.init(p), []
    for gradient in gradients:
        p, state = adamw.update(p, tensor(gradient), state, hyper)
        found.append(p.nested())
    return found, state


def adam_run(parameter: Any, gradients: list[Any], hyper: Adam) -> tuple[list[Any], adam.State]:
    """Take one step per gradient; return every parameter on the way and the last state."""
    p = tensor(parameter)
    state, found = adam.init(p), []
    for gradient in gradients:
        p, state = adam.update(p, tensor(gradient), state, hyper)
        found.append(p.nested())
    return found, state


def test_plain_sgd_by_hand() -> None:
    found, state = sgd_run([1.0, -2.0], [[2.0, 0.0], [4.0, 8.0]], Sgd(lr=0.25))
    assert found == [[0.5, -2.0], [-0.5, -4.0]]
    assert state.momentum_buffer is None


def test_weight_decay_joins_the_gradient_by_hand() -> None:
    # g + 0.5 * p = 1 + 1 = 2, then 2 - 0.5 * 2 = 1
    assert sgd_run(2.0, [1.0], Sgd(lr=0.5, weight_decay=0.5))[0] == [1.0]


def test_momentum_by_hand() -> None:
    # buffers 1, 0.5 + 2 = 2.5, 1.25 + 4 = 5.25
    found, state = sgd_run(0.0, [1.0, 2.0, 4.0], Sgd(lr=1.0, momentum=0.5))
    assert found == [-1.0, -3.5, -8.75]
    assert state.momentum_buffer == tensor(5.25)


def test_dampening_spares_the_first_step_by_hand() -> None:
    # buffers 1 (undamped), 0.5 + 0.25 * 2 = 1
    found, _ = sgd_run(0.0, [1.0, 2.0], Sgd(lr=1.0, momentum=0.5, dampening=0.75))
    assert found == [-1.0, -2.0]


def test_nesterov_looks_ahead_by_hand() -> None:
    # buffers 1, 2.5; directions 1 + 0.5 * 1 = 1.5, 2 + 0.5 * 2.5 = 3.25
    found, _ = sgd_run(0.0, [1.0, 2.0], Sgd(lr=1.0, momentum=0.5, nesterov=True))
    assert found == [-1.5, -4.75]


@pytest.mark.holds("Stochastic gradient descent, from any form of gradients")
@settings(max_examples=50)
@given(
    p=NUMBERS,
    gradients=st.lists(NUMBERS, min_size=1, max_size=4),
    momentum=st.sampled_from([Fraction(0), QUARTER, HALF]),
    dampening=st.sampled_from([Fraction(0), QUARTER]),
    decay=st.sampled_from([Fraction(0), HALF]),
    nesterov=st.booleans(),
)
def test_sgd_is_its_formula(p, gradients, momentum, dampening, decay, nesterov) -> None:
    if nesterov and (momentum == 0 or dampening != 0):
        nesterov = False
    hyper = Sgd(HALF, momentum, dampening, decay, nesterov)  # type: ignore[arg-type]
    found, _ = sgd_run(p, gradients, hyper)
    buffer: Fraction | None = None
    for k, gradient in enumerate(gradients):
        g = gradient + decay * p
        buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
        step = g + momentum * buffer if nesterov else buffer if momentum else g
        p = p - HALF * step
        assert found[k] == p


def test_one_step_of_adamw_by_hand() -> None:
    # decay first: 2 * (1 - 0.5 * 0.5) = 1.5; m = 0.5 * 4 = 2; v = 0.25 * 16 = 4
    # rate 0.5 / (1 - 0.5) = 1; root sqrt(4) / sqrt(1 - 0.75) + 4 = 8; 1.5 - 1 * 2 / 8 = 1.25
    hyper = AdamW(lr=0.5, beta1=0.5, beta2=0.75, eps=4.0, weight_decay=0.5)
    found, state = adamw_run([2.0], [[4.0]], hyper)
    assert found == [[1.25]]
    assert state == adamw.State(tensor([2.0]), tensor([4.0]), 1)


def test_two_steps_of_adamw_by_hand() -> None:
    # beta2 = 0: v = g^2 and no correction of it, so the root is |g| + eps
    # step 1: m = 1, rate 1 / 0.5 = 2, 0 - 2 * 1 / (2 + 2) = -0.5
    # step 2: m = 0.5 - 1.5 = -1, rate 1 / 0.75, -0.5 + (4/3) * 1 / (3 + 2) = -7/30
    hyper = AdamW(lr=1.0, beta1=0.5, beta2=0.0, eps=2.0, weight_decay=0.0)
    found, state = adamw_run(Fraction(0), [Fraction(2), Fraction(-3)], hyper)
    assert found == [Fraction(-1, 2), Fraction(-7, 30)]
    assert (state.exp_avg, state.exp_avg_sq, state.step) == (tensor(-1), tensor(9), 2)


@pytest.fixture(name="exact")
def exact_world() -> Iterator[None]:
    """Let roots be opaque where they are no fractions."""
    with opaque():
        yield


@pytest.mark.holds("AdamW")
@pytest.mark.usefixtures("exact")
@settings(max_examples=50)
@given(
    p=NUMBERS,
    gradients=st.lists(NUMBERS, min_size=1, max_size=4),
    beta1=st.sampled_from([Fraction(0), HALF, Fraction(2, 3)]),
    beta2=st.sampled_from([Fraction(0), QUARTER, Fraction(3, 4)]),
    decay=st.sampled_from([Fraction(0), HALF]),
)
def test_adamw_is_its_formula(p, gradients, beta1, beta2, decay) -> None:
    hyper = AdamW(HALF, beta1, beta2, QUARTER, decay)  # type: ignore[arg-type]
    found, _ = adamw_run(p, gradients, hyper)
    m = v = Fraction(0)
    for k, g in enumerate(gradients):
        p = p - HALF * decay * p
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        root = scalar.sqrt(v) / scalar.sqrt(1 - beta2 ** (k + 1)) + QUARTER
        p = p - HALF / (1 - beta1 ** (k + 1)) * m / root
        assert found[k] == p


def test_one_step_of_adam_by_hand() -> None:
    # decay joins: 4 + 0.5 * 8 = 8; m = 0.5 * 8 = 4; v = 0.25 * 64 = 16
    # rate 0.5 / (1 - 0.5) = 1; root sqrt(16) / sqrt(1 - 0.75) + 8 = 16; 8 - 1 * 4 / 16 = 7.75
    hyper = Adam(lr=0.5, beta1=0.5, beta2=0.75, eps=8.0, weight_decay=0.5)
    found, state = adam_run([8.0], [[4.0]], hyper)
    assert found == [[7.75]]
    assert state == adam.State(tensor([4.0]), tensor([16.0]), 1)


@pytest.mark.holds("Adam")
@pytest.mark.usefixtures("exact")
@settings(max_examples=50)
@given(
    p=NUMBERS,
    gradients=st.lists(NUMBERS, min_size=1, max_size=4),
    beta1=st.sampled_from([Fraction(0), HALF, Fraction(2, 3)]),
    beta2=st.sampled_from([Fraction(0), QUARTER, Fraction(3, 4)]),
    decay=st.sampled_from([Fraction(0), HALF]),
)
def test_adam_is_its_formula(p, gradients, beta1, beta2, decay) -> None:
    hyper = Adam(HALF, beta1, beta2, QUARTER, decay)  # type: ignore[arg-type]
    found, _ = adam_run(p, gradients, hyper)
    m = v = Fraction(0)
    for k, gradient in enumerate(gradients):
        g = gradient + decay * p
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        root = scalar.sqrt(v) / scalar.sqrt(1 - beta2 ** (k + 1)) + QUARTER
        p = p - HALF / (1 - beta1 ** (k + 1)) * m / root
        assert found[k] == p


def test_without_decay_adam_is_adamw() -> None:
    gradients = [[3.0], [-2.0], [0.5]]
    one, first = adam_run([1.0], gradients, Adam(lr=0.1))
    other, second = adamw_run([1.0], gradients, AdamW(lr=0.1, weight_decay=0.0))
    assert one == other
    assert (first.exp_avg, first.exp_avg_sq) == (second.exp_avg, second.exp_avg_sq)
    assert not isinstance(first, adamw.State), "a state says which optimizer made it"


def guarded(norm: int) -> Fraction:
    """Return the bound that scales gradients of this norm by exactly 1."""
    return norm + clip.GUARD


@given(st.integers(1, 8))
def test_clipping_divides_every_gradient_by_the_norm_of_all(parts: int) -> None:
    gradients = [tensor([Fraction(2)]), tensor([[Fraction(3)], [Fraction(6)]])]
    scaled = clip.clipped(gradients, guarded(7) / parts)
    assert [g.nested() for g in scaled] == [
        [Fraction(2, parts)],
        [[Fraction(3, parts)], [Fraction(6, parts)]],
    ]


def test_clipping_never_makes_a_gradient_larger() -> None:
    gradients = [tensor([Fraction(3), Fraction(-4)])]
    for bound in (guarded(5), guarded(6), 10**9):
        assert clip.clipped(gradients, bound) == gradients
    nothing = [tensor([Fraction(0)])]
    assert clip.clipped(nothing, Fraction(1, 10**9)) == nothing
    assert clip.clipped([tensor([])], 1.0) == [tensor([])]
    assert clip.clipped([], 1.0) == []


def test_entries_are_clipped_after_the_scale_and_before_the_norm() -> None:
    gradients = [tensor([Fraction(16), Fraction(-6)]), tensor([Fraction(8)])]
    # Divided by 2 they are 8, -3 and 4; clipped to 4 they are 4, -3 and 4.
    only = clip.Limits(max_value=4)
    assert clip.scaled(gradients, [only] * 2, grad_scale=2) == [
        tensor([Fraction(4), Fraction(-3)]),
        tensor([Fraction(4)]),
    ]
    # Without the 4 of the second, whose limits are others, the norm is 5.
    both, none = clip.Limits(guarded(5) / 2, 4), clip.Limits(None, 4, apart=1)
    assert clip.scaled(gradients, [both, none], grad_scale=2) == [
        tensor([Fraction(2), Fraction(-3, 2)]),
        tensor([Fraction(4)]),
    ]


def test_a_norm_is_that_of_those_who_share_it() -> None:
    gradients = [tensor([Fraction(n)]) for n in (3, 12, 4, 5)]
    shared, apart = clip.Limits(guarded(5) / 5), clip.Limits(guarded(13) / 13, apart=2)
    assert clip.scaled(gradients, [shared, apart, shared, apart]) == [
        tensor([Fraction(n, parts)]) for n, parts in ((3, 5), (12, 13), (4, 5), (5, 13))
    ]


def test_values_are_clipped_as_torchs_are() -> None:
    given = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.0, -1.0, 0.75, -2.0]
    (found,) = clip.scaled([tensor(given)], [clip.Limits(max_value=1.0)])
    expected = ["nan", "1.0", "-1.0", "-0.0", "0.0", "1.0", "-1.0", "0.75", "-1.0"]
    assert list(map(repr, found.data)) == expected


def test_a_norm_that_is_not_finite_is_torchs() -> None:
    infinite = clip.clipped([tensor([float("inf"), 1.0]), tensor([-2.0])], 1.0)
    assert [list(map(repr, g.data)) for g in infinite] == [["nan", "0.0"], ["-0.0"]]
    undefined = clip.clipped([tensor([float("nan"), 1.0]), tensor([-2.0])], 1.0)
    assert [list(map(repr, g.data)) for g in undefined] == [["nan", "nan"], ["nan"]]


def test_corrections_are_exact_for_a_while() -> None:
    beta, p, zero = Fraction(2, 3), tensor(Fraction(0)), tensor(Fraction(0))
    hyper = AdamW(1, beta, 0, 1, 0)  # type: ignore[arg-type]
    moved, _ = adamw.update(p, tensor(Fraction(1)), adamw.State(zero, zero, 99), hyper)
    # m = 1/3, v = 1, root 1 + 1
    assert moved.nested() == -Fraction(1, 3) / 2 / (1 - beta**100)


def test_a_zero_gradient_still_decays_and_counts() -> None:
    found, state = adamw_run([1.0], [[0.0]], AdamW(lr=0.5, weight_decay=0.5))
    assert found == [[0.75]]
    assert state.step == 1


def test_floats_are_taken_as_the_exact_numbers_that_they_are() -> None:
    p = Fraction(1)
    found, _ = sgd_run(p, [Fraction(1)], Sgd(lr=0.1))
    assert found == [1 - Fraction(0.1)]


def after(steps: int, hyper: AdamW, parameter: AnyTensor) -> tuple[AnyTensor, adamw.State]:
    """Take the step that follows so many."""
    one = parameter.map(lambda _: 1.0)
    return adamw.update(parameter, one, adamw.State(one, one, steps), hyper)


@pytest.mark.parametrize(("beta1", "beta2"), [(0.9, 0.999), (1e-9, 0.5), (0.0, 1 - 2**-53)])
def test_a_huge_step_count_costs_no_time(beta1: float, beta2: float) -> None:
    steps, start = 10**6, time.perf_counter()
    p, state = after(steps, AdamW(beta1=beta1, beta2=beta2), tensor([1.0]))
    assert time.perf_counter() - start < 1
    assert state.step == steps + 1
    assert 0 < p.data[0] < 1


def test_late_corrections_are_rounded_from_exact_numbers() -> None:
    # after 40 steps beta^t still counts in binary64; the exact power decides the rounding
    beta1, beta2 = Fraction(0.9), Fraction(0.999)
    p, _ = after(39, AdamW(lr=0.5, eps=2.0**-40, weight_decay=0.0), tensor([1.0]))
    rate = float(HALF / (1 - beta1**40))
    m = float(beta1) * 1.0 + float(1 - beta1)
    v = float(beta2) * 1.0 + float(1 - beta2)
    root = scalar.sqrt(v) / scalar.sqrt(float(1 - beta2**40)) + 2.0**-40
    assert p.nested() == [1.0 - rate * (m / root)]
