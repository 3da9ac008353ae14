"""Programs recorded once and replayed; trainers and the command line enter."""

from fast.compiled.recorded.inputs import Indices
from fast.compiled.session import CompiledSession

__all__ = ["CompiledSession", "Indices"]
