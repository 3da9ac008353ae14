"""Which instructions the processor of this machine has.

A library may choose another kernel on another processor, and differ from the reference in another
way there. A finding then names the instructions that it needs, or those that must be missing.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_LISTED = Path("/proc/cpuinfo")
"""Where Linux lists a processor's instructions: after "flags", and on ARM after "Features"."""

WITHOUT = "no "
"""What stands before the name of instructions that must be missing."""


@cache
def instructions() -> frozenset[str]:
    """Return the names of the processor's instructions, as Linux lists them; elsewhere none."""
    if not _LISTED.exists():
        return frozenset()
    listed = (line.partition(":") for line in _LISTED.read_text(encoding="utf-8").splitlines())
    return frozenset(
        name
        for key, _, names in listed
        if key.strip() in ("flags", "Features")
        for name in names.split()
    )


def has(named: str) -> bool:
    """Say whether the processor has instructions, such as "avx512f", or lacks "no avx512f"."""
    if named.startswith(WITHOUT):
        return named.removeprefix(WITHOUT) not in instructions()
    return named in instructions()
