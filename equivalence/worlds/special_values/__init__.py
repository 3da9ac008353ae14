"""Sets of special values: scalars that may not be finite; budgets and measure may enter."""
