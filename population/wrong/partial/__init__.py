"""Wrong implementations of a part of an op, and those that hide by refusing; the matrix enters."""
