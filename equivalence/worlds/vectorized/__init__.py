"""Vectorised scalars, for real sizes; who judges large cases enters."""
