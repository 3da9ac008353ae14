"""What a training loop of one's own needs beside a session; loops enter, from outside too.

Batches in an order that a seed decides, metrics in a file, an early stop, a stop where numbers are
no longer finite, and curves as a picture. Each is usable alone; docs/training.md shows a loop.
"""

from fast.loops.curves import plot_curves
from fast.loops.data import Batches
from fast.loops.metrics import Csv, JsonLines, TensorBoard
from fast.loops.stops import Diverged, EarlyStop, check_finite, check_loss

__all__ = [
    "Batches",
    "Csv",
    "Diverged",
    "EarlyStop",
    "JsonLines",
    "TensorBoard",
    "check_finite",
    "check_loss",
    "plot_curves",
]
