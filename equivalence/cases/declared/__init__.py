"""Parts of ops that a backend declares to take; designs, backends and rows enter."""
