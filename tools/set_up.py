"""Makes the environment that `make` works in: once, whole, and by one process at a time.

    python3 tools/set_up.py .venv           the pinned environment, with this checkout in it
    python3 tools/set_up.py build/triton-3.6.0 triton==3.6.0    a package of its own, beside it
    python3 tools/set_up.py build/races ttsem                   the same, at the pinned version
    python3 tools/set_up.py build/newest --newest   an environment with the newest versions that
                                                    pyproject.toml allows, and torch at its pin

What begins with a dash is handed on to pip.

A second process that asks for the same waits for the first and then has nothing to do. The stamp
`.ready` is written last, so that an interrupted set-up is made again from nothing. The lock is the
kernel's (flock): it ends with the process that held it, however that ended.

This file runs before anything is installed and on whatever Python 3 there is: the standard library
alone, and no syntax by which an older one would fail before it is refused.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

OLDEST = (3, 11)
SOURCES = ("pyproject.toml", "constraints.txt")
"""What an environment is made from: one that is older than either is made again."""

NEWEST = "--newest"


def main(arguments):
    """Make the folder named, unless it is there and as new as its sources."""
    if sys.version_info < OLDEST:
        found = ".".join(map(str, sys.version_info[:3]))
        print(
            f"twingrad needs Python 3.11 or newer, and '{sys.executable}' is {found}. "
            "Name another: make PYTHON=python3.11",
            file=sys.stderr,
        )
        return 1
    folder, packages = Path(arguments[0]), arguments[1:]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Waiting for another process that sets up", folder, "...", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        if is_current(folder):
            return 0
        print("Setting up", folder, "which takes a minute or two ...", flush=True)
        if folder.exists():
            shutil.rmtree(folder)
        if packages == [NEWEST]:
            done = install_newest(folder)
        else:
            done = install_beside(folder, packages) if packages else install_checkout(folder)
        if done == 0:
            (folder / ".ready").touch()
        return done


def is_current(folder):
    """Whether the folder was finished after its sources last changed."""
    stamp = folder / ".ready"
    if not stamp.exists():
        return False
    return all(stamp.stat().st_mtime >= Path(source).stat().st_mtime for source in SOURCES)


def install_checkout(folder):
    """Install this checkout with everything that developing it needs, at the pinned versions."""
    venv.create(folder, with_pip=True)
    return pip(folder / "bin" / "python", "--editable", ".[dev]")


def install_newest(folder):
    """Install this checkout as a user's pip does, without our pins, but for that of torch."""
    pins = Path("constraints.txt").read_text(encoding="utf-8").split()
    torch = next(pin for pin in pins if pin.startswith("torch=="))
    venv.create(folder, with_pip=True)
    return pip(folder / "bin" / "python", torch, ".[check,data,tensorboard]", "pytest")


def install_beside(folder, packages):
    """Install packages alone into a folder, which PYTHONPATH then puts first."""
    return pip(Path(sys.executable), "--no-deps", "--target", str(folder), *packages)


def pip(python, *wanted):
    """Run pip under the constraints, which reach the environments that pip builds in as well."""
    pins = str(Path("constraints.txt").resolve())
    environment = dict(os.environ)
    # A version that is named is another than the pinned one.
    if not any("==" in word for word in wanted):
        environment.update(PIP_CONSTRAINT=pins, PIP_BUILD_CONSTRAINT=pins)
    command = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *wanted]
    return subprocess.call(command, env=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
