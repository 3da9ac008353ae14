"""Fixed cases of a row, by a covering design; those who run, count or trace cases enter."""
