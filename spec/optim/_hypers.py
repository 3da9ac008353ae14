"""What hyper-parameters are refused by the pages: sizes, betas, epsilons and flags that are none.

>>> from spec.optim.sgd import Sgd
>>> need_sizes("sgd C1", Sgd(lr=0.5), "lr", "momentum")
"""

from __future__ import annotations

import math

from spec.op import refuse
from spec.refusals import number_shown
from spec.worlds import is_number

NO_SIZES = (-0.5, math.nan, math.inf)
"""What is no size: a size is finite and >= 0."""

NO_BETAS = (-0.5, 1.0, math.nan)
"""What does not lie in [0, 1)."""

NO_FLAGS = (1, None)
"""What is no flag: a flag is True or False."""


def need_sizes(label: str, hyper: object, *names: str) -> None:
    """Refuse hyper-parameters of these names that are no sizes."""
    for name in names:
        number = getattr(hyper, name)
        if not (is_number(number) and 0 <= number < math.inf):
            raise refuse(label, f"{name} is finite and >= 0", number_shown(number))


def need_positive(label: str, hyper: object, name: str) -> None:
    """Refuse a hyper-parameter that is not finite and above 0."""
    number = getattr(hyper, name)
    if not (is_number(number) and 0 < number < math.inf):
        raise refuse(label, f"{name} is finite and > 0", number_shown(number))


def need_betas(label: str, hyper: object, *names: str) -> None:
    """Refuse hyper-parameters of these names that do not lie in [0, 1)."""
    for name in names:
        number = getattr(hyper, name)
        if not (is_number(number) and 0 <= number < 1):
            raise refuse(label, f"{name} lies in [0, 1)", number_shown(number))


def need_flag(label: str, hyper: object, name: str) -> None:
    """Refuse a hyper-parameter that is not True or False."""
    flag = getattr(hyper, name)
    if type(flag) is not bool:
        raise refuse(label, f"{name} is True or False", repr(flag))
