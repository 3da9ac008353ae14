"""What losses share, by what they score; pages of losses enter here."""
