"""The options of all commands, each stated once, and the options of a resumed run."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equivalence.blame import Refused
from equivalence.runs.results import SCHEMA, Row, RowResult, read_row


class UsageError(Refused):
    """The command line asks for something impossible. The message names the possible values."""


class Names(argparse.Action):
    """Names separated by spaces, commas or both."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Split the given words into names, and store these."""
        names = [name.strip() for text in values for name in text.split(",") if name.strip()]
        setattr(namespace, self.dest, names)


@dataclass(frozen=True)
class Option:
    """One option: its help text, its default, and its settings for argparse.

    asked: the option decides the results, so a resumed run takes it from its file.
    """

    help: str
    default: Any = None
    asked: bool = True
    reading: Mapping[str, Any] = field(default_factory=dict)


def _path(metavar: str) -> dict[str, Any]:
    return {"type": Path, "metavar": metavar}


def _names(metavar: str) -> dict[str, Any]:
    return {"nargs": "+", "action": Names, "metavar": metavar}


OPTIONS: dict[str, Option] = {
    "backend": Option("a built-in backend (see list), or module:attribute"),
    "ops": Option(
        "operations and optimizers, with spaces or commas between (default: all)",
        reading=_names("OP"),
    ),
    "pages": Option(
        "modules to import first; they register your own pages", reading=_names("MODULE")
    ),
    "provider": Option(
        "only rows of these providers: aten, triton (default: both)", reading=_names("PROVIDER")
    ),
    "engine": Option(
        "judge what an engine that compiles programs computes: inductor (default: the sessions and "
        "interpreters that compile nothing)",
        reading={"metavar": "ENGINE"},
    ),
    "only": Option(
        "only these rows, as a report names them: 'clipped aten fp32', '* triton *' (default: all)",
        reading=_names("ROW"),
    ),
    "profile": Option(
        "quick, ci or thorough: 8, 30 or 500 counted cases per row; sizes: large cases "
        "(default: ci)",
        "ci",
    ),
    "seed": Option(
        "the seed of the drawn cases (thorough: a fresh seed, printed)", reading={"type": int}
    ),
    "points": Option(
        "the number of points of each row, the plainest first (default: all of its design)",
        reading={"type": int, "metavar": "N"},
    ),
    "cases": Option(
        "how many random programs of any extents to judge at each provider and precision "
        "(default: by the profile)",
        reading={"type": int, "metavar": "N"},
    ),
    "nodes": Option(
        "how many nodes such a program computes at most, without those of its loss "
        "(default: 40, and 12 with interpreted kernels)",
        reading={"type": int, "metavar": "N"},
    ),
    "shrink": Option(
        "shrink failing cases, which may take minutes",
        False,
        reading={"action": "store_true"},
    ),
    "findings": Option("also accept the findings that this file declares", reading=_path("FILE")),
    "declare": Option(
        "continue after failures, and write a narrow finding for each kind of them",
        reading=_path("FILE"),
    ),
    "fence": Option(
        "also put patterned bands around memory that the backend allocates through torch",
        False,
        reading={"action": "store_true"},
    ),
    "whole": Option(
        "also fail if a row judged a part of its operation alone (exit code 1)",
        False,
        asked=False,
        reading={"action": "store_true"},
    ),
    "call_limit": Option(
        "the time limit of a call of the backend in a worker process (default: 60)",
        60.0,
        reading={"type": float, "metavar": "SECONDS"},
    ),
    "record": Option(
        "also write inputs, exact values and budgets to this folder", reading=_path("DIR")
    ),
    "replay": Option(
        "judge by the values recorded in this folder, without an oracle", reading=_path("DIR")
    ),
    "ring": Option(
        "with --record: write the budgets of another execution environment, without the backend",
        reading={"choices": ("host", "interpreted", "device")},
    ),
    "jobs": Option(
        "the number of worker processes; 0 runs everything in this process "
        "(default: one for each CPU)",
        os.cpu_count() or 1,
        asked=False,
        reading={"type": int, "metavar": "N"},
    ),
    "json": Option(
        "also write the results as JSON, whenever a row ends", asked=False, reading=_path("FILE")
    ),
    "resume": Option(
        "continue the run that wrote this JSON, and write all results to it",
        asked=False,
        reading=_path("FILE"),
    ),
}


def flag(name: str) -> str:
    """Return an option as a word of a command line."""
    return f"--{name.replace('_', '-')}"


def add(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add options to a command. An option that is not given stays unset until `filled`."""
    for name in names:
        option = OPTIONS[name]
        reading = dict(option.reading)
        parser.add_argument(
            flag(name), help=option.help, default=argparse.SUPPRESS, dest=name, **reading
        )
    parser.set_defaults(options=names)


@dataclass(frozen=True)
class Earlier:
    """The results of a run that was cut short."""

    results: tuple[RowResult, ...] = ()


def filled(chosen: argparse.Namespace) -> tuple[argparse.Namespace, Earlier]:
    """Fill in missing options: from the file of an earlier run, or else by default."""
    given = {name: value for name, value in vars(chosen).items() if name in chosen.options}
    known: dict[str, Any] = {name: OPTIONS[name].default for name in chosen.options}
    earlier = Earlier()
    resume = given.get("resume")
    if resume is not None:
        asked, earlier = _read(resume, chosen.command)
        known |= asked
        _need_the_same(resume, known, given)
        known["json"] = resume
    filled_in = {**known, **given}
    jobs = filled_in.get("jobs", 1)
    if jobs < 0:
        raise UsageError(
            f"--jobs is a number of worker processes, or 0 for this process; got {jobs}"
        )
    limit = filled_in.get("call_limit", 1.0)
    if not limit > 0:
        raise UsageError(f"--call-limit is a number of seconds above 0; got {limit:g}")
    for name in ("json", "declare"):
        if filled_in.get(name) is not None:
            check_output(filled_in[name], name)
    return argparse.Namespace(**{**vars(chosen), **filled_in}), earlier


def _need_the_same(path: Path, stored: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse an option that would judge the rows of a resumed run otherwise than the first ones."""
    for name, value in given.items():
        if OPTIONS[name].asked and _compared(stored[name]) != _compared(value):
            raise UsageError(
                f"--resume {path} continues a run with {_said(name, stored[name])}, and "
                f"{_said(name, value)} came: leave that out, or start another run with --json"
            )


def _compared(value: Any) -> Any:
    """Return the value of an option as two runs compare it: whole paths, names in any order."""
    return sorted(value) if isinstance(value, list) else _plain(value)


def _said(name: str, value: Any) -> str:
    """Return an option and its value as a reader writes them."""
    if value is None or value is False:
        return f"no {flag(name)}"
    return flag(name) if value is True else f"{flag(name)} {shown(_plain(value))}"


def _plain(value: Any) -> Any:
    """Return the value of an option as JSON holds it."""
    return str(value.resolve()) if isinstance(value, Path) else value


def request(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return the options that decide the results of a run, as JSON holds them, each of them."""
    return {name: _plain(getattr(chosen, name)) for name in chosen.options if OPTIONS[name].asked}


def _read(path: Path, command: str) -> tuple[dict[str, Any], Earlier]:
    """Read the options and the results of an earlier run from its file."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        if plain["command"] != command:
            raise UsageError(
                f"{path} was written by {plain['command']}; continue it with "
                f"python -m equivalence {plain['command']} --resume {path}"
            )
        if plain["schema"] != SCHEMA:
            raise UsageError(
                f"{path} has schema {plain['schema']}, and this suite continues schema "
                f"{SCHEMA} only, since the statuses differ: run it again"
            )
        results = tuple(read_row(row) for row in plain["rows"])
        asked = {
            name: value if value is None else OPTIONS[name].reading.get("type", _same)(value)
            for name, value in plain["request"].items()
        }
    except UsageError:
        raise
    except OSError as error:
        raise UsageError(f"--resume cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} was not written by --json of {command}") from error
    return asked, Earlier(results)


def _same(value: Any) -> Any:
    return value


def line(command: str, asked: Mapping[str, Any]) -> str:
    """Return the command line with these options."""
    return shlex.join(["python", "-m", "equivalence", command, *words(asked)])


def words(asked: Mapping[str, Any]) -> Iterator[str]:
    """Yield options as the words of a command line, but for those that have their defaults."""
    for name, value in asked.items():
        known = OPTIONS.get(name)  # another program has options of its own
        if known is not None and known.asked and value == known.default:
            continue
        yield flag(name)
        if value is not True:
            yield shown(value)


def shown(value: Any) -> str:
    """Return the value of an option as a word of a command line."""
    return ",".join(value) if isinstance(value, list) else str(value)


def remaining(command: str, asked: Mapping[str, Any], missing: Sequence[Row]) -> str:
    """Return the command line for the missing rows, and for hardly any others."""
    if command == "run":
        return line(command, {**asked, "ops": list(dict.fromkeys(row.op for row in missing))})
    rest = {name: value for name, value in asked.items() if name not in ("only", "provider")}
    return line(command, {**rest, "only": [str(row) for row in missing]})


def check_output(path: Path, name: str = "json") -> None:
    """Refuse a file that could not be written, before any work starts."""
    if str(path) == "-":
        raise UsageError(
            f"{flag(name)} names a file; '-' came: write /dev/stdout to have it printed"
        )
    if path.is_dir():
        raise UsageError(f"{flag(name)} names a file; {path} is a folder")
    if path.exists() and not path.is_file():
        return
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(f"{flag(name)} {path}: there is no folder {folder}; make it first")
    try:
        if path.exists():
            path.open("ab").close()
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise UsageError(f"{flag(name)} {path} cannot be written: {error.strerror}") from error


def write(path: Path, plain: Mapping[str, Any]) -> None:
    """Write JSON. A file is replaced at once, so that a reader never finds half of it."""
    text = json.dumps(plain, indent=1) + "\n"
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    half = path.with_name(f".{path.name}.{os.getpid()}.half")
    half.write_text(text, encoding="utf-8")
    half.replace(path)
