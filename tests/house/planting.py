"""A copy of the tree in which pages are planted, as CONTRIBUTING says that one enters them.

The pages lie in `planted`, as they will lie in the copy: `planted/spec/ops/swoop.py` goes to
`spec/ops/swoop.py`, and is entered in the table of its folder. To plant another page, write its two
files there; everything else finds them by their names.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.tree import ROOT

PLANTED = ROOT / "tests" / "house" / "planted"

RECORDS = {
    ("spec", "ops"): "op",
    ("fast", "ops"): "op",
    ("spec", "optim"): "optimizer",
    ("fast", "optim"): "RULE",
}
"""By package and folder: the name of the record of a page."""


def planted(folder: str) -> list[str]:
    """Return the names of the planted pages of a folder, `ops` or `optim`."""
    return sorted(path.stem for path in (PLANTED / "spec" / folder).glob("*.py"))


class Copy:
    """A copy of the tree, in which pages may be written and commands run."""

    def __init__(self, root: Path) -> None:
        """Copy every file that git knows of."""
        self.root = root
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        for name in filter(None, listed.split("\0")):
            source, target = ROOT / name, root / name
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)

    def plant(self) -> None:
        """Copy the planted pages in, and enter each in the table of its folder."""
        for (package, folder), record in RECORDS.items():
            for page in sorted((PLANTED / package / folder).glob("*.py")):
                shutil.copyfile(page, self.root / package / folder / page.name)
                line = f"from {package}.{folder}.{page.stem} import {record} as _{page.stem}"
                enter(self.root / package / folder / "__init__.py", line, f"_{page.stem}")
            tables = str(Path(package, folder, "__init__.py"))
            self.run("-m", "ruff", "check", "--quiet", "--select", "I", "--fix", tables)
            self.run("-m", "ruff", "format", "--quiet", tables)

    def run(self, *command: str) -> str:
        """Run Python in the copy and return what it printed; what fails, fails the test."""
        environment = {**os.environ, "PYTHONPATH": str(self.root), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.root, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"{' '.join(command)} exits {done.returncode}:\n{said[-8000:]}"
        return said

    def git(self, *command: str) -> str:
        """Run git in the copy."""
        return git(self.root, *command)


def git(root: Path, *command: str) -> str:
    """Run git in a folder, by nobody's settings."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    known = ("-c", "user.name=planted", "-c", "user.email=planted@localhost")
    done = subprocess.run(
        ["git", *known, *command],
        cwd=root, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout


def enter(table: Path, line: str, name: str) -> None:
    """Enter a page in a table: an import, and a name at the end of the one `for`."""
    text = table.read_text(encoding="utf-8")
    entered, count = re.subn(r"( for \w+ in \([^)]*?),?(\s*)\)", rf"\1, {name}\2)", text)
    assert count == 1, f"{table} has {count} tables"
    first = "from __future__ import annotations\n\n"
    table.write_text(entered.replace(first, f"{first}{line}\n", 1), encoding="utf-8")
