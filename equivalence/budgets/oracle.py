"""The oracle: the pages of `spec`, run on Bounded scalars.

Inputs are the tensors that a backend receives, lifted exactly: rounding to a dtype happened before
anybody computed, and nobody is blamed for it.
Where they are finite and all that follows is, the numbers are Bounded; else they are SpecialValues.
Every result ends with the last step of its contract, rounding to storage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from equivalence.budgets.judge import Expected
from equivalence.budgets.lifting.infinite import (
    Results,
    infinite,
    may_leave,
    or_limits,
    or_not_finite,
    or_open,
)
from equivalence.budgets.lifting.worlds import Extended, Finite, World
from equivalence.budgets.reading import TorchTensor, numbers
from equivalence.registry import OPS
from equivalence.worlds.bounded import Bounded
from equivalence.worlds.contract import FP64, Contract, of_result, programs_of
from equivalence.worlds.kinds import NOT_A_NUMBER
from equivalence.worlds.special_values.last import (
    LARGE_FORMS,
    LEAVING_FORMS,
    MANY_FORMS,
    ONE_FORM,
)
from equivalence.worlds.special_values.sets import Line, SpecialValues
from spec.op import AnyTensor, Op

Run = Callable[[World], Results]
"""Pages, run in a world."""

Programs = Sequence[Callable[..., Any]]
"""The programs of one page: its own, and those of the declared forms."""


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


def _or_limits(contract: Contract, found: Results, runs: Iterable[Run]) -> Results:
    """Let results that are not finite beside infinite inputs be what they tend to, if anything.

    Each program is run alone: what one says nothing of, another may say.
    """
    world = partial(Extended, contract, ONE_FORM)

    def limited(run: Run) -> Results:
        return or_limits(found, lambda large: run(world(infinity=large)), Line(contract))

    return [_hull(world(), results) for results in zip(*map(limited, runs), strict=True)]


def _each_alone(run: Callable[[World, Programs], Results], programs: Programs) -> list[Run]:
    def alone(program: Callable[..., Any]) -> Run:
        return lambda world: run(world, [program])

    return list(map(alone, programs))


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
    programs = [page.value, *programs_of(contract, "value")]

    def run(world: World, programs: Programs = programs) -> list[Expected | None]:
        given = list(map(world.lift, inputs))
        place = {"like": world.constant(0)} if page.kind == "source" else {}
        found = [
            world.store(program(*given, **attrs, **(place if program is page.value else {})))
            for program in programs
        ]
        return [_hull(world, found)]

    many = page.kind == "composite" and contract.freedom == "stable"
    results = evaluated(contract, inputs, run, many)
    if many and infinite(inputs):
        results = _or_limits(contract, results, _each_alone(run, programs))
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

    def run(world: World, programs: Programs = programs) -> list[Expected | None]:
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
    alone = _each_alone(run, programs)
    return _of_other_forms(contract, results, alone, many, inputs, [cotangent], pulled)


def _of_other_forms(
    contract: Contract,
    found: Results,
    alone: Sequence[Run],
    many: bool,
    inputs: Sequence[TorchTensor],
    seeds: Sequence[TorchTensor | None],
    derived: Callable[..., Sequence[AnyTensor | None]],
) -> list[Expected | None]:
    """Let derivatives be what formulas of equal standing give beside infinities.

    alone runs each program by itself, seeds are the cotangents or tangents, and derived are the
    page's derivatives for other seeds. What
    depends on a seed that is not finite may be anything that is not, too. An entry depends on a
    seed if the page makes it NaN where that is NaN.
    """
    if contract.freedom != "stable":
        return list(found)
    if all(seed is None or np.isfinite(numbers(seed)).all() for seed in seeds):
        limits = many and infinite(inputs)
        return list(_or_limits(contract, found, alone) if limits else found)
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

    (found,) = _of_other_forms(contract, results, [run], many, inputs, tangents, pushed)
    assert found is not None, "every op has a tangent"
    return found
