"""The judge: cases drawn from the pages, budgets that follow from arithmetic, element by element.

Start at `python -m equivalence run --help`.
To have your own kernels judged, read docs/backends.md.
"""

ROOMS = (
    "dtypes",
    "cases",
    "worlds",
    "budgets",
    "backends",
    "measure",
    "twins",
    "runs",
    "training",
    "lives",
    "cli",
    "__main__",
)
"""The reading order, which the house rules check: a file imports only what stands before it."""
