"""Ops that act along an axis; the table of families enters."""
