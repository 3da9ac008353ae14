"""The rows of random programs of any extents: drawn ones in parts, and the designed ones by op.

A part of so many programs is a row, so that an interrupted run goes on after the last whole part,
and several processes share the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from random import Random

from equivalence.budgets.violation import Violation
from equivalence.cases.updates.levels import of_every_shape, plainest
from equivalence.runs.results import Note, Row, RowResult
from equivalence.runs.runner import row_seed
from equivalence.sessions.curvature.judge import COARSER
from equivalence.sessions.dags import pairs
from equivalence.sessions.dags.compiled import judge_compiled
from equivalence.sessions.dags.curved import cone, judge_product, twice
from equivalence.sessions.dags.growing import NAMES, drawn
from equivalence.sessions.dags.judged import Count, Update, judge
from equivalence.sessions.dags.smaller import recorded, smallest
from equivalence.sessions.dags.text import Program, lines
from equivalence.sessions.seen import CONFIGURATIONS, Seen

PART = 100
"""How many programs a row of drawn ones judges at most."""

NODES = {"aten": 40, "triton": 12}
"""How many nodes a drawn program computes at most, without those of its loss."""

ARTIFACTS = 3
"""How many programs a row compiles at most, each of which takes half a minute."""

NODES_COMPILED = 20
"""How many nodes a compiled program computes at most, without those of its loss."""

DRAWS = 30
"""On how many draws of its parameters an artifact is run."""

DESIGNED = "after"
"""What rows of designed programs are called, before the op whose result others read."""


def rows_drawn(cases: Callable[[Row], int]) -> list[Row]:
    """Return the rows of drawn programs; `cases` says how many a configuration has."""
    first = [Row("dags-0", *where) for where in CONFIGURATIONS]
    return [
        replace(row, op=f"dags-{part}") for row in first for part in range(-(-cases(row) // PART))
    ]


def rows_designed() -> list[Row]:
    """Return the rows of designed programs: one for each op that others read."""
    return [Row(f"{DESIGNED}-{name}", "aten", "fp32") for name in NAMES]


def rows_compiled(engine: str, artifacts: int) -> list[Row]:
    """Return the rows of so many drawn programs that an engine compiles, at each precision."""
    where = [where for where in CONFIGURATIONS if where[0] == "aten"]
    parts = range(-(-artifacts // ARTIFACTS))
    return [Row(f"{engine}-dags-{part}", *each) for each in where for part in parts]


def part_of(row: Row) -> int | None:
    """Return which part of drawn programs a row is; None where it is another row."""
    *_, name, part = ("", *row.op.split("-"))
    return int(part) if name == "dags" else None


def is_designed(row: Row) -> bool:
    """Say whether a row has designed programs."""
    return row.op.startswith(f"{DESIGNED}-")


def judge_dags(row: Row, cases: int, nodes: int | None, number: int) -> RowResult:
    """Judge a part of drawn programs."""
    part = part_of(row)
    assert part is not None
    here = range(part * PART, min((part + 1) * PART, cases))
    seed = row_seed(number, replace(row, op="dags"))
    most = NODES[row.direction] if nodes is None else nodes

    def programs() -> Iterator[tuple[str, Program]]:
        for k in here:
            yield f"drawn program {k}", drawn(Random(seed + k), most, row.dtype, row.direction)

    return _judged(row, programs(), seed)


def judge_artifacts(row: Row, artifacts: int, nodes: int | None, number: int) -> RowResult:
    """Judge a part of drawn programs that an engine compiles, each on many draws."""
    engine, _, _ = row.op.partition("-")
    part = part_of(row)
    assert part is not None
    seed = row_seed(number, replace(row, op="dags"))
    seen, values = Seen(), Count()
    with seen.watching():
        for k in range(part * ARTIFACTS, min((part + 1) * ARTIFACTS, artifacts)):
            seen.begin(f"compiled program {k}")
            most = NODES_COMPILED if nodes is None else nodes
            program = drawn(Random(seed + k), most, row.dtype)
            judged = f"{engine!r}, {row.dtype!r}, {seed + k}, {DRAWS}"
            try:
                ledger, found = judge_compiled(program, engine, row.dtype, seed + k, DRAWS)
            except Violation as broken:
                written = lines(program, judged, "compiled", "judge_compiled")
                raise Violation(broken.says, written) from broken
            seen.add(ledger, len(program))
            values += found
    said = f"{values.alone} of {values.judged} values were judged one by one, from recorded inputs"
    return replace(seen.result(row), notes=(Note(said),) if values.judged else ())


def judge_designed(row: Row, number: int) -> RowResult:
    """Judge the programs in which every op reads what one op returned."""
    first = row.op.removeprefix(f"{DESIGNED}-")
    found, missing = pairs.programs(first, row.dtype, number)

    def programs() -> Iterator[tuple[str, Program]]:
        for k, program in enumerate(found):
            yield f"designed program {k} after {first}", program

    result = _judged(row, programs(), number)
    unmet = [
        Note(f"after {first} came no {', '.join(k for k in missing if missing[k] == why)}: {why}")
        for why in sorted({*missing.values()})
    ]
    return replace(result, notes=(*result.notes, *unmet))


def _judged(row: Row, programs: Iterator[tuple[str, Program]], number: int) -> RowResult:
    """Judge programs until one breaks a promise, and make that one small."""
    seen, values, cotangents = Seen(), Count(), Count()
    names = sorted(of_every_shape())
    with seen.watching():
        for k, (label, program) in enumerate(programs):
            seen.begin(label)
            name = names[k % len(names)]
            update = Update(name, plainest(name))
            try:
                ledger, a, b = judge(program, row.direction, row.dtype, update)
            except Violation as broken:
                raise _explained(program, row, update, broken) from broken
            seen.add(ledger, len(program))
            values += a
            cotangents += b
            if row.direction == "aten" and row.dtype in COARSER:
                _second_order(program, row.dtype, number + k, seen)
    said = (
        f"of {values.judged} values and {cotangents.judged} cotangents, {values.alone} and "
        f"{cotangents.alone} were judged one by one, from recorded inputs"
    )
    return replace(seen.result(row), notes=(Note(said),) if values.judged else ())


def _second_order(program: Program, precision: str, number: int, seen: Seen) -> None:
    """Judge a second-order product of the last steps before a node of the loss."""
    values = recorded(program, precision)
    end = program.step(program.out)
    assert end is not None
    node = Random(number).choice(sorted(program.behind(program.out) - {program.out}))
    small = cone(program, node, values)
    if twice(small) and values[node].dtype is values[program.out].dtype:
        seen.add(judge_product(small, precision, number))
        seen.cases -= 1


def _explained(program: Program, row: Row, update: Update, broken: Violation) -> Violation:
    """Return the broken promise of the smallest program that was found, and that program."""
    found = smallest(program, partial(_fails, row=row, update=update), row.dtype)
    program, broken = (program, broken) if found is None else found
    judged = (
        f"{row.direction!r}, {row.dtype!r}, Update({update.optimizer!r}, {dict(update.hyper)!r})"
    )
    return Violation(broken.says, lines(program, judged))


def _fails(program: Program, row: Row, update: Update) -> Violation | None:
    try:
        judge(program, row.direction, row.dtype, update)
    except Violation as broken:
        return broken
    return None
