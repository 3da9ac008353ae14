"""Products of matrices; the table of families enters."""
