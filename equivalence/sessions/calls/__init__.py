"""Calls of recorded programs, in any order with passes, updates and writes between them."""
