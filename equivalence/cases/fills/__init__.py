"""The named ways in which a case fills a tensor with numbers. Rooms that draw cases enter."""
