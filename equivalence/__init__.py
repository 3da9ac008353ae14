"""The judge: cases drawn from the pages, budgets that follow from arithmetic, element by element.

Start at `python -m equivalence run --help`.
To have your own kernels judged, read docs/backends.md.
"""
