"""How triton runs here, storage with one owner, and the ways in and out; every room may enter."""
