"""The oracle: the pages of `spec`, run on Bounded scalars.

Inputs are the tensors that a backend receives, lifted exactly: rounding to a dtype happened before
anybody computed, and nobody is blamed for it.
Where they are finite and all that follows is, the numbers are Bounded; else they are SpecialValues.
Every result ends with the last step of its contract, rounding to storage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any, Protocol

import numpy as np

from equivalence.budgets.infinite import (
    Results,
    infinite,
    may_leave,
    or_limits,
    or_nan,
    or_not_finite,
    or_open,
    real,
)
from equivalence.budgets.judge import Expected
from equivalence.budgets.reading import TorchTensor, numbers
from equivalence.registry import OPS
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import Bounded, constant, either, exact, stored
from equivalence.worlds.contract import FP64, Contract, of_result, programs_of
from equivalence.worlds.kinds import NANS, NOT_A_NUMBER
from equivalence.worlds.special_values.last import (
    LARGE_FORMS,
    LEAVING_FORMS,
    MANY_FORMS,
    ONE_FORM,
    either_of,
)
from equivalence.worlds.special_values.last import stored as last_step
from equivalence.worlds.special_values.sets import Line, SpecialValues
from equivalence.worlds.special_values.steps import lifted
from spec.op import AnyTensor, Op
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


Run = Callable[[World], Results]
"""Pages, run in a world."""


def evaluated(
    contract: Contract,
    tensors: Iterable[TorchTensor | None],
    run: Run,
    many: bool = False,
    finite: Finite | None = None,
    overflow: bool = True,
) -> Results:
    """Return what pages give on these tensors, in the first world that says all of it.

    finite is the world of the contract's Bounded scalars, where the caller has one already.
    Without overflow, what leaves the range of finite numbers stays open.

    A formula with many forms may be evaluated in any of them: those of the gradient of a composite,
    one that was derived by hand among them, or of an update. Where the page's own steps leave the
    range, such as squares of large numbers, the steps of others may as well.
    """
    given = [numbers(tensor) for tensor in tensors if tensor is not None]
    forms = ONE_FORM
    if many:
        forms = LARGE_FORMS if may_leave(contract, given) else MANY_FORMS
    finite_inputs = all(np.isfinite(held).all() for held in given)
    if finite_inputs and not (overflow and forms == LARGE_FORMS):
        found = run(Finite(contract) if finite is None else finite)
        if not overflow and forms == LARGE_FORMS:
            line = Line(contract, overflow)
            return [None if t is None else t.map(partial(or_open, line)) for t in found]
        if not overflow or not any(x.unconstrained for x in _entries(found)):
            return found
    world = Extended(contract, forms, overflow)
    found = run(world)
    if forms == MANY_FORMS and world.line.left:
        # Another form subtracts one infinity from another where the page divides by one.
        found = run(Extended(contract, LEAVING_FORMS, overflow))
    return found


def _or_limits(contract: Contract, found: Results, run: Run) -> Results:
    """Let results that are not finite beside infinite inputs be what they tend to, if anything."""
    world = partial(Extended, contract, ONE_FORM)
    return or_limits(found, lambda large: run(world(infinity=large)), Line(contract))


def _hull(world: World, results: Results) -> Expected | None:
    """Return what several programs may store of one result, None where it has no gradient."""
    known = [result for result in results if result is not None]
    return reduce(world.either, known) if known else None


def _entries(results: Results) -> Iterator[Bounded | SpecialValues]:
    return (x for tensor in results if tensor is not None for x in tensor.data)


def expected_value(
    op: Op | str, inputs: Sequence[TorchTensor], attrs: Mapping[str, Any], contract: Contract
) -> Expected:
    """Say what a contract allows as the value of an op."""
    page = OPS[op] if isinstance(op, str) else op
    contract = of_result(contract, page, attrs)
    programs = programs_of(contract, "value")

    def run(world: World) -> list[Expected | None]:
        place = {"like": world.constant(0)} if page.kind == "source" else {}
        given = list(map(world.lift, inputs))
        own = world.store(page.value(*given, **attrs, **place))
        others = (world.store(program(*given, **attrs)) for program in programs)
        return [reduce(world.either, others, own)]

    many = page.kind == "composite" and contract.freedom == "stable"
    results = evaluated(contract, inputs, run, many)
    if many and infinite(inputs):
        results = _or_limits(contract, results, run)
    (found,) = results
    assert found is not None, "every op has a value"
    return found


def expected_vjp(
    op: Op | str,
    inputs: Sequence[TorchTensor],
    attrs: Mapping[str, Any],
    cotangents: TorchTensor | Sequence[TorchTensor],
    contract: Contract,
) -> list[Expected | None]:
    """Say what a contract allows as the gradients of an op; None at inputs of indices."""
    page = OPS[op] if isinstance(op, str) else op
    contract = of_result(contract, page, attrs, back=True)
    many = page.kind == "composite"
    if isinstance(cotangents, TorchTensor):
        cotangent = cotangents
    else:
        (cotangent,) = cotangents

    programs = [page.vjp, *programs_of(contract, "vjp")]

    def run(world: World) -> list[Expected | None]:
        given, seed = tuple(map(world.lift, inputs)), world.lift(cotangent)
        found = [
            [None if g is None else world.store(g) for g in program(given, seed, **attrs)]
            for program in programs
        ]
        joined = [_hull(world, rows) for rows in zip(*found, strict=True)]
        if many and isinstance(world, Extended):
            value = page.value(*given, **attrs)
            joined = world.leaking(joined, value, seed, lambda s: page.vjp(given, s, **attrs))
        return joined

    # No wider format tells which intermediate results of float64 another form would keep in range.
    widest = contract.compute == FP64
    results = evaluated(contract, [*inputs, cotangent], run, many, overflow=not widest)
    pulled = partial(page.vjp, **attrs)
    return _of_other_forms(contract, results, run, many, inputs, [cotangent], pulled)


def _of_other_forms(
    contract: Contract,
    found: Results,
    run: Run,
    many: bool,
    inputs: Sequence[TorchTensor],
    seeds: Sequence[TorchTensor | None],
    derived: Callable[..., Sequence[AnyTensor | None]],
) -> list[Expected | None]:
    """Let derivatives be what formulas of equal standing give beside infinities.

    seeds are the cotangents or tangents, and derived are the page's derivatives for others. What
    depends on a seed that is not finite may be anything that is not, too. An entry depends on a
    seed if the page makes it NaN where that is NaN.
    """
    if contract.freedom != "stable":
        return list(found)
    if all(seed is None or np.isfinite(numbers(seed)).all() for seed in seeds):
        limits = many and infinite(inputs)
        return list(_or_limits(contract, found, run) if limits else found)
    world = Extended(contract, ONE_FORM)
    nan = world.line.of(NOT_A_NUMBER)
    spoiled = [
        None if seed is None else world.lift(seed).map(lambda g: nan if g.kinds else g)
        for seed in seeds
    ]
    return or_not_finite(found, derived(tuple(map(world.lift, inputs)), *spoiled), world.line)


def expected_jvp(
    op: Op | str,
    inputs: Sequence[TorchTensor],
    attrs: Mapping[str, Any],
    tangents: Sequence[TorchTensor | None],
    contract: Contract,
) -> Expected:
    """Say what a contract allows as the tangent of an op's result."""
    page = OPS[op] if isinstance(op, str) else op
    contract = of_result(contract, page, attrs)
    many = page.kind == "composite"

    def run(world: World) -> list[Expected | None]:
        moved = tuple(None if t is None else world.lift(t) for t in tangents)
        return [world.store(page.jvp(tuple(map(world.lift, inputs)), moved, **attrs))]

    results = evaluated(contract, [*inputs, *tangents], run, many)

    def pushed(given: Sequence[AnyTensor], *seeds: Any) -> list[AnyTensor]:
        return [page.jvp(given, seeds, **attrs)]

    (found,) = _of_other_forms(contract, results, run, many, inputs, tangents, pushed)
    assert found is not None, "every op has a tangent"
    return found
