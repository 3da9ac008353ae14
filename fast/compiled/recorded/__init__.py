"""A program as it was recorded: its calls, planned once, and what a call of it is given."""
