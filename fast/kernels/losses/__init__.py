"""What the kernels of losses share, of pairs and of labels; the pages of losses enter."""
