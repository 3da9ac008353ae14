"""Wrong pointwise ops, a file for each kind of formula; the registry may enter."""
