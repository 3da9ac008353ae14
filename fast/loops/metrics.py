"""Metrics of a run, row by row, in a file: JSON lines, CSV, or TensorBoard's own format.

A row is numbers, truth values, texts and None by name; a tensor or an array of one entry is a
number. It is on its way to the disk when `write` returns, so that a run which is killed keeps what
it had.
"""

from __future__ import annotations

import csv
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn, Self, TextIO, cast

from fast.answers import telling
from fast.device.integers import is_number
from fast.disk.atomic import replace, set_aside
from fast.errors import Rejected, Unavailable, extra
from fast.loops.plain import came, entry, number, numbers

File = str | os.PathLike[str]
Cell = int | float | str | None
"""What a file has a word for; a truth value is an int."""

SINGLE = "a number, a truth value, a text or None"


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

    def __init__(self, path: File, append: bool = False, before: int | None = None) -> None:
        """Open a file anew, or with `append` at its end, where a run goes on.

        Opened anew, a file that holds something stays as PATH.1, in the place of an older PATH.1.
        A run that goes on at a step takes it again, with those after it. `before` is that step:
        rows whose "step" is at or above it are removed first, with a last line that has no end,
        and rows without a step that come after the first one removed. The file is replaced as a
        whole. A `before` that is below 0, or above 0 without `append`, is Rejected, and so is a
        file that cannot be written.
        """
        self.path = Path(path)
        if before is not None and (type(before) is not int or before < 0):
            raise Rejected(f"metrics: before is an int >= 0 or None, got {before!r}")
        if before and not append:
            raise Rejected(f"metrics: before={before} is of a file that goes on; add append=True")
        try:
            if not append:
                set_aside(self.path)
            elif self.path.is_file():
                self._go_on(before)
            self._file: TextIO = self._opened("a" if append else "w")
        except Rejected as error:
            raise Rejected(f"metrics: {path}: {error}") from error
        except (OSError, csv.Error) as error:
            raise Rejected(f"metrics: {path} cannot be written: {error}") from error

    def close(self) -> None:
        """Close the file; rows that come later are refused."""
        self._file.close()

    def _opened(self, mode: str) -> TextIO:
        # A character of which a killed run has written a part is read, too, and written as it was.
        errors = "surrogateescape" if mode == "r" else None
        file = self.path.open(mode, encoding="utf-8", errors=errors, newline=self.NEWLINE)
        return cast("TextIO", file)

    def _open(self) -> TextIO:
        if self._file.closed:
            raise Rejected(f"metrics: {self.path} was closed; no row can be written to it")
        return self._file

    def _go_on(self, before: int | None) -> None:
        """Prepare to go on with the file that is there."""
        if before is None:
            return
        with self._opened("r") as file:
            lines = list(file)
        kept = "".join(_kept(self._rows(lines), before))
        if kept != "".join(lines):
            ends = os.linesep if self.NEWLINE is None else "\n"
            text = kept.replace("\n", ends)
            replace(self.path, text.encode("utf-8", errors="surrogateescape"))

    @abstractmethod
    def _rows(self, lines: Iterable[str]) -> Iterator[tuple[str, Any]]:
        """Yield the text of each row, and what stands there as its step."""


def _kept(rows: Iterable[tuple[str, Any]], before: int) -> Iterator[str]:
    """Yield the texts of the rows that belong to the steps before one."""
    removed = False
    for text, step in rows:
        stays = step < before if is_number(step) else not removed
        removed |= not stays
        if stays and text.endswith("\n"):
            yield text


@telling
class JsonLines(_Written):
    """A file with a JSON object for each row; rows may have different names."""

    def write(self, **row: Any) -> None:
        """Write one row; flat lists, arrays and tensors of numbers are lists in it.

        A number that is not finite, which JSON has no word for, is null. What else it has no word
        for is Rejected, and nothing is written.
        """
        file = self._open()
        found = {name: self._value(name, value) for name, value in row.items()}
        file.write(json.dumps(found, allow_nan=False) + "\n")
        file.flush()

    def _value(self, name: str, value: Any) -> Cell | list[Cell]:
        one = entry(value)
        if _is_single(one):
            return _finite(_plain(one))
        several = numbers(value)
        if several is None:
            _refuse(name, f"{SINGLE}, or a flat list, array or tensor of numbers", value)
        return [_finite(one) for one in several]

    def _rows(self, lines: Iterable[str]) -> Iterator[tuple[str, Any]]:
        for line in lines:
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            yield line, row.get("step") if isinstance(row, dict) else None


@telling
class Csv(_Written):
    """A file of comma-separated values: the first row's names are the columns, and stay them."""

    NEWLINE = ""

    def __init__(self, path: File, append: bool = False, before: int | None = None) -> None:
        """Open a file anew, or as JsonLines at its end: then the columns are those that it has."""
        self._columns: list[str] = []
        super().__init__(path, append, before)

    def write(self, **row: Any) -> None:
        """Write one row; a name that is no column is Rejected, one that is missing stays empty.

        Numbers that are not finite are nan, inf and -inf; None is empty. Lists, arrays and tensors
        of more entries than one are Rejected, and so is what else is no number, truth value or
        text; nothing is written then.
        """
        file = self._open()
        strange = [name for name in row if self._columns and name not in self._columns]
        if strange:
            columns = ", ".join(self._columns)
            raise Rejected(f"metrics: {strange[0]!r} is no column of {self.path}; got {columns}")
        cells = {name: self._cell(name, value) for name, value in row.items()}
        writer = csv.DictWriter(file, self._columns or list(row))
        if not self._columns:
            self._columns = list(row)
            writer.writeheader()
        writer.writerow(cells)
        file.flush()

    def _cell(self, name: str, value: Any) -> Cell:
        one = entry(value)
        if not _is_single(one):
            _refuse(name, SINGLE, value)
        return _plain(one)

    def _go_on(self, before: int | None) -> None:
        super()._go_on(before)
        with self._opened("r") as file:
            self._columns = next(csv.reader(file), [])

    def _rows(self, lines: Iterable[str]) -> Iterator[tuple[str, Any]]:
        taken: list[str] = []

        def read() -> Iterator[str]:
            for line in lines:
                taken.append(line)
                yield line

        columns: list[str] | None = None
        for cells in csv.reader(read()):
            # A text may hold ends of lines: a row is what the reader has taken for it.
            row, taken[:] = "".join(taken), []
            step = dict(zip(columns or (), cells, strict=False)).get("step")
            yield row, None if columns is None else _read(step)
            columns = columns or cells


@telling
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
        """Write the numbers of one row at a step, each as a curve of its name.

        A truth value is 0 or 1. What else is no number, and a step that is no int, are Rejected,
        and nothing is written.
        """
        at = number(step)
        if not isinstance(at, int):
            _refuse("step", "an int", step)
        points = {name: self._point(name, value) for name, value in row.items()}
        for name, point in points.items():
            self._writer.add_scalar(name, point, at)
        self._writer.flush()

    def _point(self, name: str, value: Any) -> int | float:
        one = entry(value)
        read = int(one) if isinstance(one, bool) else number(one)
        if read is None:
            _refuse(name, "a number or a truth value", value)
        return read

    def close(self) -> None:
        """Close the writer."""
        self._writer.close()


def _is_single(value: Any) -> bool:
    return value is None or isinstance(value, (bool, str)) or is_number(value)


def _plain(value: Any) -> Cell:
    """Return a single value as Python's own, so that every library's numbers look alike."""
    read = number(value)
    return value if read is None else read


def _finite(value: Cell) -> Cell:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _read(text: str | None) -> float | None:
    """Return the number that a cell of a file holds, or None."""
    try:
        return float(text or "")
    except ValueError:
        return None


def _refuse(name: str, accepted: str, value: Any) -> NoReturn:
    raise Rejected(f"metrics: {name} is {accepted}; got {came(value)}")
