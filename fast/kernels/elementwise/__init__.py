"""What acts entry by entry: engine, functions, random words; kernels, pages and sessions enter."""
