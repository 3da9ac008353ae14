"""The command line: training, and kernels ahead of time; only `__main__` enters."""
