"""Ops that move whole axes; the table of families enters."""
