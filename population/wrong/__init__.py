"""Wrong implementations, a file for each family; the registry alone may enter.

Each has one mistake, most of them of a class that has reached users. The first line of its
docstring says what is wrong.
"""
