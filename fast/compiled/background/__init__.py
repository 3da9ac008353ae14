"""Compiles in other processes while a session goes on by replay; compiled sessions enter."""
