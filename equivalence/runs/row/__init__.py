"""The parts of a row: what it has seen, what it asks beside its cases, findings; runners enter."""
