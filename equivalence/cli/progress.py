"""The progress of a command on stderr: a bar on a terminal, elsewhere a line for each finished row.

Running rows are named before the first row ends, and again after a while without a line.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
from types import TracebackType
from typing import Any, TextIO

PATIENCE = 15.0
"""After so many seconds without a line, a pipe gets the names of the running rows."""


class Progress:
    """Shows the progress of a command's rows, during a `with` block."""

    def __init__(self, title: str, total: int, done: int = 0, stream: TextIO | None = None) -> None:
        """Expect so many rows, some of which may be done already."""
        self.title, self.total, self.done = title, total, done
        self.out = sys.stderr if stream is None else stream
        self.working: dict[str, float] = {}
        self._said = time.monotonic()
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._bar: Any = None
        self._named = False

    def __enter__(self) -> Progress:
        """Show that the command runs."""
        if self.out.isatty() and importlib.util.find_spec("rich") is not None:
            self._start_bar()
        else:
            self._say(f"{self.title}: {self.done} of {self.total} done")
            threading.Thread(target=self._wait, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the display."""
        self._over.set()
        if self._bar is not None:
            self._bar.stop()

    def started(self, name: str) -> None:
        """Show that a row runs."""
        with self._lock:
            first = not self.working and not self._named
            self._named = self._named or self._bar is None
            self.working[name] = time.monotonic()
        if self._bar is not None:
            self._draw()
        elif first:
            self._say(f"running {name} ...")

    def finished(self, name: str, status: str) -> None:
        """Show the status of a row. A pipe gets no line for an unsupported row."""
        with self._lock:
            begun = self.working.pop(name, time.monotonic())
            self.done += 1
        if self._bar is not None:
            self._draw()
        elif status != "unsupported":
            seconds = time.monotonic() - begun
            self._say(f"[{self.done}/{self.total}] {name}: {status}, {seconds:.1f} s")

    def _say(self, text: str) -> None:
        self._said = time.monotonic()
        print(text, file=self.out, flush=True)

    def _wait(self) -> None:
        """Name the running rows on a pipe, after each while without a line."""
        while not self._over.wait(1.0):
            if time.monotonic() - self._said < PATIENCE:
                continue
            with self._lock:
                now = time.monotonic()
                names = [f"{name} ({now - since:.0f} s)" for name, since in self.working.items()]
            if names:
                self._say(f"[{self.done}/{self.total}] still running {', '.join(names)}")

    def _start_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(file=self.out),
            transient=True,
        )
        self._bar.add_task(self.title, total=self.total, completed=self.done)
        self._bar.start()

    def _draw(self) -> None:
        with self._lock:
            names = list(self.working)
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        text = f"{names[0]}{more}" if names else self.title
        self._bar.update(self._bar.task_ids[0], completed=self.done, description=text)
