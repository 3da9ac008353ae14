"""Recording: which cases a row has, and what its contract allows, without asking any backend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equivalence.budgets.judge import record
from equivalence.budgets.recorded import Recorded
from equivalence.cases.built import build
from equivalence.cases.covering import SINGLES
from equivalence.cases.declared.inside import narrowing
from equivalence.cases.guard import Guarded
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.cases.updates.tensors import build_gradients, build_parameters, long
from equivalence.measure.call import expectation, result_names
from equivalence.measure.reference import Taken, entered, scaled_gradients
from equivalence.registry import OPS, OPTIMIZERS
from equivalence.runs.choice import kind_of
from equivalence.runs.kinds import Case
from equivalence.runs.recorded.archive import (
    Archive,
    Entry,
    counting,
    result_name,
    save_archive,
)
from equivalence.runs.recorded.replay import replay_row
from equivalence.runs.results import Row, RowResult
from equivalence.runs.row.drawn import drawn_batches, least
from equivalence.runs.row.reached import left_by
from equivalence.runs.rows import dtypes_of, inside_of, supported
from equivalence.runs.runner import row_seed
from equivalence.worlds.contract import of_result

MOST_STEPS = 16
"""How many steps of an optimizer an archive holds."""

if TYPE_CHECKING:
    from equivalence.budgets.findings import Finding
    from equivalence.budgets.lifting.worlds import World
    from equivalence.cases.declared.inside import Inside
    from equivalence.worlds.contract import Contract


def record_row(
    backend: Any,
    row: Row,
    *,
    counted: int,
    seed: int,
    findings: Sequence[Finding],
    folder: Path,
    strength: int = SINGLES,
    ring: str | None = None,
    address: str | None = None,
) -> RowResult:
    """Record one row, then judge the backend by what was recorded.

    For another ring than the backend's own, the row is only recorded.
    """
    capabilities = backend.capabilities()
    if not supported(capabilities, row):
        return RowResult(row, "unsupported", ring=capabilities.ring)
    dtypes, inside = dtypes_of(capabilities, row), inside_of(capabilities, row)
    if ring in (None, capabilities.ring):
        own = capabilities.contract(row.op, row.dtype)
        save_archive(folder, recorded_row(row, own, counted, seed, strength, dtypes, inside))
        return replay_row(backend, row, folder=folder, findings=findings, address=address)
    contract = backend.contract_on(ring)(row.op, row.dtype)
    archive = recorded_row(row, contract, counted, seed, strength, dtypes, inside)
    save_archive(folder, archive)
    cases = sum(entry.counted for entry in archive.entries)
    return RowResult(row, "recorded", cases, contract=contract.name, ring=str(ring))


def recorded_row(
    row: Row,
    contract: Contract,
    counted: int,
    seed: int,
    strength: int = SINGLES,
    dtypes: Sequence[str] = (),
    inside: Inside | None = None,
) -> Archive:
    """Choose the cases of a row as a live run does, and evaluate what is allowed for each.

    dtypes are those in which the backend has the row; inside says which part it takes, if not all.
    """
    kind = kind_of(row, inside)
    extras = [case for case in kind.extras() if not _live(case)]
    entries = [_entry(case, contract, False) for case in extras]
    fixed = [case for case in kind.fixed(strength, dtypes) if not _live(case)]
    designed = [_entry(case, contract, True) for case in fixed]
    number = sum(map(counting, designed))
    wanted = least(counted, number, strength)
    entries += designed
    seeded = row_seed(seed, row)
    drawn = drawn_batches(kind, fixed, counted, seeded, lambda: number >= wanted)
    for case in (case for batch in drawn for case in batch if not _live(case)):
        if number >= wanted:
            break
        entry = _entry(case, contract, True)
        number += counting(entry)
        entries.append(entry)
    part = narrowing(inside)
    left = {} if part is None else left_by(row.op, kind, (entry.case for entry in entries))
    return Archive(row, contract.name, tuple(entries), left)


def _live(case: Case) -> bool:
    """Say whether a case is judged in live runs alone.

    What happens between steps belongs to the backend's own state, and an archive holds no long
    tensors.
    """
    if not isinstance(case, UpdateSpec):
        return False
    many = case.steps > MOST_STEPS or any(long(math.prod(shape)) for shape in case.shapes)
    return many or bool(case.events)


def _entry(case: Case, contract: Contract, counted: bool) -> Entry:
    """Evaluate one case."""
    if isinstance(case, UpdateSpec):
        return _update_entry(case, contract, counted)
    built = build(case)
    handed_over = of_result(contract, OPS[case.op], case.attributes(), case.direction == "vjp")
    allowed = {
        name: _recorded(expected, handed_over)
        for name, expected in zip(result_names(case), expectation(built, contract), strict=True)
        if expected is not None
    }
    numbers = {position: item.numbers() for position, item in built.tensors()}
    return Entry(case, counted, numbers, allowed)


def _recorded(expected: Any, contract: Contract) -> Recorded:
    """Turn what is allowed into numbers; of no element, the contract still names the dtype."""
    return replace(record(expected), dtype=contract.dtype.name)


def _update_entry(case: UpdateSpec, contract: Contract, counted: bool) -> Entry:
    """Evaluate the steps of an optimizer along the reference's own trajectory."""
    from equivalence.budgets.oracle import evaluated

    parameters = build_parameters(case, "cpu")
    steps = [build_gradients(case, step, "cpu") for step in range(case.steps)]
    given = [*parameters, *(pair for guarded in steps for pair in guarded)]
    found: dict[str, Any] = {}

    def run(world: World) -> list[Any]:
        found.clear()
        found.update(_trajectory(case, world, contract, parameters, steps))
        return list(found.values())

    views = [None if made is None else made.view for _, made in given]
    evaluated(contract, views, run, many=True)
    numbers = {where: made.numbers() for where, made in given if made is not None}
    allowed = {name: _recorded(tensor, contract) for name, tensor in found.items()}
    return Entry(case, counted, numbers, allowed)


def _trajectory(
    case: UpdateSpec,
    world: World,
    contract: Contract,
    parameters: Sequence[tuple[str, Guarded]],
    steps: Sequence[Sequence[tuple[str, Guarded | None]]],
) -> dict[str, Any]:
    """Return what the steps of a case may leave, by the names of the results."""
    fields = OPTIMIZERS[case.optimizer].moments
    started = [entered(world.lift(item.view), contract) for _, item in parameters]
    now = [{"parameter": parameter, **dict.fromkeys(fields)} for parameter in started]
    counts = [case.start_step] * len(now)
    found: dict[str, Any] = {}
    for number, guarded in enumerate(steps):
        lifted = [
            None if made is None else entered(world.lift(made.view), contract)
            for _, made in guarded
        ]
        for k, gradient in enumerate(
            scaled_gradients(lifted, case.limits_at(number), case.grad_scale_at(number))
        ):
            if gradient is None:
                continue
            left = Taken(
                case.optimizer,
                now[k]["parameter"],
                gradient,
                {field: now[k][field] for field in fields},
                counts[k],
                case.hyper_parameters(k, number),
            ).allowed(world, contract)
            kept = {f: tensor for f, tensor in left.tensors.items() if tensor is not None}
            found.update({result_name(number, k, f): tensor for f, tensor in kept.items()})
            again = {f: entered(world.again(tensor), contract) for f, tensor in kept.items()}
            now[k] = {**left.tensors, **again}
            counts[k] += 1
    return found
