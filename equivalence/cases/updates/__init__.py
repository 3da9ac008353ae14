"""Cases of optimizers: what is stepped, with what numbers, and what happens between the steps."""
