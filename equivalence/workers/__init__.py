"""The executor: processes, time limits, notes, questions; runs, trainings and commands enter."""
