"""What a failing case shows of its cause: the measures of this room enter, to tell a reader."""
