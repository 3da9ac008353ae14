"""Executes launches by ttsem instead of compiling them, and finds what is wrong with them.

The one file that imports ttsem: 0.1.0 is young and has one author, so it lies in an environment of
its own, at one version, beside the pinned triton. Its semantics of TTIR are what is trusted here;
the rule of conflicts and the bytes that a launch may touch are this room's own.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from math import prod
from typing import Any

import numpy as np
import torch

from equivalence.blame import Refused
from equivalence.races.accesses import Access, Way, conflict
from equivalence.races.fault import Fault, Faulty, Kind, Place, place_of
from equivalence.races.spans import Span, spans

TTSEM = "0.1.0"
WAYS: dict[str, Way] = {"r": "read", "w": "write", "s": "write", "a": "update"}
"""How ttsem marks accesses; it sets stores apart that change nothing, and they count here."""


class Missing(Refused):
    """ttsem cannot be imported here, or is another version; the message says what to do."""


def require() -> None:
    """Raise Missing unless ttsem is here, at the version whose behaviour is known."""
    advice = (
        "`make races` sets it up, or: pip install --no-deps --ignore-requires-python "
        f"--target build/races ttsem=={TTSEM}, and PYTHONPATH=build/races"
    )
    try:
        importlib.import_module("ttsem")
        found = metadata.version("ttsem")
    except (ImportError, metadata.PackageNotFoundError) as error:
        raise Missing(f"races needs ttsem {TTSEM}, which is not here: {advice}") from error
    if found != TTSEM:
        raise Missing(f"races needs ttsem {TTSEM}, and {found} is here: {advice}")


@dataclass(slots=True)
class Watch:
    """What was watched: launches, those of several program instances, and all instances."""

    launches: int = 0
    several: int = 0
    instances: int = 0
    kernels: set[str] = field(default_factory=set)

    def __call__(
        self, kernel: Any, grid: tuple[int, ...], args: Sequence[Any], meta: dict[str, Any]
    ) -> None:
        """Execute a launch, write back what it computed, or raise Faulty."""
        self.launches += 1
        self.instances += prod(grid)
        self.several += prod(grid) > 1
        self.kernels.add(kernel.fn.__name__)
        _execute(kernel, grid, tuple(args), dict(meta))


@contextmanager
def watching() -> Iterator[Watch]:
    """Watch the launches of this process, which is in compile-only mode, in the compiler's stead.

    Kernels are read anew each time, as their sources may have been changed.
    """
    from fast.device import launch

    require()
    _ttir.cache_clear()
    mlir: Any = importlib.import_module("ttsem.mlir")
    watch, before, parse = Watch(), launch.instead, mlir.parse
    # Launches of one kernel share its module, which no execution changes.
    launch.instead, mlir.parse = watch, cache(parse)
    try:
        yield watch
    finally:
        launch.instead, mlir.parse = before, parse


def _execute(kernel: Any, grid: tuple[int, ...], args: tuple[Any, ...], meta: Any) -> None:
    harness: Any = importlib.import_module("ttsem.harness")
    bound = dict(zip(kernel.arg_names, args, strict=False)) | {
        name: value for name, value in meta.items() if name in kernel.arg_names
    }
    places = spans({n: value for n, value in bound.items() if isinstance(value, torch.Tensor)})
    record = harness.LaunchRecord(
        launch_id=0, fn=kernel, fn_name=kernel.fn.__name__, fn_file=kernel.fn.__code__.co_filename,
        grid=grid, args=args, kwargs=meta, bound=bound, post={},
        pre={name: span.read() for name, (span, _) in places.items()},
        ptrs={name: moved for name, (_, moved) in places.items()},
        bases={name: span.moved for name, (span, _) in places.items()},
    )  # fmt: skip
    text = _text(record)
    memory = _run(record, text)
    _find_race(record, memory)
    _write_back(memory, {span for span, _ in places.values()})


def _text(record: Any) -> str:
    """Return the TTIR of a launch, which launches of one specialization share."""
    harness: Any = importlib.import_module("ttsem.harness")
    target = harness.target_for("cpu", harness.DEFAULT_CC)
    special = harness._specialize(record.fn, record.args, record.kwargs, target)
    return _ttir(_Specialized(repr((record.fn, *special)), record, target))


@dataclass(frozen=True)
class _Specialized:
    """A launch, equal to every other that the compiler would make the same kernel for."""

    key: str
    record: Any = field(compare=False)
    target: Any = field(compare=False)


@cache
def _ttir(launch: _Specialized) -> str:
    harness: Any = importlib.import_module("ttsem.harness")
    mlir: Any = importlib.import_module("ttsem.mlir")
    mlir.enable_generic_printing()
    # The public `ir_for_launch` compiles to a binary first, which takes five times as long.
    module = harness._stage_text(launch.record, "ttir", launch.target)
    text: str = mlir.to_generic(module, None)
    return text


def _run(record: Any, text: str) -> Any:
    """Execute every program instance and return ttsem's memory, with all accesses."""
    harness: Any = importlib.import_module("ttsem.harness")
    fault: Any = importlib.import_module("ttsem.memory").MemoryFault
    poison: Any = importlib.import_module("ttsem.values").Poison
    try:
        done = harness.execute(record, text, raise_faults=True, trace_access=True)
    except fault as error:
        kind: Kind = "write out of bounds" if error.kind == "write" else "read out of bounds"
        raise _faulty(record, kind, _place(error), _strayed(record, error)) from error
    except poison as error:
        raise _faulty(record, "undefined", _place(error), str(error)) from error
    if done.failure is not None or done.unsupported:
        why = done.failure.message if done.failure is not None else ", ".join(done.unsupported)
        raise _faulty(record, "not judged", Place(), f"ttsem cannot execute it: {why}")
    if done.memory.access_overflow:
        raise _faulty(record, "not judged", Place(), "it has more accesses than ttsem keeps")
    return done.memory


def _find_race(record: Any, memory: Any) -> None:
    found = conflict(
        [
            Access(instance, WAYS[way], addresses, size, operation)
            for instance, way, operation, addresses, size, _ in memory.access_log
        ]
    )
    if found is None:
        return
    first, second, raced = found
    says = (
        f"program instance {first.instance} has a {first.way} of a byte of which "
        f"{second.instance} has a {second.way} at {place_of(second.operation)}; "
        f"{raced} bytes are raced for"
    )
    raise _faulty(record, "race", place_of(first.operation), says)


def _write_back(memory: Any, used: set[Span]) -> None:
    buffers = memory.buffers()
    for span in used:
        if span.moved in buffers:
            span.write(np.asarray(buffers[span.moved]))


def _faulty(record: Any, kind: Kind, place: Place, says: str) -> Faulty:
    return Faulty(Fault(kind, record.fn_name, place, f"{says} (grid {record.grid})"))


def _strayed(record: Any, error: Any) -> str:
    """Say which argument an access out of bounds is nearest to, and by how much it misses."""
    misses = [
        (max(base - address, address + error.itemsize - base - record.pre[name].nbytes), name)
        for address in (int(error.addr),)
        for name, base in record.bases.items()
    ]
    far, name = min(misses)
    count = len(set(map(int, error.addrs)))
    return f"{count} elements, of which the first reaches {far} bytes beyond the tensor {name}"


def _place(error: BaseException) -> Place:
    noted = [n for n in getattr(error, "__notes__", ()) if n.startswith("while evaluating ")]
    return place_of(noted[0]) if noted else Place()
