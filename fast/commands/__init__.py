"""The command line of training; only `__main__` enters."""
