"""Reads off an artifact what its program does: the C++ that Inductor wrote, which it carries along.

A line that is not known is passed over: what Inductor writes may change, and this is to be looked
at only.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections.abc import Mapping, Sequence

import torch

from fast.compiled.shown.outline import Memory, Outline, Step

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
    text = written(package, ".wrapper.cpp")
    known = {f"arg{k}_1": name for k, name in enumerate(arguments)}
    extents: dict[str, int] = {}
    sizes: dict[str, int] = {}
    home: dict[str, str] = {}
    steps: list[Step] = []
    for line in text[text.index("::run_impl(") :].splitlines():
        if found := _SHAPE.search(line):
            extents[found[1]] = math.prod(map(int, re.findall(r"\d+", found[2])))
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
            uses = [(False, first), *((True, name) for name in others)]
            steps.append(_step(found[1], uses, home, known))
    return Outline(title, tuple(steps), _memory(steps, sizes, arguments))


def written(package: bytes, ending: str) -> str:
    """Return the one file of a package that ends so: ".wrapper.cpp", or ".kernel.cpp" for loops."""
    with zipfile.ZipFile(io.BytesIO(package)) as files:
        (source,) = (name for name in files.namelist() if name.endswith(ending))
        return files.read(source).decode()


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
