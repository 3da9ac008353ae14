"""Curves of a run as a picture, by matplotlib (the extra [data])."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from fast.answers import telling
from fast.errors import Rejected, Unavailable, extra
from fast.loops.plain import came, numbers

Row = Sequence[float] | np.ndarray[Any, Any] | Tensor
Curve = Row | Sequence[tuple[float, float]] | tuple[Row, Row]
"""Values at the steps 0, 1, 2, ..., a list of pairs (step, value), or a tuple (steps, values)."""

FORMS = (
    "a flat list, array or tensor of values, a list of pairs (step, value), "
    "or a tuple (steps, values) of two flat ones"
)


@telling
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

    A curve is a flat list, array or tensor of values, which lie at the steps 0, 1, 2, ...; a list
    of pairs (step, value); or a tuple (steps, values) of two flat ones. One without points is
    drawn as nothing. With a window above 1, each curve is drawn pale, and its mean over so many
    values in colour.

    Without matplotlib, Unavailable is raised; curves without names, what is no curve, one whose
    steps and values differ in number, a window below 1, and a file that cannot be written, are
    Rejected.
    """
    if not isinstance(curves, Mapping):
        raise Rejected(f"plot_curves: curves is a dict, of curves by name, got {came(curves)}")
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
    if read:
        axes.legend()
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise Rejected(f"plot_curves: {path} cannot be written: {error}") from error


def _read(name: str, curve: Any) -> tuple[Any, Any]:
    steps, values = map(numbers, _parts(curve))
    if steps is None or values is None:
        raise Rejected(f"plot_curves: the curve {name!r} is {FORMS}; got {came(curve)}")
    if len(steps) != len(values):
        raise Rejected(f"plot_curves: {name!r} has {len(steps)} steps and {len(values)} values")
    return np.asarray(steps, dtype=float), np.asarray(values, dtype=float)


def _parts(curve: Any) -> tuple[Any, Any]:
    """Return what should be the steps and the values of a curve; None stands for no form."""
    if isinstance(curve, tuple) and curve:
        # A tuple is never a row of values: one of two numbers would be taken for a pair.
        return curve if len(curve) == 2 else (None, None)
    if isinstance(curve, list) and curve and all(map(_is_pair, curve)):
        return [step for step, _ in curve], [value for _, value in curve]
    values = numbers(curve)
    return None if values is None else range(len(values)), values


def _is_pair(point: Any) -> bool:
    return isinstance(point, (list, tuple)) and len(point) == 2
