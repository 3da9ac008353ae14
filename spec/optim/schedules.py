"""Schedules: the learning rate as a function of the step, which counts from 0.

    constant        lr
    step            lr * gamma^floor(t / step_size)
    exponential     lr * gamma^t
    cosine          minimum + (lr - minimum) * (1 + cos(pi * t / total)) / 2
    linear_warmup   lr * (start_factor + (1 - start_factor) * t / warmup)
    warmup_cosine   linear_warmup while t < warmup, then cosine over the other total - warmup steps
    one_cycle       from lr / div_factor to lr until t = rise * total - 1, then down to
                    lr / (div_factor * final_div_factor) until t = total - 1, along half cosines
    cyclic          minimum + (lr - minimum) * along * scale: along rises from 0 to 1 in
                    step_size_up steps and falls in step_size_down ones, again and again; in the
                    n-th cycle scale is 1, 1 / 2^(n - 1) if triangular2, gamma^t if exp_range

A schedule that has come to its end stays there; cyclic has none. Momentum is not cycled, here or in
one_cycle. `schedule(t, like)` computes in like's world.

C1  lr and minimum are finite and 0 <= minimum <= lr.
C2  step_size, step_size_up, step_size_down, warmup and total are ints >= 1, and warmup < total.
C3  gamma lies in (0, 1], start_factor and rise in [0, 1]; div_factor and final_div_factor are
    finite and >= 1.
C4  a step is an int >= 0.
C5  mode is "triangular", "triangular2" or "exp_range".

Reference: PyTorch's torch.optim.lr_scheduler: StepLR, ExponentialLR, CosineAnnealingLR, LinearLR,
OneCycleLR and CyclicLR without their cycling of momentum.

>>> [linear_warmup(8.0, warmup=4)(t) for t in range(6)], step(8.0, step_size=2, gamma=0.5)(5)
([0.0, 2.0, 4.0, 6.0, 8.0, 8.0], 2.0)
"""

# This file is longer than the guide because it has eight schedules, which one reads side by side.

from __future__ import annotations

from fractions import Fraction
from typing import Any

from spec.optim._moments import power
from spec.optim._rates import MODES, Schedule, between, check, check_mode, fallen, schedule
from spec.scalar import divide, lift, pi_like


def constant(lr: float) -> Schedule:
    """Return the same rate at every step."""
    check("constant", lr)
    return schedule("constant", lambda t, like: lift(like, Fraction(lr)))


def step(lr: float, *, step_size: int, gamma: float = 0.1) -> Schedule:
    """Return a rate that falls by a factor every so many steps."""
    check("step", lr, counts={"step_size": step_size}, gamma=gamma)
    return schedule("step", lambda t, like: fallen(like, lr, gamma, t // step_size))


def exponential(lr: float, *, gamma: float) -> Schedule:
    """Return a rate that falls by a factor at every step."""
    check("exponential", lr, gamma=gamma)
    return schedule("exponential", lambda t, like: fallen(like, lr, gamma, t))


def cosine(lr: float, *, total: int, minimum: float = 0.0) -> Schedule:
    """Return a rate that falls along half a cosine."""
    check("cosine", lr, minimum, {"total": total})

    def rate(t: int, like: Any) -> Any:
        first, last = lift(like, Fraction(lr)), lift(like, Fraction(minimum))
        turned = pi_like(first) * lift(first, Fraction(min(t, total)))
        return between(first, last, divide(turned, lift(first, Fraction(total))))

    return schedule("cosine", rate)


def linear_warmup(lr: float, *, warmup: int, start_factor: float = 0.0) -> Schedule:
    """Return a rate that rises in equal steps."""
    check("linear_warmup", lr, counts={"warmup": warmup}, shares={"start_factor": start_factor})

    def rate(t: int, like: Any) -> Any:
        first = lift(like, Fraction(start_factor))
        risen = (lift(first, Fraction(1)) - first) * lift(first, Fraction(min(t, warmup)))
        return lift(first, Fraction(lr)) * (first + divide(risen, lift(first, Fraction(warmup))))

    return schedule("linear_warmup", rate)


def warmup_cosine(
    lr: float, *, warmup: int, total: int, start_factor: float = 0.0, minimum: float = 0.0
) -> Schedule:
    """Return a rate that rises in equal steps, and then falls along half a cosine."""
    counts, shares = {"warmup": warmup, "total": total}, {"start_factor": start_factor}
    check("warmup_cosine", lr, minimum, counts, shares)
    rise = linear_warmup(lr, warmup=warmup, start_factor=start_factor)
    fall = cosine(lr, total=total - warmup, minimum=minimum)

    def rate(t: int, like: Any) -> Any:
        return rise(t, like) if t < warmup else fall(t - warmup, like)

    return schedule("warmup_cosine", rate)


def one_cycle(
    lr: float,
    *,
    total: int,
    rise: float = 0.3,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> Schedule:
    """Return a rate that rises and then falls, further down than it started."""
    divisors = {"div_factor": div_factor, "final_div_factor": final_div_factor}
    check("one_cycle", lr, counts={"total": total}, shares={"rise": rise}, divisors=divisors)
    peak = Fraction(rise) * total - 1

    def rate(t: int, like: Any) -> Any:
        t = min(t, total - 1)
        top, here = lift(like, Fraction(lr)), lift(like, Fraction(t))
        turn = lift(like, Fraction(rise)) * lift(like, Fraction(total)) - lift(like, Fraction(1))
        start = divide(top, lift(like, Fraction(div_factor)))
        if t <= peak:
            along = divide(here, turn) if peak else lift(like, Fraction(1))
            return between(start, top, pi_like(top) * along)
        end = divide(start, lift(like, Fraction(final_div_factor)))
        along = divide(here - turn, lift(like, Fraction(total - 1)) - turn)
        return between(top, end, pi_like(top) * along)

    return schedule("one_cycle", rate)


def cyclic(
    lr: float,
    *,
    step_size_up: int,
    step_size_down: int | None = None,
    minimum: float = 0.0,
    mode: str = "triangular",
    gamma: float = 1.0,
) -> Schedule:
    """Return a rate that rises and falls in lines, again and again."""
    down = step_size_up if step_size_down is None else step_size_down
    counts = {"step_size_up": step_size_up, "step_size_down": down}
    check("cyclic", lr, minimum, counts, gamma=gamma)
    check_mode("cyclic C5", mode)
    length = step_size_up + down

    def rate(t: int, like: Any) -> Any:
        cycle, place = t // length, t % length
        one, total = lift(like, Fraction(1)), lift(like, Fraction(length))
        x = one + divide(lift(like, Fraction(t)), total) - lift(like, Fraction(cycle + 1))
        turn = divide(lift(like, Fraction(step_size_up)), total)
        along = divide(x, turn) if place <= step_size_up else divide(x - one, turn - one)
        low = lift(like, Fraction(minimum))
        base, times = MODES[mode](gamma, cycle, t)
        scale = lift(like, power(Fraction(base), times))
        return low + (lift(like, Fraction(lr)) - low) * along * scale

    return schedule("cyclic", rate)
