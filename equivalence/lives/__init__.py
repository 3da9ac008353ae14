"""Whole lives of a session, on both sides at once; the command line enters."""
