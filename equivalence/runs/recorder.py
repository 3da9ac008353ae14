"""Recording: which cases a row has, and what its contract allows, without asking any backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equivalence.budgets.judge import record
from equivalence.budgets.recorded import Recorded
from equivalence.cases.built import build
from equivalence.cases.covering import SINGLES
from equivalence.cases.updates import UpdateSpec, build_gradients, build_parameters
from equivalence.measure.call import expectation, result_names
from equivalence.measure.reference import advance, scaled_gradients
from equivalence.runs.archive import (
    Archive,
    Entry,
    counting,
    replay_row,
    result_name,
    save_archive,
)
from equivalence.runs.kinds import Case, kind_of
from equivalence.runs.results import Row, RowResult
from equivalence.runs.runner import drawn_cases, least, row_seed, supported
from spec.optim import OPTIMIZERS

if TYPE_CHECKING:
    from equivalence.budgets.findings import Finding
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
    if ring in (None, capabilities.ring):
        own = capabilities.contract(row.op, row.dtype)
        save_archive(folder, recorded_row(row, own, counted, seed, strength))
        return replay_row(backend, row, folder=folder, findings=findings, address=address)
    contract = backend.contract_on(ring)(row.op, row.dtype)
    archive = recorded_row(row, contract, counted, seed, strength)
    save_archive(folder, archive)
    cases = sum(entry.counted for entry in archive.entries)
    return RowResult(row, "vacuous", cases, contract=contract.name, ring=str(ring), excused=True)


def recorded_row(
    row: Row, contract: Contract, counted: int, seed: int, strength: int = SINGLES
) -> Archive:
    """Choose the cases of a row as a live run does, and evaluate what is allowed for each."""
    kind = kind_of(row)
    # A budget is defined for finite numbers, so what is not finite is judged in live runs alone.
    extras = [case for case in kind.extras() if not getattr(case, "spoiled", ())]
    entries = [_entry(case, contract, False) for case in extras]
    fixed = kind.fixed(strength)
    designed = [_entry(case, contract, True) for case in fixed]
    number = sum(map(counting, designed))
    wanted = least(counted, number, strength)
    entries += designed
    for case in drawn_cases(kind, fixed, counted, row_seed(seed, row)):
        if number >= wanted:
            break
        entry = _entry(case, contract, True)
        number += counting(entry)
        entries.append(entry)
    return Archive(row, contract.name, tuple(entries))


def _entry(case: Case, contract: Contract, counted: bool) -> Entry:
    """Evaluate one case."""
    if isinstance(case, UpdateSpec):
        return _update_entry(case, contract, counted)
    built = build(case)
    allowed = {
        name: _recorded(expected, contract)
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
    from equivalence.budgets.oracle import lift_one
    from equivalence.worlds.arithmetic import Arithmetic

    arithmetic = Arithmetic(contract)
    numbers: dict[str, Sequence[float]] = {}
    allowed: dict[str, Recorded] = {}
    now: list[dict[str, Any]] = []
    for position, item in build_parameters(case, "cpu"):
        numbers[position] = item.numbers()
        moments = dict.fromkeys(OPTIMIZERS[case.optimizer].moments)
        now.append({"parameter": lift_one(item.view, arithmetic), **moments})
    counts = [case.start_step] * len(now)
    for step in range(case.steps):
        guarded = build_gradients(case, step, "cpu")
        numbers.update({where: made.numbers() for where, made in guarded if made is not None})
        lifted = [None if made is None else lift_one(made.view, arithmetic) for _, made in guarded]
        for k, gradient in enumerate(scaled_gradients(lifted, case.max_norm)):
            if gradient is None:
                continue
            moments = {field: now[k][field] for field in OPTIMIZERS[case.optimizer].moments}
            left = advance(
                case.optimizer,
                now[k]["parameter"],
                gradient,
                moments,
                counts[k],
                case.hyper_parameters(k),
            )
            now[k], counts[k] = dict(left.tensors), counts[k] + 1
            for field, tensor in left.tensors.items():
                if tensor is not None:
                    allowed[result_name(step, k, field)] = _recorded(tensor, contract)
    return Entry(case, counted, numbers, allowed)
