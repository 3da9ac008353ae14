"""Which hyper-parameters pages refuse: sizes, betas, epsilons and flags that are none."""

from __future__ import annotations

from typing import Any

from fast.optim._rule import finite_and_not_negative, need


def need_sizes(rule: str, hyper: Any, *names: str) -> None:
    """Raise for the first hyper-parameter of these that is not finite and at least 0."""
    for name in names:
        number = getattr(hyper, name)
        need(rule, finite_and_not_negative(number), f"{name} is finite and >= 0", number)


def need_positive(rule: str, hyper: Any, name: str) -> None:
    """Raise unless a hyper-parameter is finite and above 0."""
    number = getattr(hyper, name)
    need(
        rule, finite_and_not_negative(number) and number > 0.0, f"{name} is finite and > 0", number
    )


def need_betas(rule: str, hyper: Any, *names: str) -> None:
    """Raise for the first hyper-parameter of these that does not lie in [0, 1)."""
    for name in names:
        number = getattr(hyper, name)
        need(rule, 0.0 <= number < 1.0, f"{name} lies in [0, 1)", number)


def need_flag(rule: str, hyper: Any, name: str) -> None:
    """Raise unless a hyper-parameter is True or False."""
    flag = getattr(hyper, name)
    need(rule, isinstance(flag, bool), f"{name} is True or False", repr(flag))
