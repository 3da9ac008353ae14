"""The command line of `fast`: `train`, `kernels` and `cache`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from fast.binaries import compilation
from fast.commands import cache, train_digits
from fast.errors import Rejected, Unavailable


def parser() -> argparse.ArgumentParser:
    """Describe the commands."""
    top = argparse.ArgumentParser(
        prog="python -m fast", description="Train, and compile the kernels ahead of time."
    )
    commands = top.add_subparsers(dest="command", required=True)
    _add_tasks(commands.add_parser("train", help="train on a task", description=TRAIN))
    compilation.add_parser(commands)
    cache.add_parser(commands)
    return top


TRAIN = "Train on a task."


def _add_tasks(train: argparse.ArgumentParser) -> None:
    """Describe the tasks that one may train on."""
    train_digits.add_parser(train.add_subparsers(dest="task", required=True))


def train() -> int:
    """Run the console script `twingrad-train`, which is `python -m fast train`."""
    scripted = argparse.ArgumentParser(prog="twingrad-train", description=TRAIN)
    _add_tasks(scripted)
    return _run(scripted.parse_args())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 2 where it was asked for what cannot be."""
    return _run(parser().parse_args(arguments))


def _run(chosen: argparse.Namespace) -> int:
    try:
        return int(chosen.run(chosen))
    except (Rejected, Unavailable) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
