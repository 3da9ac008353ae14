"""What is asked: calls, their numbers and layouts, drawn from pages; all who judge enter."""
