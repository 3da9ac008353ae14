"""Twin of spec.optim.schedules.

The rates are doubles, by the closed forms of torch.optim.lr_scheduler, operation for operation:

    step, exponential   lr * gamma ** n
    cosine              minimum + (lr - minimum) * (1 + cos(pi * t / total)) / 2
    linear_warmup       lr * (start_factor + (1 - start_factor) * t / warmup)
    one_cycle           last + (first - last) / 2 * (1 + cos(pi * along)) in both of its halves
    cyclic              minimum + (lr - minimum) * along * scale, where along is x / ratio, or
                        (x - 1) / (ratio - 1) on the way down, x = 1 + t / length - cycle, and
                        ratio = step_size_up / length

Each operation is rounded once; pow and cos are those of the C library. A schedule has no state: a
step's rate is what the function returns for it, in whatever order steps are asked for.

Numbers are ints, floats or Fractions, which are rounded to doubles once; what is no number, is
beyond the doubles or breaks a rule of the page is Rejected where the schedule is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fast.answers import telling
from fast.optim import _rule
from fast.optim._rule import need

Schedule = Callable[[int], float]
"""schedule(t): the learning rate at step t, which counts from 0."""


@telling
def constant(lr: float) -> Schedule:
    """Return the same rate at every step."""
    lr, _ = _rates("constant", lr)
    return _checked("constant", lambda t: lr)


@telling
def step(lr: float, *, step_size: int, gamma: float = 0.1) -> Schedule:
    """Return a rate that falls by a factor every so many steps."""
    lr, _ = _rates("step", lr)
    _check_counts("step", step_size=step_size)
    gamma = _gamma("step", gamma)
    return _checked("step", lambda t: lr * gamma ** (t // step_size))


@telling
def exponential(lr: float, *, gamma: float) -> Schedule:
    """Return a rate that falls by a factor at every step."""
    lr, _ = _rates("exponential", lr)
    gamma = _gamma("exponential", gamma)
    return _checked("exponential", lambda t: lr * gamma**t)


@telling
def cosine(lr: float, *, total: int, minimum: float = 0.0) -> Schedule:
    """Return a rate that falls along half a cosine."""
    lr, minimum = _rates("cosine", lr, minimum)
    _check_counts("cosine", total=total)

    def rate(t: int) -> float:
        turned = math.cos(math.pi * min(t, total) / total)
        return minimum + (lr - minimum) * (1 + turned) / 2

    return _checked("cosine", rate)


@telling
def linear_warmup(lr: float, *, warmup: int, start_factor: float = 0.0) -> Schedule:
    """Return a rate that rises in equal steps."""
    lr, _ = _rates("linear_warmup", lr)
    _check_counts("linear_warmup", warmup=warmup)
    start_factor = _share("linear_warmup", "start_factor", start_factor)

    def rate(t: int) -> float:
        return lr * (start_factor + (1.0 - start_factor) * min(warmup, t) / warmup)

    return _checked("linear_warmup", rate)


@telling
def warmup_cosine(
    lr: float, *, warmup: int, total: int, start_factor: float = 0.0, minimum: float = 0.0
) -> Schedule:
    """Return a rate that rises in equal steps, and then falls along half a cosine."""
    lr, minimum = _rates("warmup_cosine", lr, minimum)
    _check_counts("warmup_cosine", warmup=warmup, total=total)
    need("warmup_cosine C2", warmup < total, "warmup < total", f"{warmup}, {total}")
    start_factor = _share("warmup_cosine", "start_factor", start_factor)
    rise = linear_warmup(lr, warmup=warmup, start_factor=start_factor)
    fall = cosine(lr, total=total - warmup, minimum=minimum)
    return _checked("warmup_cosine", lambda t: rise(t) if t < warmup else fall(t - warmup))


@telling
def one_cycle(
    lr: float,
    *,
    total: int,
    rise: float = 0.3,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> Schedule:
    """Return a rate that rises and then falls, further down than it started."""
    lr, _ = _rates("one_cycle", lr)
    _check_counts("one_cycle", total=total)
    rise = _share("one_cycle", "rise", rise)
    div_factor = _divisor("one_cycle", "div_factor", div_factor)
    final_div_factor = _divisor("one_cycle", "final_div_factor", final_div_factor)
    peak = rise * total - 1
    start = lr / div_factor
    end = start / final_div_factor

    def rate(t: int) -> float:
        t = min(t, total - 1)
        if t <= peak:
            # A peak at step 0 leaves no time to rise.
            return _between(start, lr, t / peak if peak else 1.0)
        return _between(lr, end, (t - peak) / (total - 1 - peak))

    return _checked("one_cycle", rate)


MODES: dict[str, Callable[[float, int, int], float]] = {
    "triangular": lambda gamma, cycle, t: 1.0,
    "triangular2": lambda gamma, cycle, t: math.ldexp(1.0, -cycle),
    "exp_range": lambda gamma, cycle, t: gamma**t,
}
"""What the height of a cycle is multiplied by."""


@telling
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
    lr, minimum = _rates("cyclic", lr, minimum)
    _check_counts("cyclic", step_size_up=step_size_up, step_size_down=down)
    gamma = _gamma("cyclic", gamma)
    known = isinstance(mode, str) and mode in MODES
    need("cyclic C5", known, f"mode is one of {', '.join(MODES)}", repr(mode))
    length, scale = step_size_up + down, MODES[mode]

    def rate(t: int) -> float:
        cycle = t // length
        x = 1.0 + t / length - (cycle + 1)
        ratio = step_size_up / length
        along = x / ratio if x <= ratio else (x - 1.0) / (ratio - 1.0)
        return minimum + (lr - minimum) * along * scale(gamma, cycle, t)

    return _checked("cyclic", rate)


def _between(first: float, last: float, along: float) -> float:
    return last + (first - last) / 2.0 * (math.cos(math.pi * along) + 1)


def _checked(name: str, rate: Callable[[int], float]) -> Schedule:
    def schedule(t: int) -> float:
        need(f"{name} C4", type(t) is int and t >= 0, "a step is an int >= 0", _shown(t))
        _double(name, "a step", t)
        return rate(t)

    return schedule


def _rates(name: str, lr: Any, minimum: Any = 0.0) -> tuple[float, float]:
    high, low = _double(name, "lr", lr), _double(name, "minimum", minimum)
    holds = 0.0 <= low <= high < math.inf
    rule = "lr and minimum are finite and 0 <= minimum <= lr"
    need(f"{name} C1", holds, rule, f"lr {lr}, minimum {minimum}")
    return high, low


def _check_counts(name: str, **counts: Any) -> None:
    for what, count in counts.items():
        holds = type(count) is int and count >= 1
        need(f"{name} C2", holds, f"{what} is an int >= 1", _shown(count))
        _double(name, what, count)


def _gamma(name: str, gamma: Any) -> float:
    factor = _double(name, "gamma", gamma)
    need(f"{name} C3", 0.0 < factor <= 1.0, "gamma lies in (0, 1]", gamma)
    return factor


def _share(name: str, what: str, share: Any) -> float:
    found = _double(name, what, share)
    need(f"{name} C3", 0.0 <= found <= 1.0, f"{what} lies in [0, 1]", share)
    return found


def _divisor(name: str, what: str, divisor: Any) -> float:
    found = _double(name, what, divisor)
    need(f"{name} C3", 1.0 <= found < math.inf, f"{what} is finite and >= 1", divisor)
    return found


def _shown(number: Any) -> str:
    """Write what came; of long ints Python writes none."""
    return "a long int" if type(number) is int and abs(number) > 2**64 else repr(number)


def _double(name: str, what: str, number: Any) -> float:
    return _rule.as_double(f"{name}: {what}", number)
