"""Rows of cases for one backend: drawn, judged, recorded, reported; the command line enters."""
