"""The executor: processes, limits, notes, questions; runs, trainings, sessions, commands enter."""
