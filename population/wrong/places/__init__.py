"""Wrong ones whose mistake shows where numbers stand, how axes lie, or what came before."""
