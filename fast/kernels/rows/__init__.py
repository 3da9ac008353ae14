"""What runs along an axis: tiles of rows, sums of any axes, scans; pages enter here, and losses."""
