"""The judge: cases drawn from the pages, budgets derived from the arithmetic, a verdict per element.

Start at `python -m equivalence run --help`; docs/backends.md says how to have your own kernels judged.
"""
