"""Worlds of scalars that need a library: balls, budgets, symbols, stand-ins; notes enter too.

Importing one of these modules registers its scalars with the open functions of `spec.scalar`, so
that every page of `spec` runs on them unchanged.
Nothing is imported here: a machine without python-flint can still replay recorded cases.
"""
