"""Keeps what the binaries of the product's tiles say in docs/tiles.json, beside strangers'.

    python -m tools.record_tiles            compile every tile for each target, and write the file
    python -m tools.record_tiles --check    compile them, and fail where the file says otherwise

Either fails where a tile breaks a promise of fast.kernels.tiles: it spills, is not multiplied on
tensor cores, or loads narrower than the table says. No GPU is asked, and nothing is timed. Kernels
of Liger and FlagGems are compiled too where they can be imported; `make tiles` sees to that. Else
what was recorded of them stays as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.tree import ROOT

RECORD = ROOT / "docs" / "tiles.json"
ANEW = "make tiles, then python -m tools.generate_tiles"

Row = dict[str, Any]
Said = dict[str, Any]
"""The version of triton, those of the libraries, the rows of our tiles and of their kernels."""


def recorded() -> Said:
    """Return what was recorded."""
    found: Said = json.loads(RECORD.read_text(encoding="utf-8"))
    return found


def compiled(target: str) -> Said:
    """Compile for a target in this process, which is in compile-only mode."""
    from equivalence.backends.strangers import compiled as strangers
    from fast.binaries import tiled
    from fast.device.mode import triton

    tiles = tiled.compile_here(target)
    libraries = strangers.versions()
    found = [kernel for library in libraries for kernel in strangers.products(library)]
    return {
        "triton": triton.__version__,
        "libraries": libraries,
        "tiles": tiles,
        "strangers": tiled.described(target, found),
    }


def compiled_for_all() -> Said:
    """Compile for each target in a process of its own."""
    from fast.binaries.ptx_rules import SHARED
    from fast.device.mode import COMPILE_TARGET, INTERPRET

    whole: Said = {}
    with tempfile.TemporaryDirectory() as folder:
        for target in SHARED:
            path = Path(folder) / f"{target}.json"
            environment = {**os.environ, COMPILE_TARGET: target}
            environment.pop(INTERPRET, None)
            command = [sys.executable, "-m", "tools.record_tiles", "--target", target, str(path)]
            subprocess.run(command, cwd=ROOT, env=environment, check=True)
            part = json.loads(path.read_text(encoding="utf-8"))
            for name in ("tiles", "strangers"):
                part[name] = whole.get(name, []) + part[name]
            whole = part
    return whole


def broken(said: Said) -> list[str]:
    """Name every promise of the table that a binary breaks."""
    from fast.binaries import tiled

    return [f"{tiled.title(row)}: {fault}" for row in said["tiles"] for fault in tiled.faults(row)]


def differences(then: Said, now: Said) -> list[str]:
    """Say what is no longer as it was recorded; libraries that are not here say nothing."""
    if then["triton"] != now["triton"]:
        return [
            f"the facts are those of triton {then['triton']}, and this is {now['triton']}: {ANEW}"
        ]
    stale = _changed(then["tiles"], now["tiles"])
    for library, version in now["libraries"].items():
        if then["libraries"].get(library) == version:
            stale += _changed(_of(then, library), _of(now, library))
        else:
            stale.append(f"{library} {version}")
    return [f"has other facts than docs/tiles.json: {name}; if meant, {ANEW}" for name in stale]


def kept(then: Said, now: Said) -> Said:
    """Return what is written: what was said of libraries that are not here stays."""
    away = {name: v for name, v in then["libraries"].items() if name not in now["libraries"]}
    rows = [row for library in away for row in _of(then, library)]
    return {
        **now,
        "libraries": {**away, **now["libraries"]},
        "strangers": [*rows, *now["strangers"]],
    }


def write(path: Path, said: Said) -> None:
    """Write what was found, a kernel in each line."""
    parts = [f'"triton": {json.dumps(said["triton"])}']
    parts.append(f'"libraries": {json.dumps(said["libraries"], sort_keys=True)}')
    for name in ("tiles", "strangers"):
        rows = ",\n".join(json.dumps(row) for row in said[name])
        parts.append(f'"{name}": [\n{rows}\n]')
    path.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")


def _of(said: Said, library: str) -> list[Row]:
    return [row for row in said["strangers"] if row["library"] == library]


NAMING = ("target", "library", "op", "kernel", "dtype", "tile", "order")
"""What tells one row from the others; the rest is what its binary says."""


def _changed(then: Sequence[Row], now: Sequence[Row]) -> list[str]:
    """Name the rows that only one has, or of which the two say different things."""
    old, new = ({_name(row): row for row in rows} for rows in (then, now))
    names = dict.fromkeys([*old, *new])
    return [name for name in names if old.get(name) != new.get(name)]


def _name(row: Mapping[str, Any]) -> str:
    return " ".join(str(row[key]) for key in NAMING if key in row)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file or compare with it; the exit code is 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--target", nargs=2, metavar=("TARGET", "FILE"), help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.target:
        target, path = chosen.target
        Path(path).write_text(json.dumps(compiled(target)), encoding="utf-8")
        return 0
    now = compiled_for_all()
    wrong = broken(now)
    if chosen.check:
        wrong += differences(recorded(), now)
    else:
        write(RECORD, kept(recorded(), now) if RECORD.exists() else now)
    for line in wrong:
        print(f"tiles: {line}", file=sys.stderr)
    count = len(now["tiles"])
    print(f"tiles: {count} compiled with triton {now['triton']}, {len(wrong)} faults")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
