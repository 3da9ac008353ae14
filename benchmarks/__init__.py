"""Measurements side by side: `python -m benchmarks cpu` and `python -m benchmarks gpu`."""
