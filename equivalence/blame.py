"""Refusals: what cannot be done, in one sentence, and whose line it was.

A backend, a module of pages, a contract, a form or a recorded run may raise anything, and Python's
traceback of it shows mostly our own frames. `blaming` says instead what was asked, what was raised,
and the last line of the caller's own code.
"""

from __future__ import annotations

import importlib
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

OURS = tuple(Path(__file__).resolve().parents[1] / name for name in ("equivalence", "fast", "spec"))
"""The folders of the judge, the kernels and the reference."""

PYTHON = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))
"""The folders of Python's own library; what is installed lies in one of them."""


class Refused(ValueError):
    """A command or a call cannot do what it is asked to; the message says why.

    Every command ends with exit code 2 on it, and prints the message alone.
    """


def raised(error: BaseException) -> str:
    """Say what was raised, and at which line of the caller's own code."""
    said = " ".join(str(error).split())
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    place = place_of(error)
    return f"{what} (at {place})" if place else what


def place_of(error: BaseException) -> str:
    """Return ``file:line`` of the last frame of the caller's own code.

    Without such a frame it is that of an installed library, and empty where there is none either.
    A file with a syntax error has no frame: its line is in the error.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_near(error.filename)}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_own(frame.filename)]
    installed = [
        frame
        for frame in frames
        if "site-packages" in frame.filename and not _inside(frame.filename, OURS)
    ]
    last = (own or installed)[-1:]
    return f"{_near(last[0].filename)}:{last[0].lineno}" if last else ""


def is_own(filename: str) -> bool:
    """Say whether a file is the caller's own: not of these packages, of Python or of a library."""
    return not _inside(filename, (*OURS, *PYTHON)) and not filename.startswith("<frozen")


def _inside(filename: str, folders: tuple[Path, ...]) -> bool:
    path = Path(filename).resolve()
    return any(path.is_relative_to(folder) for folder in folders)


def _near(filename: str) -> str:
    """Show a path as a reader in the working directory writes it."""
    path, here = Path(filename), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else filename


@contextmanager
def blaming(what: str, kind: type[Refused] = Refused) -> Iterator[None]:
    """Turn what a stranger's code raises into one sentence: ``WHAT raised ERROR (at FILE:LINE)``.

    What is refused already, and Ctrl-C, pass as they are. SystemExit does not: an import that ends
    the program would end it without a word.
    """
    try:
        yield
    except (KeyboardInterrupt, Refused):
        raise
    except (Exception, SystemExit) as error:
        raise kind(f"{what} raised {raised(error)}") from error


def imported(what: str, module: str, kind: type[Refused] = Refused) -> ModuleType:
    """Import a stranger's module; what says for whom, in the refusal of one that cannot be."""
    try:
        with blaming(f"{what}: importing {module}", kind):
            return importlib.import_module(module)
    except kind as refused:
        absent = getattr(refused.__cause__, "name", None)
        missing = isinstance(refused.__cause__, ModuleNotFoundError)
        if missing and f"{module}.".startswith(f"{absent}."):
            raise kind(f"{what}: there is no module {absent!r} to import") from refused
        raise
