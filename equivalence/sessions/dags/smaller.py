"""A smaller program that breaks a promise too: as few nodes as are needed, as Python that runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import fast
from equivalence.budgets.violation import Violation
from equivalence.sessions.dags.text import Param, Program, Step, kept, steps_of
from equivalence.sessions.dags.text import with_leaves as leaves_for
from equivalence.sessions.numbers import normal

if TYPE_CHECKING:
    from torch import Tensor

Fails = Callable[[Program], Violation | None]
"""Judges a program, and returns the promise that it breaks."""


def smallest(program: Program, fails: Fails, precision: str) -> tuple[Program, Violation] | None:
    """Return a program of the fewest nodes that was found to fail; None where it does not fail.

    First each step is tried by itself, on the numbers that it read, with a cotangent of its own.
    Then nodes become parameters, one after the other, as long as the rest fails.
    """
    first = fails(program)
    if first is None:
        return None
    values = recorded(program, precision)
    for node in range(len(program.uses), len(program)):
        alone = by_itself(program, node, values)
        if alone is not None and (found := fails(alone)) is not None:
            return alone, found
    return _cut(program, first, fails, precision)


def recorded(program: Program, precision: str) -> list[Tensor]:
    """Return the numbers of all nodes, as the provider `aten` computes them."""
    session = fast.Session("aten", precision, "cpu")
    dtype = session.options.compute
    uses = [session.input(program.params[k].value.to(dtype)) for k in program.uses]
    return [session.value(ref) for ref in (*uses, *steps_of(program, session, uses))]


def by_itself(program: Program, node: int, values: Sequence[Tensor]) -> Program | None:
    """Return the program of one step, its operands parameters; None where it reads integers' nodes.

    Its result is weighed and added up. What returns integers is read by nothing.
    """
    step = program.step(node)
    assert step is not None
    read = [*dict.fromkeys(step.nodes)]
    if not all(values[k].is_floating_point() for k in read):
        return None
    number = {k: at for at, k in enumerate(read)}
    params = [Param(values[k].clone()) for k in read]
    alone = step.renumbered(number)
    result = values[node]
    if not result.is_floating_point() or (read and values[read[0]].dtype is not result.dtype):
        # Nothing goes back from integers, or from another format: a parameter beside it does.
        params.append(Param(normal(0).to(values[read[0]].dtype if read else result.dtype)))
        end = (Step("neg", (len(read),), {}),)
        return Program(tuple(params), tuple(range(len(params))), (alone, *end), len(params) + 1)
    params.append(Param(normal(1, *result.shape), False))
    at = len(params)
    loss = (Step("mul", (at, at - 1), {}), Step("sum", (at + 1,), {}))
    return Program(tuple(params), tuple(range(at)), (alone, *loss), at + 2)


def _cut(
    program: Program, broken: Violation, fails: Fails, precision: str
) -> tuple[Program, Violation]:
    """Leave nodes out, one after the other, as long as the rest fails."""
    again = True
    while again:
        again = False
        for smaller in _smaller(program, precision):
            found = fails(smaller)
            if found is not None:
                program, broken, again = smaller, found, True
                break
    return program, broken


def _smaller(program: Program, precision: str) -> list[Program]:
    """List programs with fewer steps: without dead branches, with another end, with a node cut."""
    alive = program.behind(program.out)
    if len(alive) < len(program):
        return [kept(program, alive, program.out), *_without_sinks(program)]
    values = recorded(program, precision)
    end = program.step(program.out)
    ends = [] if end is None else [k for k in end.nodes if program.step(k) is not None]
    found = [kept(program, program.behind(k), k) for k in ends if values[k].shape == ()]
    for node in range(len(program) - 1, len(program.uses) - 1, -1):
        if node != program.out and values[node].is_floating_point():
            cut = leaves_for(program, {node: values[node]})
            found.append(kept(cut, cut.behind(cut.out), cut.out))
    return found


def _without_sinks(program: Program) -> list[Program]:
    """List programs without one of the nodes that nobody reads."""
    read = {k for step in program.steps for k in step.nodes} | {program.out}
    every = set(range(len(program)))
    return [kept(program, every - {k}, program.out) for k in sorted(every - read)]
