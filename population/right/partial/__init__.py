"""Right implementations of a part of an op; the matrix enters."""
