"""Run the command line: ``python -m population``."""

from __future__ import annotations

import sys

from population.command import main

if __name__ == "__main__":
    sys.exit(main())
