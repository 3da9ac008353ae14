"""The folder of a training run: metrics as JSON lines, the loss curve as PNG, the parameters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import save

from fast.disk.atomic import replace
from fast.errors import Rejected

METRICS = "metrics.jsonl"


def prepare(folder: Path, overwrite: bool) -> None:
    """Make the folder of a run, or refuse one that already holds something."""
    if folder.exists() and not folder.is_dir():
        raise Rejected(f"train: --out names a folder, and {folder} is a file")
    if folder.exists() and any(folder.iterdir()):
        if not overwrite:
            raise Rejected(
                f"train: {folder} already holds a run; name another folder, or add --overwrite"
            )
        _remove_run(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / METRICS).touch()
    except OSError as error:
        raise Rejected(f"train: --out {folder} cannot be written: {error}") from error


def _remove_run(folder: Path) -> None:
    """Remove the files that a run writes, and nothing else."""
    for pattern in (METRICS, "loss.png", "parameters.safetensors", "steps/manifest.json"):
        (folder / pattern).unlink(missing_ok=True)
    for step in folder.glob("steps/step-*.safetensors"):
        step.unlink()


def save_parameters(folder: Path, values: dict[str, np.ndarray]) -> None:
    """Write parameters and buffers by name."""
    replace(folder / "parameters.safetensors", save(values))
