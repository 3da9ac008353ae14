"""The worlds in which pages run on tensors: Bounded scalars, or sets where not all is finite.

Tensors are lifted exactly, and every result ends with the last step of its contract, rounding to
storage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from equivalence.budgets.judge import Expected
from equivalence.budgets.lifting.infinite import or_nan, real
from equivalence.budgets.reading import TorchTensor, numbers
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import Bounded, constant, either, exact, stored
from equivalence.worlds.contract import Contract
from equivalence.worlds.kinds import NANS, NOT_A_NUMBER
from equivalence.worlds.special_values.last import either_of
from equivalence.worlds.special_values.last import stored as last_step
from equivalence.worlds.special_values.sets import Line, SpecialValues
from equivalence.worlds.special_values.steps import lifted
from spec.op import AnyTensor
from spec.tensor import Tensor, zip_map


def lift_one(tensor: TorchTensor, arithmetic: Arithmetic) -> AnyTensor:
    """Lift one tensor exactly; every float must be finite."""
    held = numbers(tensor)
    if not real(held):
        return Tensor(held.shape, held.reshape(-1).tolist())
    if not np.isfinite(held).all():
        raise ValueError(
            "a budget is defined for finite inputs; got an infinity or NaN. "
            "Rows about the edge of a domain are judged by equality, in a page's EDGES."
        )
    return Tensor(held.shape, exact(arithmetic, *held.reshape(-1).tolist()))


def store(tensor: AnyTensor, arithmetic: Arithmetic) -> AnyTensor:
    """Round a computed tensor to storage, the last step; a constant enters the world first."""

    def last(x: Any) -> Bounded:
        return stored(x if isinstance(x, Bounded) else constant(arithmetic, x))

    return tensor.map(last)


class World(Protocol):
    """A world of scalars in which pages run on tensors."""

    def lift(self, tensor: TorchTensor) -> AnyTensor:
        """Lift one tensor exactly; integers and truths stay what they are."""

    def constant(self, value: int) -> Any:
        """Return an exact constant."""

    def again(self, stored: Expected) -> AnyTensor:
        """Take a stored result on as an input."""

    def store(self, tensor: AnyTensor) -> Expected:
        """Round a computed tensor to storage, the last step."""

    def either(self, one: Expected, other: Expected) -> Expected:
        """Allow what two programs of one page may store; the first is the page's own."""


class Finite:
    """The world of Bounded scalars, which holds finite numbers and nothing else."""

    def __init__(self, contract: Contract) -> None:
        """Compile a contract."""
        self.arithmetic = Arithmetic(contract)

    def lift(self, tensor: TorchTensor) -> AnyTensor:
        """Lift one tensor exactly; every float must be finite."""
        return lift_one(tensor, self.arithmetic)

    def constant(self, value: int) -> Bounded:
        """Return an exact constant."""
        return constant(self.arithmetic, value)

    def again(self, stored: Expected) -> AnyTensor:
        """Take a stored result on as it is."""
        return stored

    def store(self, tensor: AnyTensor) -> Expected:
        """Round a computed tensor to storage."""
        return store(tensor, self.arithmetic)

    def either(self, one: Expected, other: Expected) -> Expected:
        """Allow what either of two programs may store."""
        return zip_map(either, one, other)


class Extended:
    """The world of sets of values, which hold NaN and the infinities too."""

    def __init__(
        self,
        contract: Contract,
        forms: int,
        overflows: bool = True,
        infinity: float = math.inf,
    ) -> None:
        """Compile a contract, for a formula that has so many forms.

        infinity is the number that stands for an infinite input.
        """
        self.line = Line(contract, overflows)
        self.forms = forms
        self.infinity = infinity

    def lift(self, tensor: TorchTensor) -> AnyTensor:
        """Lift one tensor exactly, but for infinities that a large number stands for."""
        held = numbers(tensor)
        if self.infinity < math.inf and real(held):
            held = np.where(np.isinf(held), np.copysign(self.infinity, held), held)
        values = held.reshape(-1).tolist()
        return Tensor(held.shape, lifted(self.line, *values) if real(held) else values)

    def constant(self, value: int) -> SpecialValues:
        """Return an exact constant."""
        return self.line.special(value)

    def again(self, stored: Expected) -> AnyTensor:
        """Take a stored result on, also where it is finite for certain."""
        return stored.map(self.line.special)

    def store(self, tensor: AnyTensor) -> Expected:
        """Round a computed tensor to storage."""
        return tensor.map(lambda x: last_step(self.line.special(x), self.forms))

    def either(self, one: Expected, other: Expected) -> Expected:
        """Allow what either of two programs may store."""
        return zip_map(either_of, one, other)

    def leaking(
        self,
        gradients: Sequence[Expected | None],
        value: AnyTensor,
        seed: AnyTensor,
        pulled: Callable[[AnyTensor], Sequence[AnyTensor | None]],
    ) -> list[Expected | None]:
        """Let a gradient be NaN that is pulled back from a value that may be.

        A form that reads such a value multiplies by it, even where the page's own does not.
        """
        undefined = value.map(lambda y: bool(self.line.special(y).kinds & NANS))
        if not any(undefined.data):
            return list(gradients)
        nan = self.line.of(NOT_A_NUMBER)
        spoiled = pulled(zip_map(lambda bad, s: nan if bad else s, undefined, seed))
        return or_nan(gradients, spoiled, self.line)
