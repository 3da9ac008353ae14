"""One call, or one step of an optimizer, made and judged; runs and trainings enter."""
