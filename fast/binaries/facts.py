"""The facts of all kernels in a file, and how those of today differ from it.

A file holds the version of triton and a kernel in each line. What has become worse is said first,
in words; any other difference makes the file stale, as a page is written from it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fast.binaries.machines import MOST_REGISTERS
from fast.errors import Rejected

Row = Mapping[str, Any]
Key = tuple[str, str, str, int]

ESTIMATED = frozenset({"estimate", "traffic"})
"""What only `--facts` adds; it follows from the rest, or from what is not compiled."""

ANEW = "python -m fast kernels --facts --json docs/kernels.json, then tools.generate_kernels"


def write(path: Path, rows: Sequence[Row], version: str) -> None:
    """Write the facts, a kernel in each line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(row) for row in rows)
    path.write_text(f'{{"triton": "{version}", "kernels": [\n{lines}\n]}}\n', encoding="utf-8")


def read(path: Path) -> dict[str, Any]:
    """Read a file of facts; what is none is Rejected."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found["triton"], str) and isinstance(found["kernels"], list):
            return found
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Rejected(f"kernels: {path} is no file of facts; {ANEW} writes one") from error
    raise Rejected(f"kernels: {path} is no file of facts; {ANEW} writes one")


def differences(then: Mapping[str, Any], rows: Sequence[Row], version: str) -> list[str]:
    """Say what has become worse than it was, and what else is no longer as it was.

    Only kernels of the ops and targets among `rows` are compared. Facts of another triton say
    nothing about this one, and are Rejected.
    """
    if then["triton"] != version:
        raise Rejected(
            f"kernels: the facts are those of triton {then['triton']}, and this is {version}: "
            f"compare with that one, or write them anew by {ANEW}"
        )
    asked = {_scope(row) for row in rows}
    old = _keyed([row for row in then["kernels"] if _scope(row) in asked])
    new = _keyed(rows)
    worse = [
        f"{title(new[key])}: {said}"
        for key in old.keys() & new.keys()
        for said in regressions(old[key], new[key])
    ]
    stale = [key for key in old.keys() | new.keys() if _facts(old, key) != _facts(new, key)]
    if stale and not worse:
        names = sorted({f"{key[0]} for {key[1]}" for key in stale})
        few = ", ".join(names[:5]) + (" and others" if len(names) > 5 else "")
        return [f"{len(stale)} kernels have other facts: {few}; if that is meant, {ANEW}"]
    return sorted(worse)


def regressions(old: Row, new: Row) -> Iterator[str]:
    """Name what has become worse in a kernel."""
    if new["spills"] > old["spills"]:
        yield f"spills {new['spills']} bytes per thread, where it spilled {old['spills']}"
    for way in ("loads", "stores"):
        was, now = (_widest(row[way]) for row in (old, new))
        if now < was:
            yield f"its widest {way} of global memory have {now} bits, and had {was}"
        was, now = (_narrow(row[way]) for row in (old, new))
        if now > was:
            yield f"{now} {way} of global memory are narrower than 32 bits, and {was} were"
    if old["tensor"] and not new["tensor"]:
        yield f"uses the tensor cores no more; it had {_counted(old['tensor'])}"
    if new["registers"] >= MOST_REGISTERS > old["registers"]:
        yield f"has {new['registers']} registers, the most there are, and had {old['registers']}"
    if new["occupancy"] < old["occupancy"]:
        yield f"occupancy fell from {old['occupancy']:.0%} to {new['occupancy']:.0%}"


def line(row: Row) -> str:
    """Say the facts of a kernel in a line."""
    estimates = "; ".join(
        f"{name} (estimate): bound by {said['bound']}, {said['of_bandwidth']:.0%} of its bandwidth"
        for name, said in row.get("estimate", {}).items()
    )
    return (
        f"{title(row)}: {row['registers']} registers, {row['shared']} bytes shared, "
        f"{row['barriers']} barriers, occupancy {row['occupancy']:.0%} ({row['limit']}); "
        f"loads {_counted(row['loads'])}; stores {_counted(row['stores'])}; "
        f"{row['instructions']} instructions: {_counted(row['mix'])}"
        + (f"; {moved(row['traffic'])}" if "traffic" in row else "")
        + (f"; {estimates}" if estimates else "")
    )


def moved(traffic: Mapping[str, int]) -> str:
    """Say what a kernel moves for an element, and how much more that is than the least."""
    each = traffic["moved"] / traffic["elements"]
    return f"{each:.3g} bytes per element, {traffic['moved'] / traffic['least']:.2f} of the least"


def title(row: Row) -> str:
    """Name a kernel as a report does."""
    config = row["config"]
    tile = [f"{name}={value}" for name, value in config.items() if name.isupper()]
    return (
        f"{row['name']} ({config['direction']} {config['dtypes']}) for {row['target']}"
        + (f" with {' '.join(tile)}" if tile else "")
    )  # fmt: skip


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} of {name}" for name, count in counts.items()) or "none"


def _widest(counts: Mapping[str, int]) -> int:
    return max(map(int, counts), default=0)


def _narrow(counts: Mapping[str, int]) -> int:
    return sum(count for bits, count in counts.items() if int(bits) < 32)


def _scope(row: Row) -> tuple[str, str]:
    """Return the op and the target of a kernel."""
    return row["name"].partition(".")[0], row["target"]


def _keyed(rows: Sequence[Row]) -> dict[Key, Row]:
    """Give kernels that are launched alike numbers, in the order in which they are launched."""
    seen: Counter[tuple[str, str, str]] = Counter()
    found: dict[Key, Row] = {}
    for row in rows:
        alike = (row["name"], row["target"], json.dumps(row["config"], sort_keys=True))
        found[(*alike, seen[alike])] = row
        seen[alike] += 1
    return found


def _facts(rows: Mapping[Key, Row], key: Key) -> Row | None:
    """Return what is compared of a kernel, as JSON would give it back."""
    if key not in rows:
        return None
    kept = {name: value for name, value in rows[key].items() if name not in ESTIMATED}
    plain: Row = json.loads(json.dumps(kept))
    return plain
