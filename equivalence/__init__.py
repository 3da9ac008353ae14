"""The judge: cases drawn from the pages, budgets derived from the arithmetic, a verdict per element.

Start at `python -m equivalence run --help`.
To have your own kernels judged, read docs/backends.md.
"""
