"""What a training run writes: metrics as JSON lines, the loss curve as PNG, and the parameters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from safetensors.numpy import save_file

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


class Metrics:
    """A file of JSON lines, each written as it happens, so an interrupted run keeps its own."""

    def __init__(self, folder: Path) -> None:
        """Open metrics.jsonl in the folder of the run."""
        self._file = (folder / METRICS).open("w", encoding="utf-8")

    def write(self, **row: Any) -> None:
        """Write one line."""
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()

    def __enter__(self) -> Metrics:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()


def save_parameters(folder: Path, parameters: dict[str, np.ndarray]) -> None:
    """Write the parameters by name."""
    save_file(parameters, folder / "parameters.safetensors")


def plot_losses(folder: Path, losses: Sequence[float], window: int, before: int = 0) -> None:
    """Draw the loss of each step, and its mean over a window, against the number of the step.

    The first loss is that of the step after `before`.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    axes.semilogy(
        before + np.arange(len(losses)), losses, color="0.8", linewidth=0.8, label="each step"
    )
    if len(losses) >= window:
        mean = np.convolve(losses, np.full(window, 1 / window), mode="valid")
        steps = before + np.arange(window - 1, len(losses))
        axes.semilogy(steps, mean, color="C0", label=f"mean over {window} steps")
    axes.set(xlabel="step", ylabel="mean cross-entropy", title="Handwritten digits, training loss")
    axes.legend()
    figure.savefig(folder / "loss.png", dpi=120)
    pyplot.close(figure)
