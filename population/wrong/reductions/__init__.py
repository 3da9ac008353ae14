"""Wrong reductions."""
