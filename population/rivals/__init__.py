"""Other people's checks, with their tolerances, and the calls that they make; the matrix enters."""
