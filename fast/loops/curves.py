"""Curves of a run as a picture, by matplotlib (the extra [data])."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fast.errors import Rejected, Unavailable, extra

Curve = Sequence[float] | tuple[Sequence[float], Sequence[float]]
"""Values at the steps 0, 1, 2, ..., or a tuple of the steps and the values."""


def plot_curves(
    path: str | os.PathLike[str],
    curves: Mapping[str, Curve],
    *,
    title: str = "",
    xlabel: str = "step",
    ylabel: str = "loss",
    logarithmic: bool = True,
    window: int = 1,
) -> None:
    """Draw curves by name into a picture; the file's ending says which format it is.

    With a window above 1, each curve is drawn pale, and its mean over so many values in colour.
    Without matplotlib, Unavailable is raised; a curve whose steps and values differ in number, a
    window below 1, and a file that cannot be written, are Rejected.
    """
    if type(window) is not int or window < 1:
        raise Rejected(f"plot_curves: window is an int >= 1, got {window!r}")
    read = {name: _read(name, curve) for name, curve in curves.items()}
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Unavailable(f"plot_curves needs matplotlib, which {extra('data')}") from error
    figure: Any = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    if logarithmic:
        axes.set_yscale("log")
    for k, (name, (steps, values)) in enumerate(read.items()):
        if window > 1 and len(values) >= window:
            axes.plot(steps, values, color=f"C{k}", alpha=0.25, linewidth=0.8)
            mean = np.convolve(values, np.full(window, 1 / window), mode="valid")
            axes.plot(steps[window - 1 :], mean, color=f"C{k}", label=f"{name}, mean of {window}")
        else:
            axes.plot(steps, values, color=f"C{k}", label=name)
    axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
    axes.legend()
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise Rejected(f"plot_curves: {path} cannot be written: {error}") from error


def _read(name: str, curve: Curve) -> tuple[Any, Any]:
    steps, values = curve if isinstance(curve, tuple) else (range(len(curve)), curve)
    if len(steps) != len(values):
        raise Rejected(f"plot_curves: {name!r} has {len(steps)} steps and {len(values)} values")
    return np.asarray(steps), np.asarray(values, dtype=float)
