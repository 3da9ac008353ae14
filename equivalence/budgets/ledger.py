"""A ledger of what was judged: everything is within budget, or the first element that is not.

It counts what had a budget and what had none, so that a test can say that it judged something.
"""

from __future__ import annotations

from dataclasses import dataclass

from equivalence.budgets.judge import fraction_of
from equivalence.budgets.reading import TorchDtype, TorchTensor, doubles
from equivalence.budgets.violation import Violation
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.balls import Arb
from equivalence.worlds.bounded import Bounded, constant, stored
from spec.op import AnyTensor


@dataclass
class Ledger:
    """How many elements had a budget, how many had none, and the largest fraction of one."""

    judged: int = 0
    unconstrained: int = 0
    worst: float = 0.0

    def judge(
        self,
        label: str,
        got: TorchTensor,
        exact: AnyTensor,
        arithmetic: Arithmetic,
        dtype: TorchDtype,
    ) -> None:
        """Raise unless a result has the form that is due, and every element is within budget.

        Numbers that are constants of the reference enter the world of the arithmetic first.
        """
        due = (tuple(exact.shape), dtype)
        if (tuple(got.shape), got.dtype) != due:
            raise Violation(f"{label}: {tuple(got.shape)} {got.dtype}, due is {due[0]} {due[1]}")
        values = doubles(got).tolist()
        for k, (z, number) in enumerate(zip(values, exact.data, strict=True)):
            allowed = number if isinstance(number, Bounded) else constant(arithmetic, number)
            self.judge_number(f"{label}: element {k}", z, stored(allowed))

    def judge_number(self, label: str, got: float | Arb, allowed: Bounded) -> None:
        """Raise unless a number, or every number of a thin ball, is within budget."""
        fraction = fraction_of(got, allowed)
        if fraction is None:
            self.unconstrained += 1
            return
        self.judged += 1
        if not fraction <= 1.0:
            raise Violation(f"{label} is {got!r}, due is {allowed!r}: {fraction:.3g} of its budget")
        self.worst = max(self.worst, fraction)
