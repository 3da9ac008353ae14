"""Stateful tests of a session: its model, statements and rules; programs and rows enter."""
