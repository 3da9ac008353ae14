"""Rows, where they were measured, and a file that is whole at every moment."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
Row = dict[str, Any]


def environment(device: str, commit: str | None = None) -> dict[str, Any]:
    """What a reader of the numbers must know: device, processor, versions, commit, date."""
    return {
        "device": device,
        "host": platform.machine(),
        "processor": processor(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("torch", "triton", "numpy")},
        "commit": commit or git("rev-parse", "HEAD") or "unknown",
        "changed": bool(git("status", "--porcelain", "--untracked-files=no")),
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def processor() -> str:
    """The processor's name, as Linux has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), "")


def refused(*choices: tuple[str, Sequence[str], Collection[str]]) -> bool:
    """Say which names of a choice (what, given, known) are not known, if there are any."""
    for what, given, known in choices:
        unknown = [name for name in given if name not in known]
        if unknown:
            print(f"{what}: one of {', '.join(known)}; got {', '.join(unknown)}", file=sys.stderr)
            return True
    return False


def version(distribution: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def git(*arguments: str) -> str:
    """What git says of this repository, or nothing where there is no git or no repository."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def save(path: Path, results: dict[str, Any]) -> None:
    """Write the results so that a reader, or a crash, never finds half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(json.dumps(results, indent=1, default=str) + "\n", encoding="utf-8")
    os.replace(unfinished, path)


def fails(row: Row) -> bool:
    """Say whether a row misses its target, if it has one, by more than is known."""
    return row["target"] is not None and row["ratio"] > row.get("held", row["target"])


def show(row: Row) -> None:
    """Print a row: its name, its ratio or its seconds, and how that stands to its target."""
    target, found = row["target"], row["ratio"] if "ratio" in row else row["seconds"]
    if target is None:
        verdict = ""
    else:
        verdict = f"target {target:4.2f}  {'met' if found <= target else 'MISSED'}"
        if found > target and "held" in row:
            verdict += f", as is known; held to {row['held']:4.2f}"
    print(f"{row['name']:<58} {found:6.3f}  {verdict}", flush=True)
