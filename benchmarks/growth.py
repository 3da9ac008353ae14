"""What a training step takes as its program grows: in nodes, in parameters, in examples.

Each point is a whole step of a perceptron, as `python -m benchmarks engines` times it. One curve
has more and more narrow layers, one a wider and wider layer, one a larger and larger batch.
`docs/pictures/growth.svg` draws a file of these rows (`python -m tools.generate_growth`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from benchmarks import engines
from benchmarks.report import Row, environment, refused, save, show, version
from benchmarks.works import Work, jax_mlp, layers

DEPTHS = (1, 2, 4, 8, 16, 32)
WIDTHS = (64, 128, 256, 512, 1024, 2048)
BATCHES = (8, 32, 128, 512, 2048)

NAMES = ("eager tape", "inductor")
"""The engines that are timed if none is named; torch eager is timed beside each."""

LAYER, LAST = 2, 2
"""The nodes of a hidden layer, and of the last one with the loss."""


def perceptron(name: str, width: int, depth: int, batch: int) -> Work:
    """A work with so many hidden layers of a width, on 64 features."""
    shapes: list[tuple[int, ...]] = [(width, 64), (width,)]
    shapes += [(width, width), (width,)] * (depth - 1)
    shapes += [(10, width), (10,)]
    theirs = partial(layers, functional)
    return Work(name, layers, theirs, jax_mlp, tuple(shapes), batch, 64)


def parameters(work: Work) -> int:
    """Count the numbers that a work trains."""
    return sum(int(torch.Size(shape).numel()) for shape in work.shapes)


def points(curve: str) -> list[tuple[int, Work]]:
    """Return where a curve is measured, and on what, the smallest first."""
    if curve == "nodes":
        deep = [(LAYER * n + LAST, perceptron(f"{n} hidden of 64", 64, n, 32)) for n in DEPTHS]
        return deep
    if curve == "parameters":
        wide = [perceptron(f"1 hidden of {width}", width, 1, 32) for width in WIDTHS]
        return [(parameters(work), work) for work in wide]
    return [(batch, perceptron(f"a batch of {batch}", 128, 1, batch)) for batch in BATCHES]


CURVES = ("nodes", "parameters", "batch")


def main(
    path: Path | None, pairs: int, curves: Sequence[str], names: Sequence[str], most: int | None
) -> int:
    """Time the points of these curves by these engines, all where none are named; print rows.

    `most` takes only so many points of a curve, the least. A name that is not known is refused
    with exit code 2.
    """
    if refused(("curves", curves, CURVES), ("engines", names, engines.ENGINES)):
        return 2
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    about = {**environment("cpu"), "jax": version("jax")}
    results: dict[str, Any] = {"schema": 1, "environment": about, "rows": []}
    for row in rows(pairs, curves or CURVES, names or NAMES, most):
        show(row)
        results["rows"].append(row)
        if path is not None:
            save(path, results)
    return 0


def rows(
    pairs: int, curves: Sequence[str], names: Sequence[str], most: int | None,
    many: int = engines.RUNS,
) -> Iterator[Row]:  # fmt: skip
    """One row for each point and engine, which says where on which curve it is."""
    for curve in curves:
        for at, work in points(curve)[:most]:
            for row in engines.rows(work, pairs, names, many):
                yield {**row, "curve": curve, "at": at}
