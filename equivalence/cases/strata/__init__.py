"""Fixed cases of a row, by a covering design. Rooms that run, count or trace cases enter."""
