"""What runs along axes: moves, sums, rows, softmaxes; pages enter, and indexing and losses."""
