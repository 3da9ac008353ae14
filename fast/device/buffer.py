"""Device storage with a shape, a dtype and one owner.

A buffer either holds memory of its own, which `release` gives back to torch's allocator, or is a
slice of an arena, where `release` ends the use and the arena keeps the memory.
"""

from __future__ import annotations

from torch import Size, Tensor, device, dtype

from fast.device.counters import counters
from fast.errors import Rejected, Released


class Buffer:
    """A device tensor that can be released: idempotently, and never used afterwards."""

    __slots__ = ("__weakref__", "_nbytes", "_tensor", "dtype", "owner", "shape")

    shape: Size
    dtype: dtype
    owner: str

    def __init__(self, tensor: Tensor, owner: str = "caller", in_arena: bool = False) -> None:
        """Take over `tensor`, without its autograd graph.

        in_arena says that an arena keeps and counts its memory.
        """
        self._tensor: Tensor | None = tensor.detach() if tensor.requires_grad else tensor
        self._nbytes = -1 if in_arena else tensor.nbytes
        self.shape = tensor.shape
        self.dtype = tensor.dtype
        self.owner = owner
        if self._nbytes >= 0:
            counters.allocate(self._nbytes)

    @property
    def tensor(self) -> Tensor:
        """The device tensor itself, which the owner may write; raises once released."""
        if self._tensor is None:
            raise Released(
                f"buffer: this buffer of {self.owner}, shape {tuple(self.shape)}, was released; "
                "take an owned_copy() of what must outlive its owner"
            )
        return self._tensor

    @property
    def device(self) -> device:
        """The device on which the storage lives."""
        return self.tensor.device

    @property
    def nbytes(self) -> int:
        """The bytes that the shape and the dtype ask for."""
        return self.shape.numel() * self.dtype.itemsize

    @property
    def released(self) -> bool:
        """Whether the buffer can no longer be used."""
        return self._tensor is None

    def release(self) -> None:
        """End the buffer's use; a second call does nothing.

        Memory of its own goes back to torch's allocator; a slice of an arena stays the arena's.
        Every later use raises Released.
        """
        if self._tensor is None:
            return
        self._tensor = None
        if self._nbytes >= 0:
            counters.free(self._nbytes)

    def moved(self, tensor: Tensor) -> None:
        """Follow an arena that has grown; only a slice of one moves."""
        if self._tensor is not None:
            self._tensor = tensor

    def owned_copy(self, shape: tuple[int, ...] | None = None, owner: str = "caller") -> Buffer:
        """Copy into memory of its own, after checking that the contents have the given shape.

        The caller owns the copy, which outlives this buffer. Another shape is Rejected, naming
        both; a buffer that was released raises Released.
        """
        source = self.tensor
        if shape is not None and tuple(shape) != tuple(source.shape):
            raise Rejected(
                f"buffer: an owned copy of shape {tuple(shape)} was asked for, "
                f"and the buffer's shape is {tuple(source.shape)}"
            )
        return Buffer(source.detach().clone(), owner)

    def __del__(self) -> None:
        # An interrupted constructor leaves no tensor to release.
        if getattr(self, "_tensor", None) is not None:
            self.release()

    def __repr__(self) -> str:
        state = ", released" if self._tensor is None else ""
        return f"Buffer({tuple(self.shape)}, {self.dtype}, owner={self.owner!r}{state})"
