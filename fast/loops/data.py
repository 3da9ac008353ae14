"""Minibatches of arrays: each epoch in an order of its own, which a seed decides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor

from fast.answers import telling
from fast.errors import Rejected


@telling
class Batches:
    """Batches of arrays or tensors that belong together, such as inputs and labels.

    An epoch reads every row once, shuffled unless told otherwise; rows that fill no whole batch are
    left out, or are a smaller batch where `rest` says so. The order of an epoch follows from the
    seed, the number of rows and the number of the epoch, and from nothing else: a run that is
    resumed draws the same, and `start` says from which step of it.
    """

    def __init__(
        self, *arrays: Any, size: int, seed: int = 0, shuffle: bool = True, rest: bool = False
    ) -> None:
        """Hold arrays with one number of rows; batches have `size` of them.

        Rejected are no arrays, arrays without axes or of several lengths, a size that no batch can
        have, and a seed below 0.
        """
        lengths = [_rows(array) for array in arrays]
        if len(set(lengths)) != 1:
            raise Rejected(f"Batches: arrays have one number of rows, got {lengths or 'no array'}")
        [count] = set(lengths)
        for name, value, least in (("size", size, 1), ("seed", seed, 0)):
            if type(value) is not int or value < least:
                raise Rejected(f"Batches: {name} is an int >= {least}, got {value!r}")
        if size > count and not (rest and count):
            raise Rejected(f"Batches: size is at most the {count} rows, got {size}")
        self.arrays, self.size, self.count = arrays, size, count
        self.seed, self.shuffle, self.rest = seed, shuffle, rest

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return -(-self.count // self.size) if self.rest else self.count // self.size

    def epoch(self, number: int) -> Iterator[list[Any]]:
        """Yield the batches of an epoch, counted from 0: one part of each array, in their order."""
        if type(number) is not int or number < 0:
            raise Rejected(f"Batches: an epoch is an int >= 0, got {number!r}")
        return self._epoch(number)

    def steps(self, epochs: int, start: int = 0) -> Iterator[tuple[int, int, list[Any]]]:
        """Yield (step, epoch, batch) of so many epochs, both counted from 0.

        A run of which `start` steps have been taken goes on there: those before are left out.
        """
        for name, value in (("epochs", epochs), ("start", start)):
            if type(value) is not int or value < 0:
                raise Rejected(f"Batches: {name} is an int >= 0, got {value!r}")
        return self._steps(epochs, start)

    def _epoch(self, number: int, skipped: int = 0) -> Iterator[list[Any]]:
        order = np.arange(self.count)
        if self.shuffle:
            order = np.random.default_rng([self.seed, self.count, number]).permutation(order)
        for k in range(skipped, len(self)):
            rows = order[k * self.size : (k + 1) * self.size]
            yield [array[rows] for array in self.arrays]

    def _steps(self, epochs: int, start: int) -> Iterator[tuple[int, int, list[Any]]]:
        first, skipped = divmod(start, len(self))
        for epoch in range(first, epochs):
            before = skipped if epoch == first else 0
            for k, batch in enumerate(self._epoch(epoch, before), epoch * len(self) + before):
                yield k, epoch, batch


def _rows(array: Any) -> int:
    if not isinstance(array, (np.ndarray, Tensor)) or not array.shape:
        came = type(array).__name__
        raise Rejected(f"Batches: arrays of NumPy or torch's tensors, with rows; got {came}")
    return int(array.shape[0])
