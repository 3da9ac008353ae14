"""What an optimizer's page hands over: hyper-parameters, a check, and an update per provider."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from torch import Tensor

from fast.errors import Rejected
from fast.optim._chunks import ChunkTable


class Flat(NamedTuple):
    """The flat arenas of one update: parameters, gradients, and the states in the rule's order."""

    params: Tensor
    grads: Tensor
    states: tuple[Tensor, ...]


class Batch(NamedTuple):
    """Slices of the arenas that one ATen call updates: one group, all new or all not."""

    params: list[Tensor]
    grads: list[Tensor]
    states: tuple[list[Tensor], ...]
    steps: list[Tensor]
    first: bool


class Launch(NamedTuple):
    """What the kernels need beside the arenas: tables, step counts in and out, and the flag."""

    table: ChunkTable
    bump: Tensor
    steps: Tensor
    next_steps: Tensor
    hyper: Tensor
    flag: Tensor


@dataclass(frozen=True, slots=True)
class Rule:
    """One optimizer.

    `hyper` is a NamedTuple of floats with defaults; `check` refuses values that break a rule.
    `stateful` says whether an update with these hyper-parameters reads and counts state.
    `aten` updates a batch after the step counts were raised; `triton` starts the one launch.
    """

    name: str
    hyper: type[Any]
    check: Callable[[Any], None]
    states: tuple[str, ...]
    counted: bool
    stateful: Callable[[Any], bool]
    aten: Callable[[Batch, Any, Tensor | None], None]
    triton: Callable[[Flat, Launch], None]

    def read(self, given: Mapping[str, Any]) -> Any:
        """Return checked hyper-parameters, or raise naming what is wrong."""
        known = self.hyper._fields
        for name in given:
            if name not in known:
                raise Rejected(
                    f"{self.name}: there is no {name!r}; the parameters are {', '.join(known)}"
                )
        missing = [n for n in known if n not in given and n not in self.hyper._field_defaults]
        if missing:
            raise Rejected(f"{self.name}: {missing[0]!r} has no default and must be given")
        values = self.hyper(**{name: _number(self.name, name, v) for name, v in given.items()})
        self.check(values)
        return values


def _number(rule: str, name: str, value: Any) -> float | bool:
    if type(value) is float or (isinstance(value, bool) and name == "nesterov"):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        raise Rejected(f"{rule}: {name} must be a number, got {value!r}")
    return float(value)


def need(rule: str, holds: bool, text: str, came: object) -> None:
    """Raise naming a hyper-parameter's rule and what came, unless it holds."""
    if not holds:
        raise Rejected(f"{rule}: {text}; got {came}")


def finite_and_not_negative(value: float) -> bool:
    """Say whether a number is finite and at least 0, which NaN is not."""
    return 0.0 <= value < math.inf


def hyper_rows(hypers: Sequence[Any]) -> list[list[float]]:
    """Lay the groups' hyper-parameters out as rows of doubles."""
    return [[float(value) for value in hyper] for hyper in hypers]
