"""What judges a session beside the reference: contracts, exact numbers and a ledger.

The reference computes on balls, from the very numbers that the backend has. A program is judged by
the contract of a whole program, an update by the contract of its optimizer. Before an update the
reference takes over the backend's parameters and states, exactly, so that each update is judged by
itself and budgets never pile up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from equivalence.backends.fast.contract import family_of
from equivalence.backends.fast.programs import of_program, of_update
from equivalence.budgets.ledger import Ledger
from equivalence.budgets.lifting.worlds import lift_one
from equivalence.budgets.violation import check_bits, check_equal
from equivalence.cases.declared.calls import NAMES
from equivalence.dtypes import FORMATS
from equivalence.measure.reference import held_state
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import Bounded, constant
from equivalence.worlds.contract import Contract, of_result
from spec.op import AnyTensor, Op
from spec.optim import OPTIMIZERS

if TYPE_CHECKING:
    from fast.device.options import Options
    from spec.session import Sessions
    from spec.updates import Param


ENGINES = ("inductor",)
"""The engines that compute otherwise than their provider, and have a family of contracts."""


@dataclass(frozen=True)
class State:
    """What an optimizer keeps of one parameter; no moments before its first update."""

    moments: Mapping[str, Tensor] | None = None
    step: int = 0


class Judge:
    """Judges by one contract, and counts what it has judged."""

    def __init__(self, contract: Contract) -> None:
        """Compile the contract, and open a ledger."""
        self.arithmetic = Arithmetic(contract)
        self.ledger = Ledger()

    def lift(self, value: Tensor) -> AnyTensor:
        """Take a tensor as the exact numbers that it holds."""
        return lift_one(value, self.arithmetic)

    def judge(
        self, label: str, got: Tensor, exact: AnyTensor, dtype: torch.dtype | None = None
    ) -> None:
        """Judge a result, of whatever dtype it has unless one is due."""
        self.ledger.judge(label, got, exact, self.arithmetic, dtype or got.dtype)


class SessionJudge(Judge):
    """Judges the programs and the updates of a session of `fast` with these options."""

    def __init__(self, options: Options, engine: str | None = None) -> None:
        """Judge by the contracts of the session's provider at its precision.

        Where an engine has a family of contracts of its own, it is judged by that.
        """
        self.options = options
        self._family = engine if engine in ENGINES else family_of(options.provider)
        self._updates: dict[str, Arithmetic] = {}
        super().__init__(of_program(self._family, options.precision))

    @cached_property
    def held(self) -> Arithmetic:
        """The arithmetic of gradients that are held, which lie in the format of the masters."""
        store = FORMATS[NAMES[str(self.options.master).removeprefix("torch.")]]
        return Arithmetic(replace(self.arithmetic.contract, store=store))

    def result(self, page: Op, attributes: Mapping[str, Any], exact: AnyTensor) -> AnyTensor:
        """Take what an op returned under the contract of its result, as a cast has another one."""
        arithmetic = Arithmetic(of_result(self.arithmetic.contract, page, attributes))

        def entered(x: Any) -> Bounded:
            return x.under(arithmetic) if isinstance(x, Bounded) else constant(arithmetic, x)

        return exact.map(entered)

    def bound(self, reference: Sessions[Any]) -> None:
        """Let a session of the reference make its constants by the contract of a program."""
        reference.like = constant(self.arithmetic, 0)

    def updates(self, optimizer: str) -> Arithmetic:
        """Return the arithmetic of an update."""
        if optimizer not in self._updates:
            contract = of_update(self._family, optimizer, self.options.precision)
            self._updates[optimizer] = Arithmetic(contract)
        return self._updates[optimizer]

    def gradient(self, value: Tensor, optimizer: str) -> AnyTensor:
        """Take a gradient as an update takes it."""
        return lift_one(value, self.updates(optimizer))

    def seen(self, value: Tensor) -> Tensor:
        """Round data to the format of computation, as both sides are to see them."""
        return value.to(self.options.compute)

    def hand_over(
        self, reference: Sessions[Any], param: Param, value: Tensor, state: State, optimizer: str
    ) -> None:
        """Let the reference take over a parameter and its state before an update."""
        arithmetic = self.updates(optimizer)
        param.set(lift_one(value, arithmetic))
        held = held_state(state.moments, state.step, optimizer, arithmetic)
        reference.load_state(param, held)

    def judge_update(
        self, label: str, optimizer: str, got: tuple[Tensor, Mapping[str, Tensor]],
        due: tuple[AnyTensor, Any], before: State,
    ) -> State:  # fmt: skip
        """Judge a parameter and its moments after an update, and return the state they make."""
        (value, moments), (exact, state) = got, due
        self._judge_updated(label, optimizer, value, exact)
        there = {n: x for n, x in moments.items() if getattr(state, n) is not None}
        for name, moment in there.items():
            self._judge_updated(f"{label}: {name}", optimizer, moment, getattr(state, name))
        if not moments:
            return before
        return State({name: x.clone() for name, x in there.items()}, before.step + 1)

    def check_state(self, label: str, optimizer: str, found: Mapping[str, Any], due: State) -> None:
        """Check that a state that was read back is the one that is due; a fresh one is zeros."""
        page = OPTIMIZERS[optimizer]
        for name in page.moments:
            moment = found.get(name)
            if due.moments is not None and name in due.moments:
                check_equal(f"{label}: {name} is there", moment is not None, True)
                assert moment is not None
                check_bits(f"{label}: {name}", moment, due.moments[name])
            elif moment is not None:
                check_equal(f"{label}: {name} is fresh", bool(moment.any()), False)
        if page.counted:
            check_equal(f"{label}: step", int(found["step"] or 0), due.step)

    def _judge_updated(self, label: str, optimizer: str, got: Tensor, due: AnyTensor) -> None:
        self.ledger.judge(label, got, due, self.updates(optimizer), self.options.master)
