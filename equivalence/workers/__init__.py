"""Worker processes and the notes that they leave; runs, trainings, sessions and commands enter."""
