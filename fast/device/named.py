"""Named buffers: state of a session that ops update and no gradient reaches, such as statistics.

Contents are replaced, never written: what an op has read stays as it was, so a backward pass over
an earlier tape is never stale. The counters count contents for as long as anybody holds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol
from weakref import finalize, ref

import torch
from torch import Tensor

from fast.device import bridge, flags
from fast.device.counters import counters
from fast.errors import Rejected


class Waits(Protocol):
    """A call that is put off."""

    def fill(self) -> None:
        """Compute it."""


class NamedBuffer:
    """A tensor that a session owns and its ops update; `Session.buffer` makes one."""

    __slots__ = ("_awaited", "_contents", "name", "owner")

    def __init__(self, owner: object, name: str, contents: Tensor) -> None:
        """Take over a device tensor; `owner` is the store that the buffer belongs to."""
        self.owner = owner
        self.name = name
        self._contents = counted(contents)
        self._awaited: ref[Waits] | None = None

    @property
    def contents(self) -> Tensor:
        """What ops read; what was put off and moves it is computed first."""
        waiting = self._awaited and self._awaited()
        if waiting is not None:
            waiting.fill()
        return self._contents

    def replace(self, contents: Tensor) -> None:
        """Hold another tensor from now on; what was put off no longer moves it."""
        self._awaited = None
        self._contents = contents

    def wait_for(self, call: Waits) -> None:
        """Let a call that was put off move the contents, once it is computed."""
        self._awaited = ref(call)

    def awaits(self, call: object) -> bool:
        """Say whether a call that was put off is to move the contents."""
        return self._awaited is not None and self._awaited() is call

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the contents, which stays."""
        return tuple(self.contents.shape)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the contents: that of the session's parameters."""
        return self.contents.dtype

    def value(self) -> Tensor:
        """Download the contents as a new host tensor, which the caller owns.

        Raises Rejected if a kernel has met an index out of range: since then nothing was written.
        """
        flags.raise_if_set(self.contents.device)
        return bridge.download(self.contents)

    def set(self, value: Any) -> None:
        """Replace the contents by a copy of data, rounded once; what an op has read stays.

        Data of another shape are Rejected, naming both, and nothing is changed.
        """
        given = bridge.to_device(value, self.dtype, self.contents.device)
        if given.shape != self.contents.shape:
            raise Rejected(
                f"buffer {self.name!r}: set needs the shape {self.shape}, got {tuple(given.shape)}"
            )
        # What an earlier call does to the contents is done before, and so it is no more.
        _ = self.contents
        self.replace(counted(given))

    def __repr__(self) -> str:
        return f"NamedBuffer({self.name!r}, {self.shape})"


def counted(contents: Tensor) -> Tensor:
    """Count a tensor with memory of its own until nobody holds it, a tape's rule included."""
    counters.allocate(contents.nbytes)
    finalize(contents, counters.free, contents.nbytes).atexit = False
    return contents


@contextmanager
def kept_if_it_fails(buffers: Sequence[NamedBuffer]) -> Iterator[None]:
    """Let buffers hold what they held before, if what runs here raises."""
    before = [(buffer, buffer.contents) for buffer in buffers]
    try:
        yield
    except BaseException:
        put_back(before)
        raise


def put_back(before: Iterable[tuple[NamedBuffer, Tensor]]) -> None:
    """Let buffers hold what they held before, whatever was put off since."""
    for buffer, contents in before:
        buffer.replace(contents)


def update(buffers: Sequence[NamedBuffer], made: Sequence[Tensor | None]) -> None:
    """Replace the contents of all buffers by copies of what an op has made; None leaves one.

    What does not fit is Rejected, as is a buffer that is there twice, and then none is changed.
    After an index out of range nothing is written, as with parameters.
    """
    found: list[tuple[NamedBuffer, Tensor]] = []
    for position, (buffer, tensor) in enumerate(zip(buffers, made, strict=True)):
        if buffer in buffers[:position]:
            raise Rejected(f"buffer {buffer.name!r}: an op updates a buffer once, and got it twice")
        if tensor is None:
            continue
        held = buffer.contents
        if tensor.shape != held.shape or tensor.dtype is not held.dtype:
            raise Rejected(
                f"buffer {buffer.name!r}: an op updates it by {held.dtype} of shape "
                f"{buffer.shape}, got {tensor.dtype} of shape {tuple(tensor.shape)}"
            )
        found.append((buffer, _unless_flagged(tensor.detach(), held)))
    for buffer, contents in found:
        buffer.replace(counted(contents))


def _unless_flagged(new: Tensor, old: Tensor) -> Tensor:
    """Return a copy of the new contents or, while the device's error flag is set, of the old."""
    word = flags.word(new.device)
    if word.is_cpu:
        return (old if word.item() else new).clone(memory_format=torch.contiguous_format)
    # The host does not wait for the flag.
    return torch.where(word == 0, new, old)
