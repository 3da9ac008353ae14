"""Files replaced as a whole, locks, and what killed processes leave; every room may enter."""
