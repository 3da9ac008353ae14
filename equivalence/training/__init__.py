"""The steps that a training recorded, judged afterwards; the command line enters."""
