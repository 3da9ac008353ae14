"""Asks git about a tree."""

from __future__ import annotations

import subprocess
from pathlib import Path


def said(root: Path, *arguments: str) -> str:
    """What a git command says in a tree; nothing where it fails, as without history."""
    command = ["git", "-C", str(root), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
