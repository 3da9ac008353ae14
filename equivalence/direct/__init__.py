"""What one's own Python calls: an assertion, a case once more, a page's checks; cli may enter."""
