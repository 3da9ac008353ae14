"""The parts of a row: questions, cases, declared findings, what it learned; runners enter."""
