"""What kernels and their hosts are made of, and the record of a page; `ops` and `optim` enter."""
