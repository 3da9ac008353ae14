"""Gradients on the device: sparse, by trainable leaf, or dense, by tape entry.

A gradient map owns its memory until `release()`, which is idempotent; `with` releases it on any
exit. It outlives the tape that made it. The seed of a backward pass stays the caller's.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from fast._arena import Arena
from fast.buffer import Buffer
from fast.errors import Rejected, Released, SessionError
from fast.param import Param
from fast.ref import Ref
from fast.tape import Again, Tape


def parameter_leaves(leaves: dict[int, Any]) -> Iterator[tuple[int, Param]]:
    """Iterate over the leaves that are uses of parameters, with the parameter."""
    for leaf, owner in leaves.items():
        if isinstance(owner, Again):
            yield leaf, owner.parameter
        elif isinstance(owner, Param):
            yield leaf, owner


class _Gradients:
    """What both forms share: release on any exit, and look-up by ref or by id."""

    __slots__ = ("_buffers", "_released", "_tape", "session")

    def __init__(self, session: Any, tape: Tape) -> None:
        self.session = session
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

    def move_to(self, tape: Tape) -> None:
        """Refuse to be added to; a gradient map can be."""
        raise Rejected(f"into: a map that backward() returned is needed, got {type(self).__name__}")

    def _identity(self, key: Ref | int) -> int:
        self.check()
        if isinstance(key, Ref):
            if key.tape is not self._tape:
                raise Rejected(
                    "gradients: this ref is of another session or of a tape that was reset; "
                    "take a ref of the tape that backward() ran on"
                )
            return key.id
        return key

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


class GradMap(_Gradients):
    """The device cotangents of the trainable leaves of one tape, each of its leaf's shape, by id.

    A parameter's first leaf has its slot of a gradient arena; its further leaves, and trainable
    inputs, have buffers of their own. The map owns them all until `release`, and lends what it
    returns. A ref of another tape, or of what is no trainable leaf, is Rejected.
    """

    __slots__ = ("_leaves", "_loose", "arena", "touched")

    def __init__(self, session: Any, tape: Tape, arena: Arena) -> None:
        # One of these is made in every training step.
        self.session = session
        self._tape = tape
        self._buffers = {}
        self._released = False
        self.arena = arena
        self.touched = bytearray(len(arena.views))
        # The tape drops this table when it is cleared, so that the map outlives it.
        self._leaves: dict[int, Any] = tape.leaves
        self._loose: dict[int, Buffer] = {}

    def accumulate(self, leaf: int, cotangent: Tensor) -> None:
        """Copy the first contribution into the leaf's own memory; add later ones there."""
        owner = self._leaves[leaf]
        if type(owner) is Param:
            slot, touched = owner.slot, self.touched
            view = self.arena.views[slot]
            if touched[slot]:
                view.add_(cotangent)
            else:
                if cotangent is not view:
                    view.copy_(cotangent)
                touched[slot] = 1
        elif leaf in self._loose:
            self._loose[leaf].tensor.add_(cotangent)
        else:
            copy = cotangent.clone(memory_format=torch.contiguous_format)
            self._loose[leaf] = Buffer(copy, "the gradient map")

    def places(self, parents: tuple[int, ...], dtype: torch.dtype) -> list[Tensor | None]:
        """Return the memory of those parents that are parameters' leaves not yet reached."""
        found: list[Tensor | None] = [None] * len(parents)
        if self.arena.flat.dtype is dtype:
            for position, leaf in enumerate(parents):
                owner = self._leaves.get(leaf)
                # A leaf that is twice a parent of one op adds its second contribution to its first.
                twice = leaf in parents[:position]
                if type(owner) is Param and not self.touched[owner.slot] and not twice:
                    found[position] = self.arena.views[owner.slot]
        return found

    def move_to(self, tape: Tape) -> None:
        """Let a pass over a tape add to the gradients; those of another tape's inputs are dropped.

        Zeros that were lent for leaves without a gradient end here: the pass may give them one.
        """
        self.check()
        if tape.session is not self.session:
            raise SessionError("into: these gradients are of another session")
        self._fit()
        if tape is self._tape:
            for leaf in [leaf for leaf in self._buffers if not self.reached(leaf)]:
                self._buffers.pop(leaf).release()
            return
        self._fold()
        self._tape, self._leaves = tape, tape.leaves
        for buffer in (*self._loose.values(), *self._buffers.values()):
            buffer.release()
        self._loose.clear()
        self._buffers.clear()

    @property
    def whole(self) -> bool:
        """Whether the arena alone holds every parameter's gradient, and holds it still."""
        return not self._released and not self._loose

    def totals(self) -> list[tuple[Param, Tensor]]:
        """Return the gradients of all parameters' leaves that were reached."""
        params = self.session.params
        slots = [slot for slot, reached in enumerate(self.touched) if reached]
        return [(params[slot], self.arena.views[slot]) for slot in slots] + self._again()

    def reached(self, key: Ref | Param | int) -> bool:
        """Say whether the loss reached a leaf; where it did not, the gradient is zero."""
        leaf = self._identity(key)
        owner = self._owner(leaf)
        return self._touched(owner) if isinstance(owner, Param) else leaf in self._loose

    def __getitem__(self, key: Ref | Param | int) -> Buffer:
        """Return the cotangent of a leaf, of the leaf's shape; zeros where it was not reached.

        A parameter stands for its first leaf. The buffer is lent: it ends with the map.
        """
        leaf = self._identity(key)
        owner = self._owner(leaf)
        found = self._loose.get(leaf) or self._buffers.get(leaf)
        if found is None:
            found = self._buffers[leaf] = self._buffer(owner)
        return found

    def __contains__(self, leaf: object) -> bool:
        return leaf in self._leaves

    def __iter__(self) -> Iterator[int]:
        return iter(self._leaves)

    def __len__(self) -> int:
        return len(self._leaves)

    def _identity(self, key: Ref | Param | int) -> int:
        if not isinstance(key, Param):
            return super()._identity(key)
        self.check()
        for leaf, owner in self._leaves.items():
            if owner is key:
                return leaf
        raise Rejected(
            f"gradients: the parameter {key.name!r} was not used, trainable, on this tape"
        )

    def _owner(self, leaf: int) -> Any:
        if leaf not in self._leaves:
            raise Rejected(
                f"gradients: node {leaf} is not a trainable leaf of this tape; the leaves are "
                f"{sorted(self._leaves)}; backward_dense() has the gradients of all nodes"
            )
        return self._leaves[leaf]

    def _buffer(self, owner: Any) -> Buffer:
        flat, dtype = self.arena.flat, self.session.options.compute
        if isinstance(owner, Param):
            if self._touched(owner):
                return Buffer(self.arena.views[owner.slot], "the gradient map", in_arena=True)
            dtype = flat.dtype
        shape = owner.parameter.shape if isinstance(owner, Again) else owner.shape
        return Buffer(flat.new_zeros(shape, dtype=dtype), "the gradient map")

    def _touched(self, owner: Param) -> bool:
        # A parameter that came after the map has no place in it yet.
        return owner.slot < len(self.touched) and bool(self.touched[owner.slot])

    def _fit(self) -> None:
        """Make room for parameters that came after the map; what was lent stays valid."""
        missing = len(self.session.params) - len(self.touched)
        if not missing:
            return
        self.arena.fit()
        self.touched.extend(bytes(missing))
        for leaf, buffer in self._buffers.items():
            owner = self._leaves[leaf]
            if isinstance(owner, Param) and self._touched(owner):
                buffer.moved(self.arena.views[owner.slot])

    def _again(self) -> list[tuple[Param, Tensor]]:
        found = []
        for leaf, buffer in self._loose.items():
            owner = self._leaves[leaf]
            if isinstance(owner, Again):
                found.append((owner.parameter, buffer.tensor))
        return found

    def _fold(self) -> None:
        for parameter, tensor in self._again():
            view = self.arena.views[parameter.slot]
            if self.touched[parameter.slot]:
                view.add_(tensor)
            else:
                view.copy_(tensor)
                self.touched[parameter.slot] = 1

    def _free(self) -> None:
        for buffer in self._loose.values():
            buffer.release()
        self._loose.clear()
        self.session.return_gradients(self.arena)
        # Who holds a map that was released holds no memory.
        del self.arena


class DenseGrads(_Gradients):
    """The device cotangents of every entry of one tape, zeros where the seed did not reach.

    Each has its entry's shape and memory of its own, which the gradients own until `release`.
    """

    __slots__ = ("_owners", "_shapes", "_table")

    def __init__(self, session: Any, tape: Tape, table: list[Tensor | None]) -> None:
        super().__init__(session, tape)
        self._shapes = [(value.shape, value.dtype, value.device) for value in tape.values]
        self._owners = list(parameter_leaves(tape.leaves))
        for identity, cotangent in enumerate(table):
            if cotangent is not None:
                self._buffers[identity] = Buffer(cotangent, "the dense gradients")
        self._table = frozenset(self._buffers)

    def reached(self, key: Ref | int) -> bool:
        """Say whether the seed reached an entry; where it did not, the gradient is zero."""
        return self._identity(key) in self._table

    def totals(self) -> list[tuple[Param, Tensor]]:
        """Return the gradients of all parameters' leaves that were reached."""
        return [
            (owner, self._buffers[leaf].tensor)
            for leaf, owner in self._owners
            if leaf in self._table
        ]

    def __getitem__(self, key: Ref | int) -> Buffer:
        """Return the cotangent of an entry; zeros, made when first asked for, if unreached."""
        identity = self._identity(key)
        if not 0 <= identity < len(self._shapes):
            raise Rejected(
                f"gradients: there is no entry {identity}; the tape had {len(self._shapes)}, "
                "ids from 0"
            )
        if identity not in self._buffers:
            shape, dtype, device = self._shapes[identity]
            zeros = torch.zeros(shape, dtype=dtype, device=device)
            self._buffers[identity] = Buffer(zeros, "the dense gradients")
        return self._buffers[identity]

    def __len__(self) -> int:
        return len(self._shapes)

    def _free(self) -> None:
        self._owners.clear()
