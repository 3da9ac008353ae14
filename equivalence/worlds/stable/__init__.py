"""What a stable contract allows beside the steps of a page; the worlds may enter."""
