"""The profile of real sizes: a row's large cases, all of them, and nothing else."""

from __future__ import annotations

from typing import Any

from equivalence.runs.kinds import sized_kind
from equivalence.runs.results import Row, RowResult
from equivalence.runs.runner import RowRunner, supported

SIZES = "sizes"
"""The name of the profile."""


class SizedRunner(RowRunner):
    """Runs the large cases of one row of one backend."""

    def _questions(self) -> None:
        """Ask the fixed cases of the row's kind, all of them."""
        self._cases("values", self.kind.fixed())


def run_sized_row(backend: Any, row: Row, **options: Any) -> RowResult:
    """Run the large cases of a row; what the backend does not support is said so."""
    capabilities = backend.capabilities()
    if not supported(capabilities, row):
        return RowResult(row, "unsupported", ring=capabilities.ring)
    kind = sized_kind(row, backend)
    return SizedRunner(backend, row, kind=kind, oracle=False, **options).run()
