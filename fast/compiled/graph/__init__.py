"""Whole steps as CUDA graphs, from the kernels of a replay; sessions that capture enter."""
