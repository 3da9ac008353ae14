"""Textual patches on the sources of `fast`, applied to a copy, never to the tree itself."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from tools.tree import ROOT


class StalePatch(ValueError):
    """A patch no longer says where it belongs; the message says what to do."""


@dataclass(frozen=True)
class Patch:
    """One change of one file, given by a text that occurs in it exactly once."""

    name: str
    file: str
    before: str
    after: str

    def patched(self, source: str) -> str:
        """Return a file's text with the change made, or refuse if its place is not clear."""
        found = source.count(self.before)
        if found != 1:
            raise StalePatch(
                f"{self.name!r} replaces a text that must occur once in {self.file} and occurs "
                f"{found} times: bring its `before` up to date, or the suite loses this check\n"
                f"{self.before}"
            )
        return source.replace(self.before, self.after)

    def diff(self) -> list[str]:
        """Return the lines of the change, marked by - and +, all others by a blank."""
        lines = unified_diff(_dedented(self.before), _dedented(self.after), lineterm="", n=9)
        return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


@dataclass(frozen=True)
class Mutant(Patch):
    """One bug, what must catch it, the words by which, and the class of real bug it stands for."""

    catcher: str
    shows: str
    why: str


def _dedented(text: str) -> list[str]:
    lines = text.rstrip().splitlines()
    margin = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
    return [line[margin:] if line[:margin].isspace() else line for line in lines]


def copy_of_fast(folder: Path, patch: Patch | None = None) -> Path:
    """Copy `fast` into a folder, changed by a patch, and return the folder to import it from."""
    shutil.copytree(ROOT / "fast", folder / "fast", ignore=shutil.ignore_patterns("__pycache__"))
    if patch is not None:
        path = folder / patch.file
        path.write_text(patch.patched(path.read_text(encoding="utf-8")), encoding="utf-8")
    return folder
