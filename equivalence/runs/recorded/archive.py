"""Archives: rows written with inputs, exact values and budgets, and judged without any oracle.

A machine that has torch, and perhaps a GPU, but neither python-flint nor Hypothesis, replays an
archive and judges everything that the recording machine could.  A folder holds manifest.json, which
lists the files that are whole, and one compressed .npz per row:

    meta     the row, the name of the contract, and its cases: their JSON, positions and results
    inputs   the numbers of all tensors, one after another
    high, budget, low, kinds    what is allowed, as `equivalence.budgets.recorded` has it

Optimizers are recorded open loop: budgets follow the reference's own trajectory from the recorded
parameters and gradients, where a live run takes over the backend's state before every step.
"""

# This file is longer than the guide because what is written and what is read stand in one place.

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from equivalence.budgets.recorded import Recorded, differ
from equivalence.cases.call import counts
from equivalence.runs.choice import read_case
from equivalence.runs.kinds import Case, shows
from equivalence.runs.results import Row
from equivalence.runs.work import Damaged

if TYPE_CHECKING:
    pass

FORMAT = 2

MANIFEST = "manifest.json"

Doubles = npt.NDArray[np.float64]

KEPT_BITS = 16
"""Significant bits of a recorded budget; it is rounded up to them, so that archives stay small."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One recorded case: its numbers by position, and what is allowed by the results' names."""

    case: Case
    counted: bool
    numbers: Mapping[str, Sequence[float]]
    allowed: Mapping[str, Recorded]


@dataclass(frozen=True, slots=True)
class Archive:
    """The recorded cases of one row, and the contract that their budgets follow from.

    left holds the levels of the page's design that no case has, where a part of it was recorded.
    """

    row: Row
    contract: str
    entries: tuple[Entry, ...]
    left: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


def constrained(entry: Entry) -> int:
    """Count the elements of a case that have a budget."""
    return sum(int(np.isfinite(recorded.budget).sum()) for recorded in entry.allowed.values())


def counting(entry: Entry) -> bool:
    """Say whether a case counts: enough elements have a budget, and they differ."""
    differing = any(map(differ, entry.allowed.values()))
    return counts(constrained(entry)) and shows(entry.case, differing)


def path_of(folder: Path, row: Row) -> Path:
    """Return the file of a row."""
    return folder / f"{row.op}.{row.direction}.{row.dtype}.npz"


def start_archive(folder: Path, profile: str, seed: int) -> None:
    """Make the folder, or go on with what the same profile and seed recorded in it.

    Damaged says what it holds where that is anything else.
    """
    folder = folder.resolve()
    if folder.exists() and not folder.is_dir():
        raise Damaged(f"{folder} is no folder to record in: a file stands there")
    held = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    if held and MANIFEST not in held:
        raise Damaged(
            f"{folder} is no recording, and is not empty: it holds {_few(held)}; "
            "name a new folder, an empty one, or one that --record wrote"
        )
    plain: dict[str, Any] = {"format": FORMAT, "profile": profile, "seed": seed}
    before = _manifest(folder) if held else plain
    if any(before.get(key) != value for key, value in plain.items()):
        raise Damaged(
            f"{folder} holds a recording of profile {before.get('profile')} and seed "
            f"{before.get('seed')}, not of {profile} and {seed}: name another folder, or remove it"
        )
    folder.mkdir(parents=True, exist_ok=True)
    known = [path.name for path in sorted(folder.glob("*.npz"))]
    _write_manifest(folder, {**plain, "files": before.get("files", known)})


def note_row(folder: Path, row: Row) -> None:
    """Say in the manifest that a row is there; only one process may do so at a time."""
    name = path_of(folder, row).name
    plain = _manifest(folder)
    if (folder / name).exists() and name not in plain["files"]:
        _write_manifest(folder, {**plain, "files": [*plain["files"], name]})


def open_archive(folder: Path) -> None:
    """Refuse, by name, a folder that is no archive or that lacks what its manifest lists.

    An archive of an older suite lists nothing: it is what lies there.
    """
    if not (folder / MANIFEST).is_file():
        raise Damaged(f"{folder} is no archive: it has no {MANIFEST}; --record DIR writes one")
    plain = _manifest(folder)
    names = plain.get("files", [path.name for path in folder.glob("*.npz")])
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise Damaged(f"{folder} lacks what its {MANIFEST} lists: {_few(missing)}")
    broken = [name for name in names if not zipfile.is_zipfile(folder / name)]
    if broken:
        raise Damaged(f"{folder} holds rows that are damaged: {_few(broken)}; record them again")


def _few(names: Sequence[str]) -> str:
    """List the first few names, and say how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _manifest(folder: Path) -> dict[str, Any]:
    """Read a manifest; Damaged where it is none of this format."""
    path = folder / MANIFEST
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Damaged(f"{path} is damaged: it is no JSON") from error
    found = plain.get("format") if isinstance(plain, dict) else None
    if found != FORMAT:
        raise Damaged(f"{path} is of format {found!r}; this suite reads format {FORMAT}")
    files = plain.get("files", [])
    if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
        raise Damaged(f"{path} is damaged: its files are no list of names")
    return dict(plain)


def _write_manifest(folder: Path, plain: Mapping[str, Any]) -> None:
    """Replace the manifest at once, so that a reader never finds half of one."""
    half = folder / f"{MANIFEST}.half"
    half.write_text(json.dumps(plain) + "\n", encoding="utf-8")
    half.replace(folder / MANIFEST)


def compact(recorded: Recorded) -> Recorded:
    """Give up digits that no judgement needs: low goes into the budget, which is rounded up."""
    high, low, budget = recorded.high, recorded.low, recorded.budget
    if recorded.dtype != "fp64":
        budget, low = budget + np.abs(low), np.zeros_like(low)
    mantissa, exponent = np.frexp(budget)
    kept = np.ldexp(np.ceil(np.ldexp(mantissa, KEPT_BITS)), exponent - KEPT_BITS)
    return replace(recorded, high=high, low=low, budget=np.where(np.isfinite(budget), kept, budget))


def save_archive(folder: Path, archive: Archive) -> None:
    """Write one row."""
    cases: list[dict[str, Any]] = []
    inputs: list[Sequence[float]] = []
    allowed: list[Recorded] = []
    for entry in archive.entries:
        cases.append(
            {
                "case": json.loads(entry.case.to_json()),
                "counted": entry.counted,
                "numbers": {name: len(values) for name, values in entry.numbers.items()},
                "allowed": {name: [list(r.shape), r.dtype] for name, r in entry.allowed.items()},
            }
        )
        inputs.extend(entry.numbers.values())
        allowed.extend(map(compact, entry.allowed.values()))
    meta = {"format": FORMAT, "contract": archive.contract, "cases": cases}
    meta |= {"left": archive.left} if archive.left else {}
    path = path_of(folder, archive.row)
    half = path.with_suffix(".half")
    with half.open("wb") as file:
        np.savez_compressed(
            file,
            meta=np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8),
            inputs=np.array([number for values in inputs for number in values], dtype=np.float64),
            high=_joined([r.high for r in allowed]),
            low=_joined([r.low for r in allowed]),
            budget=_joined([r.budget for r in allowed]),
            kinds=np.concatenate([*(r.kinds for r in allowed), np.zeros(0)]).astype(np.uint8),
        )
    half.replace(path)


def _joined(parts: Sequence[Doubles]) -> Doubles:
    return np.concatenate([*parts, np.zeros(0)]).astype(np.float64)


def load_archive(folder: Path, row: Row) -> Archive:
    """Read one row back; Damaged where the file is not whole."""
    path = path_of(folder, row)
    try:
        return _read(path, row)
    except Exception as error:
        # What is wrong inside a damaged file shows as nearly any error of numpy, zlib or json.
        raise Damaged(f"{path} is damaged; record the row {row} again") from error


def _read(path: Path, row: Row) -> Archive:
    """Read the file of a row; of one that is not whole, any error may come."""
    with np.load(path, allow_pickle=False) as file:
        meta = json.loads(file["meta"].tobytes().decode())
        inputs, high, low, budget = (file[key] for key in ("inputs", "high", "low", "budget"))
        kinds = file["kinds"]
    entries: list[Entry] = []
    read, judged = 0, 0
    for plain in meta["cases"]:
        numbers: dict[str, Sequence[float]] = {}
        for name, length in plain["numbers"].items():
            numbers[name] = inputs[read : read + length].tolist()
            read += length
        allowed: dict[str, Recorded] = {}
        for name, (shape, dtype) in plain["allowed"].items():
            part = slice(judged, judged + math.prod(shape))
            parts = (numbers[part] for numbers in (high, low, budget, kinds))
            allowed[name] = Recorded(tuple(shape), dtype, *parts)
            judged = part.stop
        case = read_case(json.dumps(plain["case"]))[1]
        entries.append(Entry(case, plain["counted"], numbers, allowed))
    if not (read == len(inputs) and judged == len(high) == len(low) == len(budget) == len(kinds)):
        raise ValueError("its numbers are not those of its cases")
    left = {name: tuple(levels) for name, levels in meta.get("left", {}).items()}
    return Archive(row, meta["contract"], tuple(entries), left)


def result_name(step: int, parameter: int, field: str) -> str:
    """Name one result of one step of an optimizer."""
    return f"step {step}, parameter {parameter}, {field}"
