"""Chooses the pages that `make check` judges.

    python -m tools.rotation             print their names
    python -m tools.rotation --turns 2   print more: each page has its turn in so many commits
    python -m tools.rotation --compiled  print those that are compiled in seconds
    python -m tools.rotation --all       print all ops; with --compiled or --drawing some of them
    python -m tools.rotation --record    write down that every page, as it is, was judged at `ci`

They are the pages that differ, in `spec` or in `fast`, from what the last `make full` judged, and a
fixed share of the others, which moves on with each commit. So what a page is asked never depends on
how many pages there are, and `make full` alone asks everything of all: also where more pages differ
than a share has, as after a change to what all of them stand on.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from tools import git
from tools.tree import ROOT, table_order

JUDGED = "tools/judged.json"
"""Each page's digest as the last `make full` judged it."""

SCHEMA = 1
"""The number of the record's format. A record without one is older: the digests alone."""

TURNS = 24
"""After as many commits each page has had its turn, where no other number is said."""

TABLES = {"ops": "OPS", "optim": "OPTIMIZERS"}


def digests(root: Path) -> dict[str, str]:
    """The digest of each op's and optimizer's pages, in reading order."""
    found = {}
    for folder, table in TABLES.items():
        for name in table_order(root / "spec" / folder / "__init__.py", table):
            pages = (root / package / folder / f"{name}.py" for package in ("spec", "fast"))
            texts = b"\0".join(page.read_bytes() for page in pages if page.exists())
            found[name] = sha256(texts).hexdigest()
    return found


def chosen(root: Path, turn: int, turns: int = TURNS) -> list[str]:
    """The pages to judge in full, in reading order, if each has its turn in so many."""
    pages = digests(root)
    changed = _differing(pages, recorded(root), turns)
    return [
        name for place, name in enumerate(pages) if name in changed or place % turns == turn % turns
    ]


def differing(root: Path, turns: int = TURNS) -> set[str]:
    """The pages that the last `make full` did not judge as they are; none if they exceed a turn."""
    return _differing(digests(root), recorded(root), turns)


def _differing(pages: Mapping[str, str], judged: Mapping[str, str], turns: int) -> set[str]:
    changed = {name for name, digest in pages.items() if judged.get(name) != digest}
    return changed if len(changed) <= len(pages) // turns else set()


def recorded(root: Path) -> dict[str, str]:
    """Each page's digest as the record has it; ValueError refuses a format that is unknown."""
    path = root / JUDGED
    if not path.exists():
        return {}
    plain: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    schema = plain.get("schema", SCHEMA)
    if schema != SCHEMA:
        raise ValueError(f"{path} is of schema {schema!r}; read are {SCHEMA} and files without one")
    pages: dict[str, str] = plain.get("pages", plain)
    return pages


def record(root: Path) -> None:
    """Write down that every page, as it is, was judged."""
    plain = {"schema": SCHEMA, "pages": digests(root)}
    (root / JUDGED).write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


def commits(root: Path) -> int:
    """How many commits led here; 0 in a tree without history."""
    return int(git.said(root, "rev-list", "--count", "HEAD") or 0)


def compiled(names: Sequence[str], drawing: bool) -> list[str]:
    """Those of these pages that are compiled: the ops that draw numbers, or those that do not.

    Philox's rounds take a compiler many minutes. The step of an optimizer is compiled with a
    training's passes alone, and no backend offers it.
    """
    from fast.ops import OPS

    return [name for name in names if name in OPS and OPS[name].random == drawing]


def ops(root: Path) -> list[str]:
    """All ops, in reading order."""
    return table_order(root / "spec/ops/__init__.py", TABLES["ops"])


def main(arguments: list[str]) -> int:
    """Print the names, or write the pages' digests down."""
    asked = _parser().parse_args(arguments)
    if asked.record:
        record(ROOT)
        return 0
    names = ops(ROOT) if asked.all else chosen(ROOT, commits(ROOT), asked.turns)
    if asked.compiled or asked.drawing:
        names = compiled(names, asked.drawing)
    print(*names)
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m tools.rotation")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--all", action="store_true")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--compiled", action="store_true")
    kind.add_argument("--drawing", action="store_true")
    kind.add_argument("--record", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
