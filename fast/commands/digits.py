"""The images of the digits job: how they are split, and in which order they come.

The images are scikit-learn's bundled handwritten digits: 1797 of 8 x 8 pixels in 17 grey levels.
Grey levels are divided by 16, which is exact.
The held-out fifth is stratified and shuffled with seed 0; it was fixed before anything was tuned.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fast.errors import Rejected, Unavailable, extra

GREY_LEVELS = 16
SPLIT_SEED = 0

Arrays = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Split:
    """Training and test images [N, 64] in float32, with their labels [N] in int64."""

    train: Arrays
    test: Arrays


def check_libraries() -> None:
    """Refuse to begin without a library of the extra [data] that the end of a run needs."""
    for library in ("sklearn", "matplotlib", "tqdm"):
        if importlib.util.find_spec(library) is None:
            raise Unavailable(f"train digits needs {library}, which {extra('data')}")


def images() -> Arrays:
    """Load all images and labels from scikit-learn's package; nothing is downloaded."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return (bunch.data / GREY_LEVELS).astype(np.float32), bunch.target.astype(np.int64)


def held_out_fifth() -> Split:
    """Split off the stratified fifth on which the accuracy is reported."""
    from sklearn.model_selection import train_test_split

    x, y = images()
    parts = train_test_split(x, y, test_size=0.2, stratify=y, shuffle=True, random_state=SPLIT_SEED)
    return Split((parts[0], parts[2]), (parts[1], parts[3]))


def folds(count: int) -> Iterator[Split]:
    """Yield stratified folds of all images, each in turn the test set.

    Every fold has images of every class; fewer than 2 folds, or too many for that, are Rejected.
    """
    from sklearn.model_selection import StratifiedKFold

    x, y = images()
    most = int(np.bincount(y).min())
    if not 2 <= count <= most:
        raise Rejected(f"train: the number of folds is 0, or lies in [2, {most}], got {count}")
    kfold = StratifiedKFold(count, shuffle=True, random_state=SPLIT_SEED)
    for train, test in kfold.split(x, y):
        yield Split((x[train], y[train]), (x[test], y[test]))


def batches(count: int, size: int, epochs: int, seed: int) -> Iterator[np.ndarray]:
    """Yield index arrays of whole batches, reshuffled each epoch; a rest is left for the next."""
    draw = np.random.default_rng([seed, count])
    for _ in range(epochs):
        order = draw.permutation(count)
        for start in range(0, count - size + 1, size):
            yield order[start : start + size]
