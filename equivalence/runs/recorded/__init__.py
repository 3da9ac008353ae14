"""Rows that were recorded, for a machine without the oracle: record_row and replay_row enter."""
