"""Runs the steps of `make full`, but for those that were shown and can have no other outcome now.

    python -m tools.shown STEP [STEP ...]     run what is not shown, and say how each step ended

A step is a target of the Makefile. When it has passed, `tools/shown.json` says at which commit, in
how many seconds, and which files of the tree it opened, with a digest of them, of the pins and of
its recipe. While that digest holds, the step is shown and is not run again: a change to what trains
does not judge every kernel anew. A step that fails stops no other one, and an interrupted run goes
on where it stopped. Where a tree changes while a step runs, nothing is written down.

Assumed: an outcome depends on the files that were opened, on the pins and on the recipe, not on the
machine. Each entry says which processor it ran on. Tools with caches of their own (mypy, ruff) open
less than they depend on, so their steps are always run, and so are the tests of every change.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from time import monotonic
from typing import Any

from tools import git, reading
from tools.rotation import JUDGED
from tools.tree import ROOT, files

RECORD = "tools/shown.json"
"""What was shown, by step."""

SCHEMA = 1
"""The number of the record's format."""

APART = (RECORD, JUDGED, "Makefile")
"""What full runs write down, and what `make` reads for every step: the step's recipe counts."""

PINS = ("constraints.txt", "pyproject.toml")
"""What decides on the environment; it is read before a step begins."""

ALWAYS = frozenset({"lint", "types", "generated", "test"})
"""Steps that are never taken for shown."""

SET_UP = "tools/set_up.py"
"""What makes an environment: part of a recipe only until it is there."""

MAKE = ("make", "--no-print-directory")


def digests(root: Path) -> dict[str, str]:
    """The digest of each file of the tree, by name, but for those of `APART`."""
    paths = ((path.relative_to(root).as_posix(), path) for path in files(root))
    return {
        name: sha256(path.read_bytes()).hexdigest() for name, path in paths if name not in APART
    }


def recipe(root: Path, step: str) -> str:
    """The commands of a step, but for those that make its environment."""
    return "\n".join(line for line in _commands(root, step) if SET_UP not in line)


def folded(read: Iterable[str], names: Iterable[str]) -> list[str]:
    """Write names shortly: `folder/*` where all files of a folder were read."""
    wanted, found = set(read), []
    for folder, group in groupby(sorted(names, key=_place), key=os.path.dirname):
        own = [*group]
        hit = [name for name in own if name in wanted]
        found += [f"{folder}/*"] if folder and len(own) > 1 and hit == own else hit
    return sorted(found)


def unfolded(short: Iterable[str], names: Iterable[str]) -> list[str]:
    """The names that short ones stand for: files that came to a folder since are among them."""
    wanted = set(short)
    return sorted(n for n in names if n in wanted or f"{os.path.dirname(n)}/*" in wanted)


def _place(name: str) -> tuple[str, str]:
    return os.path.dirname(name), name


def digest(text: str, read: Iterable[str], tree: Mapping[str, str]) -> str:
    """One digest of a recipe, the pins and the files that a step has opened."""
    names = sorted({*unfolded(read, tree), *PINS}.intersection(tree))
    return sha256(repr((text, [(name, tree[name]) for name in names])).encode()).hexdigest()


def recorded(root: Path) -> dict[str, Any]:
    """What was shown, by step; ValueError refuses a format that is unknown."""
    path = root / RECORD
    if not path.exists():
        return {}
    plain = json.loads(path.read_text(encoding="utf-8"))
    if plain.get("schema") != SCHEMA:
        raise ValueError(f"{path} is of schema {plain.get('schema')!r}; read is {SCHEMA}")
    steps: dict[str, Any] = plain["steps"]
    return steps


def is_shown(root: Path, step: str) -> bool:
    """Say whether a step has passed with the recipe and the files that there are now."""
    entry = recorded(root).get(step)
    if entry is None or step in ALWAYS:
        return False
    now = digest(recipe(root, step), entry["read"], digests(root))
    return bool(now == entry["digest"])


def write(root: Path, step: str, entry: Mapping[str, Any]) -> None:
    """Add an entry to the record, which is replaced as a whole."""
    steps = dict(sorted({**recorded(root), step: entry}.items()))
    part = (root / RECORD).with_suffix(".part")
    plain = {"schema": SCHEMA, "steps": steps}
    part.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    part.replace(root / RECORD)


def shown(root: Path, step: str) -> bool:
    """Run a step unless it is shown, write down what it read if it passes, and say whether it did.

    Its output goes to build/full.
    """
    if is_shown(root, step):
        return True
    print(f"{step} ...", flush=True)
    place = root / "build" / "full"
    place.mkdir(parents=True, exist_ok=True)
    before, text, start = digests(root), recipe(root, step), monotonic()
    log = place / f"{step}.log"
    with log.open("w", encoding="utf-8") as file:
        code, read = reading.run(root, [*MAKE, step], file, place / "bytecode")
    said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    if code:
        print("\n".join(said[-30:]), flush=True)
        return False
    if step in ALWAYS:
        print(*said[-1:], flush=True)
        return True
    after = digests(root)
    changed = sorted(n for n in {*read, *PINS} if before.get(n) != after.get(n))
    if changed:
        print(f"{step} passed, and is not written down: {changed[0]} changed meanwhile")
        return True
    short = folded((name for name in read if name in before), before)
    entry = {
        "digest": digest(text, short, before),
        "commit": commit(root),
        "seconds": round(monotonic() - start),
        "processor": processor(),
        "last": said[-1] if said else "",
        "read": short,
    }
    write(root, step, entry)
    print(entry["last"], flush=True)
    return True


def processor() -> str:
    """Name this machine's processor, as far as the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def commit(root: Path) -> str:
    """The commit that the tree is of, with a + where files differ from it, but for the records."""
    name = git.said(root, "describe", "--always", "--exclude=*")
    apart = (f":(exclude){path}" for path in (RECORD, JUDGED))
    differs = git.said(root, "status", "--porcelain", "--untracked-files=no", "--", ".", *apart)
    return f"{name}+" if differs else name


def summary(root: Path, step: str, passed: bool) -> str:
    """Say in a line how a step ended, and where it was shown."""
    entry = recorded(root).get(step)
    if not passed:
        return f"{step}: FAILED"
    if entry is None or step in ALWAYS:
        return f"{step}: passed"
    return f"{step}: passed at {entry['commit']} in {entry['seconds']} s: {entry['last']}"


def unknown(root: Path, steps: Iterable[str]) -> list[str]:
    """The names of which no target of the Makefile has commands: a file's or a folder's is none."""
    return [step for step in steps if not _commands(root, step)]


def _commands(root: Path, step: str) -> list[str]:
    """What `make` would run for a name; where that is nothing, it fails or says so itself."""
    done = subprocess.run(
        [*MAKE, "--dry-run", "--", step], cwd=root, capture_output=True, text=True, check=False
    )
    said = [] if done.returncode else done.stdout.splitlines()
    return [line for line in said if not line.startswith(("make: ", "make["))]


def main(written: list[str]) -> int:
    """Run steps in turn; 1 if one failed, 2 where a name is no step's: then none is run."""
    parser = argparse.ArgumentParser(
        "python -m tools.shown", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("steps", metavar="STEP", nargs="+", help="a target of the Makefile")
    steps: list[str] = parser.parse_args(written).steps
    if strange := unknown(ROOT, steps):
        parser.error(f"a step is a target of the Makefile that has commands; got {strange[0]!r}")
    ended = {step: shown(ROOT, step) for step in steps}
    for step, passed in ended.items():
        print(summary(ROOT, step, passed))
    return 0 if all(ended.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
