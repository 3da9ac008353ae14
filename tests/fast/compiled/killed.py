"""Makes artifacts and is killed, at one instant after the other: a warm parent, a child per kill.

`python -m tests.fast.compiled.killed WHAT FOLDER` writes a line of JSON for each kill: where it
was, what it left, and what there is after another process has fetched the same artifact. WHAT is

    publish   each call into the system while an artifact is published, before and after it
    write     amid the writing: the system kills whoever writes more than so many bytes
    compile   each call into the system around a compiler that is a stub, before and after it
    real      after each of three programs that a real compilation starts

`publish` and `compile` end with the first child that was not killed, which is one line more.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from fast.compiled import artifacts, inductor
from fast.compiled.replaced import mended

PACKAGE = bytes(range(256)) * 800
SYSTEM = ("posix", "fcntl", "_io", "_posixsubprocess")
PURE = ("fspath", "getpid", "fsencode")

Make = Callable[[], bytes]


def reaches_the_system(function: Any) -> bool:
    """Say whether a built-in function, or a method of an open file, is a call into the system."""
    if function.__module__ is None:
        return type(function.__self__).__module__ == "_io"
    return function.__module__ in SYSTEM and function.__name__ not in PURE


def die_at(instant: int, calls: Callable[[Any], bool] = reaches_the_system) -> None:
    """Kill this process at the so-manieth beginning or end of such a call; say at which."""
    passed = 0

    def profile(frame: object, event: str, function: Any) -> None:
        nonlocal passed
        if event in ("c_call", "c_return") and calls(function):
            passed += 1
            if passed == instant:
                sys.setprofile(None)
                os.write(1, f"{event} {function.__name__}\n".encode())
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(profile)


def publishing(instant: int) -> bytes:
    """Make the package at once, and be killed while it is published."""
    die_at(instant)
    return PACKAGE


def writing(most: int) -> bytes:
    """Make the package at once, and be killed when so much of its file is written."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    os.write(1, f"write {most}\n".encode())
    return PACKAGE


def compiling(instant: int) -> bytes:
    """Compile by a stub, and be killed meanwhile."""
    if instant:
        die_at(instant)
    package = inductor.built(None, [])  # type: ignore[arg-type]
    sys.setprofile(None)
    return package


def compiling_really(instant: int) -> bytes:
    """Compile, and be killed when another program has been started, which may run on."""
    graph = inductor.traced(lambda x: [x * 2 + 1], [torch.ones(2)])
    if instant:
        die_at(2 * instant, lambda function: function.__module__ == "_posixsubprocess")
    package = inductor.built(graph, [torch.ones(2)])
    sys.setprofile(None)
    return package


def stub() -> None:
    """Put a compiler in place that writes what it is told, at once; torch's is not imported."""

    def aot_compile(graph: object, given: object, options: dict[str, Any]) -> list[str]:
        place = Path(options["aot_inductor.output_path"])
        place.mkdir()
        (place / "model.so").write_bytes(PACKAGE)
        return [str(place / "model.so")]

    def package_aoti(path: str, files: Sequence[str]) -> str:
        Path(path).write_bytes(Path(files[0]).read_bytes())
        return path

    loops = type(mended.LOOPS, (), {mended.FUSING: None})
    vectors = type(mended.VECTORS, (), {mended.EXPM1: None})
    parts = {
        "torch._inductor": {"aot_compile": aot_compile},
        "torch._inductor.codegen": {},
        "torch._inductor.codegen.cpp": {mended.LOOPS: loops, mended.VECTORS: vectors},
        "torch._inductor.virtualized": {"V": None},
        "torch._inductor.exc": {"InductorError": RuntimeError},
        "torch._inductor.package": {"package_aoti": package_aoti},
    }
    for name, contents in parts.items():
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(contents)
    inductor.require_compiler = lambda: None
    inductor.quicker = lambda checked: nullcontext()


KINDS: dict[str, tuple[Callable[[int], bytes], Callable[[], Iterator[int]]]] = {
    "publish": (publishing, lambda: count(1)),
    "write": (writing, lambda: iter(range(0, len(PACKAGE), len(PACKAGE) // 10))),
    "compile": (compiling, lambda: count(1)),
    "real": (compiling_really, lambda: iter((2, 3, 4))),
}


def left(place: Path) -> list[str]:
    """Return the names of what is in a folder, without what is drawn in them."""
    return sorted("part" if p.suffix == ".part" else p.name.split("-")[0] for p in place.iterdir())


def right(what: str, package: bytes) -> bool:
    """Say whether a package is whole; the one that was compiled is run."""
    if what != "real":
        return package == PACKAGE
    return inductor.loaded(package)([torch.ones(2)])[0].tolist() == [3.0, 3.0]


def killed(make: Callable[[int], bytes], instant: int) -> tuple[str, int]:
    """Let a child make and publish an artifact; return its last words, and what killed it."""
    reading, end = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(end, 1)
        artifacts.fetch("key", lambda: make(instant))
        sys.setprofile(None)
        os._exit(0)
    os.close(end)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading) as words:
        return words.read().strip(), os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def experiment(what: str, instant: int, temporary: Path) -> dict[str, Any]:
    """Kill one child, look at what it leaves, and fetch what it should have made."""
    make, _ = KINDS[what]
    folder, made = artifacts.folder(), []
    old = folder / "old.artifact"
    old.write_bytes(artifacts.sealed(PACKAGE))
    os.utime(old, (1, 1))

    def anew() -> bytes:
        made.append(PACKAGE if what in ("publish", "write") else make(0))
        return made[-1]

    said, by = killed(make, instant)
    report: dict[str, Any] = {"at": said, "by": by, "left": left(folder) + left(temporary)}
    package = artifacts.fetch("key", anew)
    report |= {"made": len(made), "right": right(what, package)}
    report["after"] = left(folder) + left(temporary)
    artifacts.make_room(folder, -1)
    return report | {"at last": left(folder)}


def main() -> None:
    """Kill a child at each instant, and tell of it."""
    what, place = sys.argv[1], Path(sys.argv[2])
    temporary = place / "temporary"
    temporary.mkdir()
    os.environ[artifacts.VARIABLE] = str(place)
    if what == "compile":
        stub()
    tempfile.tempdir = str(temporary)
    artifacts.MOST_BYTES = len(PACKAGE) * 3 // 2
    for instant in KINDS[what][1]():
        report = experiment(what, instant, temporary)
        print(json.dumps(report), flush=True)
        if not report["by"]:
            return


if __name__ == "__main__":
    main()
