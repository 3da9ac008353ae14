"""Run the command line: ``python -m equivalence``."""

from __future__ import annotations

from equivalence.cli import main
from equivalence.cli.leave import leave

if __name__ == "__main__":
    leave(main)
