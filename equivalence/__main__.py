"""Run the command line: ``python -m equivalence``."""

from __future__ import annotations

import sys

from equivalence.cli import main

if __name__ == "__main__":
    sys.exit(main())
