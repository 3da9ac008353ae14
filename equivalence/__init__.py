"""The judge: cases drawn from the pages, budgets that follow from arithmetic, element by element.

Start at `python -m equivalence run --help`.
To have your own kernels judged, read docs/backends.md.
"""

from __future__ import annotations

import importlib.abc
import sys
from typing import Final

ROOMS = (
    "dtypes",
    "conventions",
    "cases",
    "worlds",
    "budgets",
    "backends",
    "measure",
    "workers",
    "exact",
    "runs",
    "races",
    "sessions",
    "training",
    "population",
    "cli",
    "__main__",
)
"""The reading order, which the house rules check: a file imports only what stands before it."""


class _Moved(importlib.abc.MetaPathFinder):
    """Refuses the paths by which modules were imported before there were rooms.

    It is asked last, for what no file answers. Its error names no module, as the import system
    swallows one that does, where `from equivalence import contract` looks for a submodule.
    """

    PATHS: Final = {
        "equivalence.contract": "equivalence.worlds.contract",
        "equivalence.declared": "equivalence.budgets.declared",
        "equivalence.run": "equivalence.runs.run",
    }

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Name the new path of a module that moved; of others it knows nothing."""
        if fullname in self.PATHS:
            new = self.PATHS[fullname]
            raise ModuleNotFoundError(f"{fullname} is {new} now: write {new} in the import")


sys.meta_path.append(_Moved())
