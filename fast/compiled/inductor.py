"""Compiles a flat function by torch's Inductor, without Dynamo: every touch of private API is here.

`make_fx` writes the graph down, `aot_compile` turns it into C++ and builds a package, and the
package's own loader runs it without Python. torch promises none of the three to stay, so `missing`
tries what is called; an engine that cannot be had is refused with what it says.

Rounding: no product is contracted with a sum, sums may be in any order, and exponentials,
logarithms and roots are SLEEF's and the compiler's. Fused loops run on one thread, so nothing is
added atomically; products follow torch's threads.
"""

from __future__ import annotations

import io
import math
import os
import re
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from fast.compiled.outline import Memory, Outline, Step
from fast.errors import Unavailable

OPTIONS: dict[str, Any] = {
    "aot_inductor.package": True,
    "cpp.enable_floating_point_contract_flag": "off",
    # A product and a bias stay two steps, as the page has them.
    "pattern_matcher": False,
    "cpp.threads": 1,
    # One package is one translation: a pool of processes would only be left over.
    "compile_threads": 1,
    # Indices that a program computes are checked where they are read.
    "assert_indirect_indexing": True,
}
"""What Inductor is told; part of an artifact's name."""

MOST_SAID = 2000
"""How many characters of what a compiler says are repeated."""

COMPILERS = ("g++", "clang++")

Loaded = Callable[[list[Tensor]], list[Tensor]]


def missing() -> str | None:
    """Say what this torch lacks of what is called here, or None."""
    try:
        from torch._C._aoti import AOTIModelPackageLoader
        from torch._inductor import aot_compile
        from torch._inductor.package import package_aoti
        from torch.fx.experimental.proxy_tensor import make_fx
    except ImportError as error:
        return str(error)
    parts = (AOTIModelPackageLoader, aot_compile, package_aoti, make_fx)
    return None if all(map(callable, parts)) else "torch's Inductor has another form"


def require() -> None:
    """Raise Unavailable where this torch cannot compile so, or cannot load what was compiled."""
    lack = missing()
    if lack is not None:
        raise Unavailable(
            f"engine 'inductor': torch {torch.__version__} does not offer what it calls ({lack}); "
            "engine 'replay' runs everywhere"
        )


def require_compiler() -> None:
    """Raise Unavailable where no C++ compiler is found, naming what installs one."""
    named = os.environ.get("CXX")
    if not any(shutil.which(name) for name in ((named,) if named else COMPILERS)):
        raise Unavailable(
            "engine 'inductor': compiling a program needs a C++ compiler, and "
            f"{named or ' or '.join(COMPILERS)} is not on the PATH; the package g++ (Debian, "
            "Ubuntu), gcc-c++ (Fedora) or Xcode's command line tools (macOS) have one; engine "
            "'replay' needs none"
        )


def traced(function: Callable[..., list[Tensor]], given: Sequence[Tensor]) -> GraphModule:
    """Write down what a function calls on tensors like those given, whose numbers it cannot see."""
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(function, tracing_mode="fake")(*given)
    for node in graph.graph.nodes:
        node.meta.clear()  # Else Inductor takes the trace's own tensors for the arguments.
    return graph


def built(graph: GraphModule, given: Sequence[Tensor]) -> bytes:
    """Compile a graph for tensors like those given, and return the package's bytes.

    What the compiler cannot do, such as a translation that it breaks off, raises Unavailable.
    """
    from torch._inductor import aot_compile
    from torch._inductor.exc import InductorError
    from torch._inductor.package import package_aoti

    require_compiler()
    with tempfile.TemporaryDirectory(prefix="twingrad-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of its own deprecations.
        options = {**OPTIONS, "aot_inductor.output_path": os.path.join(folder, "model")}
        try:
            files = aot_compile(graph, tuple(given), options=options)
        except InductorError as error:
            raise Unavailable(
                "engine 'inductor': this program could not be compiled; engine 'replay' runs it. "
                f"{str(error)[:MOST_SAID]}"
            ) from error
        package = package_aoti(os.path.join(folder, "model.pt2"), files)
        return Path(package).read_bytes()


def loaded(package: bytes) -> Loaded:
    """Load a package that is known to be whole: a shared object, whose code is run."""
    from torch._C._aoti import AOTIModelPackageLoader

    with _file_of(package) as path:
        # One model, one caller at a time, on the host.
        loader = AOTIModelPackageLoader(path, "model", True, 1, -1)
    run: Loaded = loader.run
    return run


@contextmanager
def _file_of(package: bytes) -> Iterator[str]:
    """Put a package into a file that nobody else may write, for as long as it is being loaded."""
    descriptor, path = tempfile.mkstemp(suffix=".pt2", prefix="twingrad-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(package)
        yield path
    finally:
        os.unlink(path)


_SHAPE = re.compile(r"int64_t (int_array_\d+)\[\] = \{([^}]*)\}")
_MADE = re.compile(r"empty_strided\(\d+, (\w+), \w+, cached_torch_dtype_(\w+),.*&(buf\d+)_handle\)")
_AGAIN = re.compile(r"auto (buf\d+) = (?:std::move|wrap\w+\(reinterpret_tensor_wrapper)\((\w+)")
_LOOP = re.compile(r"^ *cpp_fused_(\w+?)_\d+\((.*)\);$")
_CALL = re.compile(r"aoti_torch_(?:cpu_)?(\w+?)(?:_out)?\(((?:buf|arg)\d.*)\)\);")
_POINTER = re.compile(r"\((const )?[\w:]+\*\)\((?:([ab]\w+)\.data_ptr\(\))")
_NAME = re.compile(r"\b(buf\d+|arg\d+_1)\b")


def outlined(package: bytes, title: str, arguments: Mapping[str, int]) -> Outline:
    """Read off a package what its program does; arguments are names in order, with their bytes.

    The package carries the C++ that Inductor wrote, whose lines are steps and what they take.
    """
    with zipfile.ZipFile(io.BytesIO(package)) as files:
        (source,) = (name for name in files.namelist() if name.endswith(".wrapper.cpp"))
        text = files.read(source).decode()
    known = {f"arg{k}_1": name for k, name in enumerate(arguments)}
    extents: dict[str, int] = {}
    sizes: dict[str, int] = {}
    home: dict[str, str] = {}
    steps: list[Step] = []
    for line in text[text.index("::run_impl(") :].splitlines():
        if found := _SHAPE.search(line):
            extents[found[1]] = math.prod(
                int(n.strip(" L")) for n in found[2].split(",") if n.strip(" L")
            )
        elif found := _MADE.search(line):
            size: torch.dtype = getattr(torch, found[2])
            sizes[found[3]] = extents.get(found[1], 1) * size.itemsize
        elif found := _AGAIN.search(line):
            home[found[1]] = home.get(found[2], found[2])
        elif found := _LOOP.match(line):
            uses = [(bool(const), name) for const, name in _POINTER.findall(found[2])]
            name = "loop of " + " ".join(found[1].replace("_", " ").split())
            steps.append(_step(name, uses, home, known))
        elif found := _CALL.search(line):
            first, *others = _NAME.findall(found[2])
            steps.append(
                _step(found[1], [(False, first), *((True, n) for n in others)], home, known)
            )
    return Outline(title, tuple(steps), _memory(steps, sizes, arguments))


def _step(
    name: str, uses: list[tuple[bool, str]], home: Mapping[str, str], known: Mapping[str, str]
) -> Step:
    """Build a step; what was moved, or is seen in another shape, is called by its first name."""
    places = [(read, home.get(name, name)) for read, name in uses]
    named = [(read, known.get(place, place)) for read, place in places]
    read = dict.fromkeys(n for read, n in named if read)
    return Step(name, tuple(read), tuple(dict.fromkeys(n for read, n in named if not read)))


def _memory(
    steps: Sequence[Step], sizes: Mapping[str, int], arguments: Mapping[str, int]
) -> dict[str, Memory]:
    """Say between which steps each buffer lives; arguments live through all of them."""
    found = {
        name: Memory(nbytes, 0, max(len(steps) - 1, 0), lent=True)
        for name, nbytes in arguments.items()
    }
    for name, nbytes in sizes.items():
        at = [k for k, step in enumerate(steps) if name in (*step.reads, *step.writes)]
        if at:
            found[name] = Memory(nbytes, at[0], at[-1])
    return found
