"""A safetensors file that carries the SHA-256 of its own bytes, so that no damage goes unseen.

The file begins with eight bytes, the length of the header, and with `OPENING`; then come the 64
hexadecimal digits. They are those of the whole file with 64 zeros in their place, so they cover
the length, the header, every tensor, and themselves.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from fast.errors import Rejected

SCHEMA = "twingrad-checkpoint"
VERSION = "2"
UNSEALED = "1"
"""The version of files that were made before there was a digest; it is two bits away from ours."""

OPENING = f'{{"__metadata__":{{"schema":"{SCHEMA}","version":"{VERSION}","sha256":"'.encode()
_PLACE = slice(8 + len(OPENING), 8 + len(OPENING) + 64)
_ALIGNED = 8
LARGE = 2**26
"""The bytes beyond which a file is asked for its length first. A sparse one may have any."""

LONGEST_HEADER = 10**8
"""The bytes that the header of a safetensors file may have, by its format."""

DTYPES = {torch.float64: ("F64", "<f8"), torch.int64: ("I64", "<i8"), torch.float32: ("F32", "<f4")}
"""What a checkpoint holds, widest first, so that every tensor is aligned: names and layouts."""


def pack(tensors: Mapping[str, Tensor], contents: str) -> bytearray:
    """Return the bytes of a file with these host tensors and this text in its metadata.

    The tensors are float64, int64 or float32.
    """
    metadata = {"schema": SCHEMA, "version": VERSION, "sha256": "0" * 64, "contents": contents}
    header: dict[str, object] = {"__metadata__": metadata}
    ordered = sorted(tensors.items(), key=lambda entry: [*DTYPES].index(entry[1].dtype))
    size = 0
    for name, tensor in ordered:
        begin, size = size, size + tensor.nbytes
        header[name] = {
            "dtype": DTYPES[tensor.dtype][0],
            "shape": [*tensor.shape],
            "data_offsets": [begin, size],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED)
    data = bytearray(8 + len(text) + size)
    data[: 8 + len(text)] = len(text).to_bytes(8, "little") + text
    begin = 8 + len(text)
    for _, tensor in ordered:
        place = np.ndarray(tensor.shape, DTYPES[tensor.dtype][1], data, begin)
        place[...] = tensor.detach().numpy()
        begin += tensor.nbytes
    data[_PLACE] = _digest(data)
    return data


def unpack(data: bytes) -> tuple[str, dict[str, Tensor], bool]:
    """Return the text in the metadata, the tensors, and whether a digest has vouched for both.

    Only a file that says that it is of version 1 may be without one. Any other that is not, byte
    for byte, what `pack` has written is Rejected.
    """
    sealed = data[8:].startswith(OPENING)
    if sealed and data[_PLACE] != _digest(data):
        raise Rejected(
            "is damaged: its bytes do not have the SHA-256 that it carries; take another copy"
        )
    try:
        tensors = safetensors.torch.load(data)
    except (safetensors.SafetensorError, KeyError) as error:
        raise Rejected(f"is no whole safetensors file: {error}") from error
    header = read_json(data[8 : 8 + int.from_bytes(data[:8], "little")], "header")
    metadata = header.get("__metadata__") or {}
    if not sealed:
        _check_unsealed(metadata)
    return metadata.get("contents", ""), tensors, sealed


def check_size(file: BinaryIO) -> None:
    """Refuse a large file that is not as long as its header says, before it is read whole."""
    size = os.fstat(file.fileno()).st_size
    if size <= LARGE:
        return
    length = int.from_bytes(file.read(8), "little")
    try:
        header = json.loads(file.read(min(length, LONGEST_HEADER)))
        ends = [entry["data_offsets"][1] for key, entry in header.items() if key[:2] != "__"]
        due = 8 + length + max(ends, default=0)
    except (ValueError, LookupError, TypeError, AttributeError):
        due = 8 + length
    if size != due:
        raise Rejected(f"is damaged: it has {size} bytes, and its header tells of {due}")
    file.seek(0)


def read_json(text: str | bytes, entry: str) -> Any:
    """Read a JSON text in which no key stands twice; ValueError refuses what is none."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise Rejected(f"{entry}: {key!r} stands there twice")
            found[key] = value
        return found

    return json.loads(text, object_pairs_hook=once)


def _digest(data: bytes | bytearray) -> bytes:
    view = memoryview(data)
    found = hashlib.sha256(view[: _PLACE.start])
    found.update(b"0" * 64)
    found.update(view[_PLACE.stop :])
    return found.hexdigest().encode()


def _check_unsealed(metadata: Mapping[str, str]) -> None:
    """Refuse what is no file of the version before digests, as that version was written."""
    if metadata.get("schema") != SCHEMA:
        raise Rejected(f"schema: {SCHEMA!r} can be loaded, got {metadata.get('schema')!r}")
    version = metadata.get("version")
    if version == VERSION:
        raise Rejected(f"is damaged: a file of version {VERSION} begins with its digest")
    if version != UNSEALED:
        raise Rejected(f"version: {UNSEALED!r} and {VERSION!r} can be loaded, got {version!r}")
    if "sha256" in metadata:
        raise Rejected(f"is damaged: a file of version {UNSEALED} has no digest, and this one has")
