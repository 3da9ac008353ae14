"""Steps below a failing case: other extents and fewer axes; the shrinker enters."""
