"""Right ones that treat long rows, orders of axes or calls before in another way."""
