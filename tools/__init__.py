"""What maintains the tree: generators of committed files, and the reader that house rules share."""
