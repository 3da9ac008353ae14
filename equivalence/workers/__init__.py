"""Worker processes and the notes that they leave; runs, trainings, lives and commands enter."""
