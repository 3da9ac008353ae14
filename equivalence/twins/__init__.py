"""One program on both sides at once; trainings, lives and the command line enter."""
