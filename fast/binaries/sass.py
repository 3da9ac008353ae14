"""Reads the machine's instructions (SASS) out of compiled kernels, by the nvdisasm of triton.

Starting nvdisasm takes longer than reading many kernels. So the code of all kernels of a target is
laid end to end and read at once, without the frame that each had around it (ELF64, whose section
headers are described in the System V application binary interface, chapter 4).
"""

from __future__ import annotations

import importlib
import re
import struct
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate

RAW = {"sm_80": "SM80", "sm_90": "SM90a"}
"""How nvdisasm calls the code of a target; triton compiles for sm_90a."""

_LINE = re.compile(
    r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.a-z]*)", re.MULTILINE
)
_WIDTH = re.compile(r"\.(128|64|U16|S16|U8|S8)\b")

CLASSES = {
    "tensor": ("HMMA", "HGMMA", "IMMA", "IGMMA", "DMMA", "QGMMA"),
    "global": ("LDGSTS", "LDG", "STG", "LD", "ST", "RED", "ATOM", "ATOMG"),
    "shared": ("LDS", "STS", "LDSM", "STSM", "ATOMS"),
    "local": ("LDL", "STL"),
    "barrier": ("BAR", "DEPBAR", "LDGDEPBAR", "WARPSYNC", "WARPGROUP", "SYNCS", "MEMBAR", "FENCE"),
    "control": ("BRA", "EXIT", "CALL", "RET", "BSSY", "BSYNC", "BREAK", "BRX", "JMP", "YIELD"),
    "convert": ("F2F", "F2FP", "F2I", "I2F", "I2FP", "F2IP"),
}  # fmt: skip
"""The classes of an instruction mix, by the first word of an instruction. What begins like
arithmetic of fractions is `float`; the rest counts and moves: `integer`."""

_FLOAT = re.compile(r"^(F(?!LO|ENCE)|MUFU|H(ADD|FMA|MUL|SET|MNMX)|D(ADD|MUL|FMA|SET|MNMX))")
_CLASS_OF = {word: name for name, words in CLASSES.items() for word in words}
MIX = (*CLASSES, "float", "integer")


def code(cubin: bytes) -> bytes:
    """Return the instructions of a compiled kernel: its one section whose name begins `.text.`."""
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + k * size) for k in range(count)]
    names = headers[names_at][4]
    found = [
        cubin[offset : offset + length]
        for name, _, _, _, offset, length in headers
        if cubin.startswith(b".text.", names + name)
    ]
    if len(found) != 1:
        raise RuntimeError(f"kernels: a kernel has one section of code, got {len(found)}")
    return found[0]


def listings(target: str, codes: Sequence[bytes]) -> list[list[str]]:
    """Return the instructions of kernels, each by its name with all its modifiers, as LDG.E.128."""
    if not codes:
        return []
    tool = importlib.import_module("triton.knobs").nvidia.nvdisasm.path
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        file.write(b"".join(codes))
        file.flush()
        command = [tool, "-ndf", "-b", RAW[target], file.name]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return list(_cut(text, list(accumulate(map(len, codes)))))


def _cut(text: str, ends: Sequence[int]) -> Iterator[list[str]]:
    """Part a listing at addresses; instructions that only fill the end of a kernel are left out."""
    found: list[str] = []
    pending = iter(ends)
    end = next(pending)
    for address, name in _LINE.findall(text):
        while int(address, 16) >= end:
            yield found
            found, end = [], next(pending)
        if name != "NOP":
            found.append(name)
    yield found
    if sum(1 for _ in pending):
        raise RuntimeError("kernels: nvdisasm read fewer instructions than there are")


def widths(instructions: Sequence[str], ways: Sequence[str]) -> dict[str, int]:
    """Count accesses of global memory by the bits that a thread moves, widest first."""
    counts: Counter[int] = Counter()
    for name in instructions:
        if name.split(".")[0] in ways:
            found = _WIDTH.search(name)
            counts[int(found[1].lstrip("US")) if found else 32] += 1
    return {str(bits): counts[bits] for bits in sorted(counts, reverse=True)}


def facts(instructions: Sequence[str]) -> dict[str, object]:
    """Say what a kernel's instructions are: how many, of which classes, and how wide."""
    mix = Counter(class_of(name) for name in instructions)
    return {
        "instructions": len(instructions),
        "mix": {name: mix[name] for name in MIX if mix[name]},
        "loads": widths(instructions, ("LDG", "LDGSTS", "LD")),
        "stores": widths(instructions, ("STG", "ST")),
        "barriers": sum(name.split(".")[0] == "BAR" for name in instructions),
        "tensor": dict(Counter(n for n in instructions if class_of(n) == "tensor")),
    }


def class_of(name: str) -> str:
    """Return the class of an instruction."""
    word = name.split(".")[0]
    return _CLASS_OF.get(word) or ("float" if _FLOAT.match(word) else "integer")
