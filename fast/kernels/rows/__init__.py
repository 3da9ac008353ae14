"""What runs along axes: moves, sums of any axes, rows; pages enter, and indexing and losses."""
