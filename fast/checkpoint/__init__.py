"""Files that outlive a process, and torch's own form of state; training loops enter."""

from fast.checkpoint.files import load, save

__all__ = ["load", "save"]
