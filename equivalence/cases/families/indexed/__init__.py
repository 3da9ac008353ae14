"""Ops that read or write at positions; the table of families enters."""
