"""Compiles a flat function by torch's Inductor, without Dynamo: what is called of private API.

`make_fx` writes the graph down, `aot_compile` turns it into C++ and builds a package, and the
package's own loader runs it without Python. torch promises none of the three to stay, so what is
called is tried; an engine that cannot be had is refused with what was missing. What only a
compilation calls is imported and tried by that: it takes longer than a start from the cache.

Rounding: no product is contracted with a sum, sums may be in any order, and exponentials,
logarithms and roots are SLEEF's and the compiler's. Fused loops run on one thread, so nothing is
added atomically; products follow torch's threads.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from fast.compiled.replaced.mended import lacking, mended
from fast.compiled.replaced.quicker import quicker
from fast.compiled.replaced.rewritten import REWRITTEN
from fast.disk import scratch
from fast.errors import Rejected, Unavailable

OPTIONS: dict[str, Any] = {
    "aot_inductor.package": True,
    "cpp.enable_floating_point_contract_flag": "off",
    # A product and a bias stay two steps, as the page has them.
    "pattern_matcher": False,
    "cpp.threads": 1,
    # One package is one translation: a pool of processes would only be left over.
    "compile_threads": 1,
    # A multiple of an arange would become an arange of long steps, whose multiples Inductor's C++
    # forms in int32: from the twelfth random number on, others would be drawn (torch 2.13).
    "constant_and_index_propagation": False,
    # A gradient of 16 bits is rounded before it is stored, and an update uses what is stored.
    "emulate_precision_casts": True,
    # Indices that a program computes are checked where they are read.
    "assert_indirect_indexing": True,
}
"""What Inductor is told; part of an artifact's name."""

BRIEF: dict[str, Any] = {
    "aot_inductor.compile_wrapper_opt_level": "O0",
    "size_asserts": False,
}
"""What it is told besides of an artifact that runs a few times.

What calls the kernels is compiled as it stands, and compares no shapes, whatever the environment
asks for: that takes longer to compile than the kernels of small programs do. The kernels, which
compute all numbers, are the same.
"""

MOST_SAID = 2000
"""How many characters of what a compiler says are repeated."""

COMPILERS = ("g++", "clang++")

Loaded = Callable[[list[Tensor]], list[Tensor]]


def missing() -> str | None:
    """Say what this torch lacks of what every process calls, or None; nothing slow is imported."""
    try:
        from torch._C._aoti import AOTIModelPackageLoader
    except ImportError as error:
        return str(error)
    if find_spec("torch._inductor") is None:
        return "no module named torch._inductor"
    return None if callable(AOTIModelPackageLoader) else "torch's Inductor has another form"


def uncompiling() -> str | None:
    """Say what this torch lacks of what a compilation calls, or None."""
    try:
        from torch._inductor import aot_compile
        from torch._inductor.package import package_aoti
        from torch.fx.experimental.proxy_tensor import make_fx
    except ImportError as error:
        return str(error)
    parts = (aot_compile, package_aoti, make_fx)
    return lacking() if all(map(callable, parts)) else "torch's Inductor has another form"


def require() -> None:
    """Raise Unavailable where this torch cannot load what was compiled."""
    _refuse(missing())


def require_compiler() -> None:
    """Raise Unavailable where torch cannot compile so, or no C++ compiler is found.

    What installs a compiler is named.
    """
    _refuse(uncompiling())
    named = os.environ.get("CXX")
    if not any(shutil.which(name) for name in ((named,) if named else COMPILERS)):
        raise Unavailable(
            "engine 'inductor': compiling a program needs a C++ compiler, and "
            f"{named or ' or '.join(COMPILERS)} is not on the PATH; the package g++ (Debian, "
            "Ubuntu), gcc-c++ (Fedora) or Xcode's command line tools (macOS) have one; engine "
            "'replay' needs none"
        )


def _refuse(lack: str | None) -> None:
    if lack is not None:
        raise Unavailable(
            f"engine 'inductor': torch {torch.__version__} does not offer what it calls ({lack}); "
            "engine 'replay' runs everywhere"
        )


def traced(function: Callable[..., list[Tensor]], given: Sequence[Tensor]) -> GraphModule:
    """Write down what a function calls on tensors like those given, whose numbers it cannot see."""
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(function, {**REWRITTEN}, tracing_mode="fake")(*given)
    for node in graph.graph.nodes:
        node.meta.clear()  # Else Inductor takes the trace's own tensors for the arguments.
    return graph


def built(graph: GraphModule, given: Sequence[Tensor], brief: bool = False) -> bytes:
    """Compile a graph for tensors like those given, and return the package's bytes.

    brief says that it will run a few times (BRIEF). What the compiler cannot do, as where it breaks
    a translation off, raises Unavailable.
    """
    from torch._inductor import aot_compile
    from torch._inductor.exc import InductorError
    from torch._inductor.package import package_aoti

    require_compiler()
    spared = quicker(checked=not brief)
    with scratch.folder() as folder, warnings.catch_warnings(), mended(), spared:
        warnings.simplefilter("ignore")  # torch warns of its own deprecations.
        options = {
            **OPTIONS,
            **(BRIEF if brief else {}),
            "aot_inductor.output_path": str(folder / "model"),
        }
        try:
            files = aot_compile(graph, tuple(given), options=options)
        except InductorError as error:
            raise Unavailable(
                "engine 'inductor': this program could not be compiled; engine 'replay' runs it. "
                f"{_words(str(error))[:MOST_SAID]}"
            ) from error
        package = package_aoti(str(folder / "model.pt2"), files)
        return Path(package).read_bytes()


def _words(said: str) -> str:
    """Return the first line and those that name an error; many warnings may stand before them."""
    first, *rest = said.splitlines() or [""]
    errors = [line for line in rest if "error:" in line]
    return "\n".join([first, *errors]) if errors else said


def loaded(package: bytes) -> Loaded:
    """Load a package that is known to be whole: a shared object, whose code is run."""
    from torch._C._aoti import AOTIModelPackageLoader

    with scratch.folder() as folder, _temporaries_in(folder):
        path = folder / "model.pt2"
        path.write_bytes(package)
        # One model, one caller at a time, on the host.
        loader = AOTIModelPackageLoader(str(path), "model", True, 1, -1)
    run: Loaded = loader.run
    return run


@contextmanager
def _temporaries_in(folder: Path) -> Iterator[None]:
    """Let torch unpack into a folder: what is loaded needs no file, and is left behind if killed.

    The loader keeps what it unpacks until it goes, under a name that does not tell whose it is.
    """
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before


@contextmanager
def indices_in_range() -> Iterator[None]:
    """Refuse an index that the program computes out of range, in torch's words or an artifact's."""
    try:
        yield
    except (IndexError, RuntimeError) as error:
        said = str(error)
        if "index" not in said or not ("out of bounds" in said or "out of range" in said):
            raise
        raise Rejected(
            "run: an index that the program computes is out of range; engine 'replay' says "
            "which op reads it"
        ) from error
