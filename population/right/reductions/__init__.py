"""Right reductions."""
