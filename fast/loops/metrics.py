"""Metrics of a run, row by row, in a file: JSON lines, CSV, or TensorBoard's own format.

A row is numbers and texts by name. It is on its way to the disk when `write` returns, so that a run
which is killed keeps what it had.
"""

from __future__ import annotations

import csv
import json
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self, TextIO

from fast.errors import Rejected, Unavailable, extra

File = str | os.PathLike[str]


class _Closed(ABC):
    """What is closed at the end of a `with`, or by `close`."""

    @abstractmethod
    def close(self) -> None:
        """Close it; a second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Written(_Closed):
    """A file of rows."""

    NEWLINE: str | None = None
    """What `open` takes for the ends of lines."""

    def __init__(self, path: File, append: bool = False) -> None:
        """Open a file anew, or at its end where a run goes on; what cannot be is Rejected."""
        self.path = Path(path)
        try:
            self._file: TextIO = self.path.open(
                "a" if append else "w", encoding="utf-8", newline=self.NEWLINE
            )
        except OSError as error:
            raise Rejected(f"metrics: {path} cannot be written: {error}") from error

    def close(self) -> None:
        """Close the file; rows that come later are refused."""
        self._file.close()

    def _open(self) -> TextIO:
        if self._file.closed:
            raise Rejected(f"metrics: {self.path} was closed; no row can be written to it")
        return self._file


class JsonLines(_Written):
    """A file with a JSON object for each row; rows may have different names."""

    def write(self, **row: Any) -> None:
        """Write one row; what JSON has no word for is Rejected, and nothing is written."""
        file = self._open()
        try:
            line = json.dumps({name: _plain(value) for name, value in row.items()})
        except TypeError as error:
            raise Rejected(f"metrics: a row holds numbers and texts: {error}") from error
        file.write(line + "\n")
        file.flush()


class Csv(_Written):
    """A file of comma-separated values: the first row's names are the columns, and stay them."""

    NEWLINE = ""

    def __init__(self, path: File, append: bool = False) -> None:
        """Open a file anew, or at its end: then the columns are those that it has."""
        self._columns: list[str] = []
        if append and Path(path).is_file():
            with Path(path).open(encoding="utf-8", newline="") as file:
                self._columns = next(csv.reader(file), [])
        super().__init__(path, append)

    def write(self, **row: Any) -> None:
        """Write one row; a name that is no column is Rejected, one that is missing stays empty."""
        file = self._open()
        strange = [name for name in row if self._columns and name not in self._columns]
        if strange:
            columns = ", ".join(self._columns)
            raise Rejected(f"metrics: {strange[0]!r} is no column of {self.path}; got {columns}")
        writer = csv.DictWriter(file, self._columns or list(row))
        if not self._columns:
            self._columns = list(row)
            writer.writeheader()
        writer.writerow({name: _plain(value) for name, value in row.items()})
        file.flush()


class TensorBoard(_Closed):
    """A folder of TensorBoard's events, written by its own writer (the extra [tensorboard])."""

    def __init__(self, folder: File) -> None:
        """Open a writer in a folder; without the library, Unavailable is raised."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise Unavailable(
                f"TensorBoard needs tensorboard, which {extra('tensorboard')}"
            ) from error
        self._writer: Any = SummaryWriter(os.fspath(folder))

    def write(self, step: int, **row: Any) -> None:
        """Write the numbers of one row at a step, each as a curve of its name."""
        for name, value in row.items():
            self._writer.add_scalar(name, float(value), step)
        self._writer.flush()

    def close(self) -> None:
        """Close the writer."""
        self._writer.close()


def _plain(value: Any) -> Any:
    """Return a number of NumPy, or a tensor of one entry, as a number of Python."""
    return value.item() if hasattr(value, "item") and not isinstance(value, str) else value
