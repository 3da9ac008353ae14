"""The worlds in which pages run, and what is allowed beside infinities; all who judge enter."""
