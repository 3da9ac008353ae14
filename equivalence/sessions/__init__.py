"""Sessions of `fast` beside the reference, in fixed and in drawn runs; those who test us enter."""
