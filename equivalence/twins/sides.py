"""Two sessions side by side, of `fast` and of the reference, and the contract between them.

The reference's may be of any kind: a tape, or a graph. Each runs a program by itself; what they
found is judged by the contract of a whole program (`equivalence.backends.fast.programs`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flint
import torch
from torch import Tensor

import fast
from equivalence.backends.fast.contract import family_of
from equivalence.backends.fast.programs import of_program
from equivalence.budgets.ledger import Ledger
from equivalence.budgets.oracle import lift_one
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.balls import Arb
from equivalence.worlds.bounded import Bounded, constant, within
from spec.op import AnyTensor
from spec.protocol import Ops
from spec.session import Sessions
from spec.tensor import is_tensor


class Listed(Ops[Any]):
    """A session of either side that keeps the refs of all ops that a program asks for, in order.

    Indices and masks that a program holds are tensors of the reference; `fast` gets torch's.
    """

    def __init__(self, session: Any) -> None:
        """Run programs on a session."""
        self.session = session
        self.made: list[Any] = []
        self._given: Callable[[Any], Any] = _torch if isinstance(session, fast.Session) else _same

    def apply(self, name: str, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Run an op, and keep the ref of its result."""
        ref = self.session.apply(name, tuple(map(self._given, inputs)), attributes)
        self.made.append(ref)
        return ref


class Sides:
    """A new session of `fast`, one of the reference, and the ledger of what was judged."""

    def __init__(
        self, reference: Sessions[Any], provider: str = "aten", precision: str = "fp32"
    ) -> None:
        """Let the reference compute in balls, by the contract of the provider."""
        self.fast = fast.Session(provider, precision, "cpu")
        self.spec = reference
        self.arithmetic = Arithmetic(of_program(family_of(provider), precision))
        self.spec.like = constant(self.arithmetic, 0)
        self.ledger = Ledger()

    def seen(self, value: Tensor) -> Tensor:
        """Round data to the format of computation, as both sides are to see them."""
        return value.to(self.fast.options.compute)

    def lift(self, value: Tensor) -> AnyTensor:
        """Take a tensor as the exact numbers that it holds."""
        return lift_one(value, self.arithmetic)

    def judge(self, label: str, got: Tensor, exact: AnyTensor) -> None:
        """Judge a result of the session's precision."""
        self.ledger.judge(label, got, exact, self.arithmetic, self.fast.options.compute)

    def judge_tangent(
        self,
        label: str,
        along: tuple[AnyTensor, Tensor],
        gradients: Sequence[Tensor],
        allowed: Sequence[AnyTensor],
        directions: Sequence[Tensor | None],
    ) -> None:
        """Judge gradients by a tangent: <u, J v> = <J^T u, v>.

        `along` is J v, found by forward mode, and the seed u. The left side is exact. The right
        side is the backend's, multiplied out exactly, so its error is that of the gradients: a
        contract allows what it allows of each of them, times v, added up.
        """
        tangent, seed = along
        arithmetic = self.arithmetic
        zero = flint.arb(0)
        left: Arb = sum((x.v * u for x, u in self._pairs(tangent, seed)), zero)
        right: Arb = zero
        ball: Arb = zero
        value: Arb = zero
        for gradient, due, direction in zip(gradients, allowed, directions, strict=True):
            if direction is None:
                continue
            for x, v in self._pairs(due, direction):
                ball, value = ball + x.ball * v, value + x.v * v
            for z, v in zip(_numbers(gradient), _numbers(direction), strict=True):
                right += flint.arb(z) * v
        if not (left.is_finite() and value.is_finite()):
            # Numbers that are equal, but not exactly known, may tie or not: there is no derivative.
            self.ledger.unconstrained += 1
            return
        self.ledger.judge_number(f"{label}: transposed", value, within(left, left, arithmetic))
        self.ledger.judge_number(label, right, within(left, ball, arithmetic))

    def _pairs(self, exact: AnyTensor, value: Tensor) -> list[tuple[Bounded, Arb]]:
        lifted = [x if isinstance(x, Bounded) else constant(self.arithmetic, x) for x in exact.data]
        return list(zip(lifted, map(flint.arb, _numbers(value)), strict=True))


def _numbers(value: Tensor) -> list[float]:
    found: list[float] = value.double().reshape(-1).tolist()
    return found


def _torch(x: Any) -> Any:
    return torch.tensor(x.data).reshape(x.shape) if is_tensor(x) else x


def _same(x: Any) -> Any:
    return x
