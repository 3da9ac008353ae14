"""Scalars of which some may not be finite, as sets; budgets and measure may enter."""
