"""What torch's Inductor does otherwise here: mended, quicker, or written down otherwise."""
