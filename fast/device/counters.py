"""Counts what the machine owns and what crosses between host and device; anyone may read it.

Bytes are those of storages: a view of counted memory adds nothing.
During a backward pass an alias of a cotangent counts like a copy, so a peak is an upper bound.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol
from weakref import ReferenceType, ref


class Snapshot(NamedTuple):
    """The counters at one moment."""

    live_bytes: int
    live_buffers: int
    peak_bytes: int
    allocations: int
    uploads: int
    downloads: int

    @property
    def host_transfers(self) -> int:
        """The number of tensors that crossed between host and device, either way."""
        return self.uploads + self.downloads


class Weighed(Protocol):
    """What grows without telling the counters: it is asked when they are read."""

    def tell(self) -> None:
        """Count what was allocated since the last time."""


class Counters:
    """Live and peak bytes, live buffers, and running totals of allocations and transfers."""

    __slots__ = (
        "_allocations",
        "_growing",
        "_live_buffers",
        "_live_bytes",
        "_peak_bytes",
        "downloads",
        "uploads",
    )

    def __init__(self) -> None:
        self._live_bytes = 0
        self._live_buffers = 0
        self._peak_bytes = 0
        self._allocations = 0
        # By its address, where a later source takes the place of one that is gone.
        self._growing: dict[int, ReferenceType[Weighed]] = {}
        self.uploads = 0
        self.downloads = 0

    @property
    def live_bytes(self) -> int:
        """The bytes that are owned now."""
        return self.snapshot().live_bytes

    @property
    def live_buffers(self) -> int:
        """The number of storages that are owned now."""
        return self.snapshot().live_buffers

    @property
    def peak_bytes(self) -> int:
        """The most bytes that were owned at once since `reset_peak`."""
        return self.snapshot().peak_bytes

    @property
    def allocations(self) -> int:
        """The number of storages that were ever owned."""
        return self.snapshot().allocations

    @property
    def host_transfers(self) -> int:
        """The number of tensors that crossed between host and device, either way."""
        return self.uploads + self.downloads

    def watch(self, source: Weighed) -> None:
        """Ask a source, as long as it lives, before the counters are read."""
        self._growing[id(source)] = ref(source)

    def allocate(self, nbytes: int, buffers: int = 1) -> None:
        """Count buffers that now exist."""
        self._allocations += buffers
        self._live_buffers += buffers
        self._live_bytes += nbytes
        if self._live_bytes > self._peak_bytes:
            self._peak_bytes = self._live_bytes

    def free(self, nbytes: int, buffers: int = 1) -> None:
        """Count buffers that exist no longer."""
        self._live_buffers -= buffers
        self._live_bytes -= nbytes

    def passed(self, nbytes: int, buffers: int) -> None:
        """Count buffers that came and went, of which at most `nbytes` lived at once."""
        self._allocations += buffers
        if self._live_bytes + nbytes > self._peak_bytes:
            self._peak_bytes = self._live_bytes + nbytes

    def reset_peak(self) -> None:
        """Let the peak start again from what is live now."""
        self._peak_bytes = self.snapshot().live_bytes

    def snapshot(self) -> Snapshot:
        """Return all counters as they are now."""
        for key, known in tuple(self._growing.items()):
            source = known()
            if source is not None:
                source.tell()
            elif self._growing.get(key) is known:
                del self._growing[key]
        return Snapshot(
            self._live_bytes,
            self._live_buffers,
            self._peak_bytes,
            self._allocations,
            self.uploads,
            self.downloads,
        )


counters = Counters()
"""The counters of this process."""
