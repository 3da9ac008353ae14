"""Worlds of many scalars at once, for real sizes; who judges large cases enters."""
