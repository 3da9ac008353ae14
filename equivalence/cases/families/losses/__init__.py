"""Losses; the table of families enters."""
