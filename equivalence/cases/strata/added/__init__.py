"""Cases that a rule adds to the design of every row. The fixed cases of a row enter."""
