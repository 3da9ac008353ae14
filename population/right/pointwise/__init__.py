"""Right pointwise ops by other formulas, a file for each kind; the registry may enter."""
