"""The end of a command: its exit code is the last thing that is decided.

A backend is code of a stranger, and what it registers with `atexit` runs when Python shuts down. It
could still change the exit code. So a command ends its process without a shutdown.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn


def leave(command: Callable[[], int]) -> NoReturn:
    """Run a command and end the process with the exit code that it returns.

    An exception is shown and ends the process with 1, as it would without this function.
    """
    leaving = os._exit
    try:
        code = command()
    except SystemExit as stop:
        code = _code_of(stop)
    except BaseException:
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    leaving(code)


def _code_of(stop: SystemExit) -> int:
    """Return the exit code that an exception asks for; its text is shown."""
    if stop.code is None or isinstance(stop.code, int):
        return stop.code or 0
    print(stop.code, file=sys.stderr)
    return 1
