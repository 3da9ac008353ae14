"""A process that has loaded every library once, and forks a child for each copy of `fast`.

`python -m tests.mutants.warm` reads one line of JSON per copy: its folder, and the catchers to run
on it. It answers with one line: how the child ended, and what it wrote. What is tried is never
loaded here, so that a child imports the copy as a fresh process would.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence

LIBRARIES = (
    *("torch", "torch.optim", "triton", "triton.language", "numpy", "safetensors.torch"),
    *("hypothesis", "flint", "rich", "spec.session", "spec.train", "spec.optim"),
)
"""What `fast` and the judge import, and no mutant touches."""

LIMIT = 300
"""Seconds after which a child is ended."""


def run(folder: str, catchers: Sequence[str]) -> int:
    """Run the catchers on the `fast` in a folder, in this process; return the exit code."""
    sys.path.insert(0, folder)
    os.chdir(folder)
    from tests.mutants.catch import main

    return main(catchers)


def answer(folder: str, catchers: Sequence[str]) -> dict[str, object]:
    """Fork a child that runs the catchers; return its exit code, or minus its signal, and texts."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            signal.alarm(LIMIT)
            code = 3
            try:
                code = run(folder, catchers)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return {"code": os.waitstatus_to_exitcode(status), "out": texts[0], "err": texts[1]}


def serve() -> None:
    """Answer every line until there are no more."""
    for library in LIBRARIES:
        importlib.import_module(library)
    assert "fast" not in sys.modules, "what is tried must be imported by the children"
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(answer(asked["folder"], asked["catchers"])), flush=True)


if __name__ == "__main__":
    serve()
