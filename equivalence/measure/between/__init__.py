"""What happens between the steps of an optimizer: events, and steps of other handles."""
