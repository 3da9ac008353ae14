"""Wrong normalizers, a file for each; the registry alone may enter."""
