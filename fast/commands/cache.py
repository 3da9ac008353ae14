"""Lists and empties the folder of compiled programs: `python -m fast cache`."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import Any

from fast.compiled import artifacts


def add_parser(commands: Any) -> None:
    """Add the command to the parser of `fast`."""
    parser = commands.add_parser(
        "cache",
        help="list or remove programs that the engine inductor has compiled",
        description="List the programs that the engine inductor has compiled, or remove them.",
    )
    parser.add_argument("--empty", action="store_true", help="remove all of them")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print one line for each artifact, or how many were removed."""
    place = artifacts.folder()
    if arguments.empty:
        print(f"{place}: {artifacts.make_room(place, -1)} removed")
        return 0
    files = artifacts.kept(place)
    for file, size in files:
        used = datetime.fromtimestamp(file.stat().st_mtime).isoformat(" ", "seconds")
        print(f"{file.stem[:16]}  {size / 1e6:6.1f} MB  last used {used}")
    print(f"{place}: {len(files)} artifacts, {sum(size for _, size in files) / 1e6:.1f} MB")
    return 0
