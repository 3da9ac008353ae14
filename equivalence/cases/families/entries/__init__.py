"""Ops that act entry by entry, and those that draw; the table of families enters."""
