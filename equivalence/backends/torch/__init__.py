"""Torch: how it computes, and torch as a backend; who declares torch's arithmetic enters."""
