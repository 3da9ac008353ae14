"""The population: implementations known to be wrong or right; only the command line may enter.

Each is one function, and is judged like a stranger's. A suite that passes a wrong one is blind, and
one that refuses a right one cries wolf; `python -m equivalence matrix` counts both, beside what
other people's checks make of the same code.
"""
