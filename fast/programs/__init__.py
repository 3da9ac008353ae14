"""Running a program for somebody else; `autodiff`, `train` and the command line enter."""
