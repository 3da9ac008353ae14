"""What both forms of gradients share: release on any exit, and look-up by ref, parameter or id."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from fast.device.buffer import Buffer
from fast.errors import Rejected, Released
from fast.ref import Entry
from fast.runtime.param import Param
from fast.runtime.store import Store
from fast.tape import Tape


class Gradients:
    """Gradients of the entries of one tape, which own their memory until they are released."""

    __slots__ = ("_buffers", "_released", "_tape", "store")

    def __init__(self, store: Store, tape: Tape) -> None:
        self.store = store
        self._tape = tape
        self._buffers: dict[int, Buffer] = {}
        self._released = False

    @property
    def released(self) -> bool:
        """Whether the gradients are gone."""
        return self._released

    def release(self) -> None:
        """Give the memory back; a second call does nothing.

        Every later use raises Released, also that of a buffer which was taken out before.
        """
        if self._released:
            return
        self._released = True
        if self._buffers:
            for buffer in self._buffers.values():
                buffer.release()
            self._buffers.clear()
        self._free()

    def check(self) -> None:
        """Raise `Released` if the gradients are gone."""
        if self._released:
            raise Released(
                f"{type(self).__name__}: it was released; call backward() again, or use the "
                "gradients before release() or before the end of their with block"
            )

    def __contains__(self, key: object) -> bool:
        """Say whether there is a gradient for a ref, a parameter or an id."""
        try:
            self._identity(key)
        except Rejected:
            return False
        return True

    def _identity(self, key: Any) -> int:
        """Return the id of the entry that a key stands for, if the gradients have it."""
        self.check()
        if isinstance(key, Entry):
            if key.tape is not self._tape:
                raise Rejected(
                    "gradients: this ref is of another session or of a tape that was reset; "
                    "take a ref of the tape that backward() ran on"
                )
            return self._known(key.id)
        if isinstance(key, Param):
            return self._first_leaf(key)
        if isinstance(key, Integral) and not isinstance(key, bool):
            return self._known(int(key))
        raise Rejected(
            f"gradients: a ref, a parameter or the id of an entry is needed, got {key!r}"
        )

    def _first_leaf(self, parameter: Param) -> int:
        for leaf, owner in self._parameters():
            if owner is parameter:
                return leaf
        raise Rejected(
            f"gradients: the parameter {parameter.name!r} was not used, trainable, on this tape"
        )

    def total(self, parameter: Param) -> Tensor:
        """Return the sum of a parameter's gradients over its leaves; it may be lent memory.

        Zeros stand for what was not reached; refusals are those of a look-up.
        """
        self._identity(parameter)
        found = [tensor for owner, tensor in self.totals() if owner is parameter]
        if len(found) < 2:
            return found[0] if found else torch.zeros(parameter.shape, dtype=parameter.dtype)
        total = found[0].to(parameter.dtype, copy=True)
        for further in found[1:]:
            total += further
        return total

    def totals(self) -> list[tuple[Param, Tensor]]:
        """Return the gradients of all parameters' leaves that were reached."""
        raise NotImplementedError

    def _known(self, identity: int) -> int:
        """Return the id, or refuse one that the gradients do not have."""
        raise NotImplementedError

    def _parameters(self) -> Iterator[tuple[int, Param]]:
        raise NotImplementedError

    def _free(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Any:
        self.check()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release on any exit."""
        self.release()

    def __del__(self) -> None:
        # An interrupted constructor leaves nothing to release.
        if not getattr(self, "_released", True):
            self.release()
