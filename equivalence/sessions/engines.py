"""Engines that compile recorded programs, judged where they are asked for: `--engine`."""

from __future__ import annotations

from fast.compiled.session import ENGINES as ALL

ENGINES = tuple(engine for engine in ALL if engine != "replay")
"""All but the one that runs what the eager session runs, which is an interpreter of its own."""
