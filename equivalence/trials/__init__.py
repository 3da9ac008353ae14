"""The laws of pages, and the trial by them before a page judges; runs and the command line enter.

A page of the book has been tried by its tests. One that a caller registers has not.
"""
