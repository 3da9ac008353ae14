"""Right implementations that differ from the pages'; the registry alone may enter.

Each computes the same thing another way, as well as the page does. The first line of its docstring
says how it differs.
"""
