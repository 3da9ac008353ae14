"""Kernels compiled ahead of time, and what their binaries say; `__main__` and judges enter."""
