"""Ops that cut, join and pad tensors; the table of families enters."""
