"""What is allowed and what was found, element by element; all who judge enter."""
