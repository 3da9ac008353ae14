"""Our pages compiled by torch's Inductor as a backend, and what it promises; the names enter."""
