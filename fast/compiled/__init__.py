"""Programs recorded once and replayed; trainers and the command line enter."""

from fast.compiled.session import CompiledSession, Indices

__all__ = ["CompiledSession", "Indices"]
