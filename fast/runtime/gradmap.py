"""Gradients on the device: sparse, by trainable leaf, or dense, by tape entry.

A gradient map owns its memory until `release()`, which is idempotent; `with` releases it on any
exit. It outlives the tape that made it. The seed of a backward pass stays the caller's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from fast.device import bridge
from fast.device.buffer import Buffer
from fast.errors import Rejected, SessionError
from fast.ref import Ref
from fast.runtime.gradients import Gradients
from fast.runtime.param import Param
from fast.runtime.store import Store
from fast.tape import Again, Tape


def parameter_leaves(leaves: dict[int, Any]) -> Iterator[tuple[int, Param]]:
    """Iterate over the leaves that are uses of parameters, with the parameter."""
    for leaf, owner in leaves.items():
        if isinstance(owner, Again):
            yield leaf, owner.parameter
        elif isinstance(owner, Param):
            yield leaf, owner


def _shape(owner: Any) -> tuple[int, ...]:
    """Return the shape of a trainable leaf."""
    owner = owner.parameter if isinstance(owner, Again) else owner
    return tuple(owner.shape)


class GradMap(Gradients):
    """The device cotangents of the trainable leaves of one tape, each of its leaf's shape, by id.

    A parameter's first leaf has its slot of a gradient arena; its further leaves, and trainable
    inputs, have buffers of their own. The map owns them all until `release`, and lends what it
    returns. A ref of another tape, or of what is no trainable leaf, is Rejected.
    """

    __slots__ = ("_leaves", "_loose", "arena", "touched")

    def __init__(self, store: Store, tape: Tape) -> None:
        # One of these is made in every training step.
        self.store = store
        self._tape = tape
        self._buffers = {}
        self._released = False
        self.arena = store.take_gradients()
        self.touched = bytearray(len(self.arena.views))
        # The tape drops this table when it is cleared, so that the map outlives it.
        self._leaves: dict[int, Any] = tape.leaves
        self._loose: dict[int, Buffer] = {}

    def accumulate(self, leaf: Ref | Param | int, cotangent: Buffer | Tensor) -> None:
        """Copy the first contribution into the leaf's own memory; add later ones there.

        It has the leaf's shape, lies on its device, in the precision of computation (or, for a
        parameter's first leaf, that of the parameters), and stays the caller's. What does not fit,
        and what is no trainable leaf, is Rejected, and nothing is changed; gradients and buffers
        that were released raise Released. Zeros that were lent for the leaf end here.
        """
        identity = self._identity(leaf)
        given = self._fitting(self._leaves[identity], cotangent)
        self._fit()
        if identity in self._buffers and not self._holds(identity):
            self._buffers.pop(identity).release()
        self.add(identity, given)

    def add(self, leaf: int, cotangent: Tensor) -> None:
        """Take a contribution as `accumulate` does, unchecked: for the sweep of a backward pass."""
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
        arena, leaves, touched = self.arena, self._leaves, self.touched
        if arena.flat.dtype is dtype:
            for position, leaf in enumerate(parents):
                owner = leaves.get(leaf)
                if type(owner) is not Param or touched[owner.slot]:
                    continue
                # A leaf that is twice a parent of one op adds its second contribution to its first.
                if leaf not in parents[:position]:
                    found[position] = arena.views[owner.slot]
        return found

    def move_to(self, store: Store, tape: Tape) -> None:
        """Let a pass over a tape add to the gradients; those of another tape's inputs are dropped.

        Zeros that were lent for leaves without a gradient end here: the pass may give them one.
        """
        self.check()
        if store is not self.store:
            raise SessionError("into: these gradients are of another session")
        self._fit()
        if tape is self._tape:
            for leaf in [leaf for leaf in self._buffers if not self._holds(leaf)]:
                self._buffers.pop(leaf).release()
            return
        self._fold()
        self._tape, self._leaves = tape, tape.leaves
        for buffer in (*self._loose.values(), *self._buffers.values()):
            buffer.release()
        self._loose.clear()
        self._buffers.clear()

    @property
    def there(self) -> bool:
        """Whether nothing has yet to be computed of them; a compiled session may put that off."""
        return True

    @property
    def whole(self) -> bool:
        """Whether the arena alone holds every parameter's gradient, and holds it still."""
        return not self._released and not self._loose

    def totals(self) -> list[tuple[Param, Tensor]]:
        """Return the gradients of all parameters' leaves that were reached."""
        params = self.store.params
        slots = [slot for slot, reached in enumerate(self.touched) if reached]
        return [(params[slot], self.arena.views[slot]) for slot in slots] + self._again()

    def reached(self, key: Ref | Param | int) -> bool:
        """Say whether the loss reached a leaf; where it did not, the gradient is zero.

        A parameter stands for its first leaf. What is no trainable leaf of the tape is Rejected;
        gradients that were released raise Released.
        """
        return self._holds(self._identity(key))

    def __getitem__(self, key: Ref | Param | int) -> Buffer:
        """Return the cotangent of a leaf, of the leaf's shape; zeros where it was not reached.

        A parameter stands for its first leaf. The buffer is lent: it ends with the map, and another
        is lent where the caller has released it. Refusals are those of `reached`.
        """
        leaf = self._identity(key)
        found = self._buffers.get(leaf)
        if found is None or found.released:
            found = self._buffers[leaf] = self._lend(leaf)
        return found

    def __iter__(self) -> Iterator[int]:
        self.check()
        return iter(self._leaves)

    def __len__(self) -> int:
        self.check()
        return len(self._leaves)

    def _known(self, identity: int) -> int:
        if identity not in self._leaves:
            raise Rejected(
                f"gradients: node {identity} is not a trainable leaf of this tape; the leaves are "
                f"{sorted(self._leaves)}; backward_dense() has the gradients of all nodes"
            )
        return identity

    def _parameters(self) -> Iterator[tuple[int, Param]]:
        return parameter_leaves(self._leaves)

    def _fitting(self, owner: Any, came: Any) -> Tensor:
        """Return a contribution from outside as a tensor, if it fits the leaf."""
        given = came.tensor if isinstance(came, Buffer) else came
        if not isinstance(given, Tensor):
            raise Rejected(
                f"accumulate: takes a buffer or a torch tensor, got {type(came).__name__}; "
                "upload() makes a buffer of host data"
            )
        given, shape = bridge.dense("accumulate", given), _shape(owner)
        if given.shape != shape:
            raise Rejected(
                f"accumulate: the leaf has the shape {tuple(shape)}, got {tuple(given.shape)}"
            )
        device, dtypes = self.arena.flat.device, [self.store.options.compute]
        if isinstance(owner, Param) and owner.dtype not in dtypes:
            dtypes.append(owner.dtype)
        if given.dtype not in dtypes or given.device != device:
            raise Rejected(
                f"accumulate: the leaf takes {' or '.join(map(str, dtypes))} on {device}, "
                f"got {given.dtype} on {given.device}"
            )
        return given

    def _lend(self, leaf: int) -> Buffer:
        owner, loose = self._leaves[leaf], self._loose.get(leaf)
        flat, dtype = self.arena.flat, self.store.options.compute
        if loose is not None:
            return Buffer(loose.tensor, "the gradient map", in_arena=True)
        if isinstance(owner, Param):
            if self._touched(owner):
                return Buffer(self.arena.views[owner.slot], "the gradient map", in_arena=True)
            dtype = flat.dtype
        return Buffer(flat.new_zeros(_shape(owner), dtype=dtype), "the gradient map")

    def _holds(self, leaf: int) -> bool:
        owner = self._leaves[leaf]
        return self._touched(owner) if isinstance(owner, Param) else leaf in self._loose

    def _touched(self, owner: Param) -> bool:
        # A parameter that came after the map has no place in it yet.
        return owner.slot < len(self.touched) and bool(self.touched[owner.slot])

    def _fit(self) -> None:
        """Make room for parameters that came after the map; what was lent stays valid."""
        missing = len(self.store.params) - len(self.touched)
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
        if self._loose:
            for buffer in self._loose.values():
                buffer.release()
            self._loose.clear()
        self.store.return_gradients(self.arena)
        # Who holds a map that was released holds no memory.
        del self.arena


class DenseGrads(Gradients):
    """The device cotangents of every entry of one tape, zeros where the seed did not reach.

    Integers that an op has returned have none. Each has its entry's shape and memory of its own,
    which the gradients own until `release`.
    """

    __slots__ = ("_lent", "_owners", "_shapes", "_table")

    def __init__(self, store: Store, tape: Tape, table: list[Tensor | None]) -> None:
        super().__init__(store, tape)
        self._shapes = [(value.shape, value.dtype, value.device) for value in tape.values]
        self._owners = list(parameter_leaves(tape.leaves))
        for identity, cotangent in enumerate(table):
            if cotangent is not None:
                self._buffers[identity] = Buffer(cotangent, "the dense gradients")
        self._lent: dict[int, Buffer] = {}
        self._table = frozenset(self._buffers)

    def reached(self, key: Ref | Param | int) -> bool:
        """Say whether the seed reached an entry; where it did not, the gradient is zero.

        A parameter stands for its first trainable leaf. What is no entry of the tape as the pass
        found it is Rejected; gradients that were released raise Released.
        """
        return self._identity(key) in self._table

    def totals(self) -> list[tuple[Param, Tensor]]:
        """Return the gradients of all parameters' leaves that were reached."""
        return [
            (owner, self._buffers[leaf].tensor)
            for leaf, owner in self._owners
            if leaf in self._table
        ]

    def __getitem__(self, key: Ref | Param | int) -> Buffer:
        """Return the cotangent of an entry; zeros, made when first asked for, if unreached.

        The buffer is lent: it ends with the gradients, and another is lent where the caller has
        released it. Refusals are those of `reached`.
        """
        identity = self._identity(key)
        found = self._lent.get(identity)
        if found is None or found.released:
            tensor = self._held(identity).tensor
            found = self._lent[identity] = Buffer(tensor, "the dense gradients", in_arena=True)
        return found

    def __iter__(self) -> Iterator[int]:
        self.check()
        return (k for k, (_, dtype, _) in enumerate(self._shapes) if dtype.is_floating_point)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _held(self, identity: int) -> Buffer:
        if identity not in self._buffers:
            shape, dtype, device = self._shapes[identity]
            zeros = torch.zeros(shape, dtype=dtype, device=device)
            self._buffers[identity] = Buffer(zeros, "the dense gradients")
        return self._buffers[identity]

    def _known(self, identity: int) -> int:
        if not 0 <= identity < len(self._shapes):
            raise Rejected(
                f"gradients: there is no entry {identity}; the tape had {len(self._shapes)}, "
                "ids from 0"
            )
        if not self._shapes[identity][1].is_floating_point:
            raise Rejected(f"gradients: the entry {identity} holds integers, which have none")
        return identity

    def _parameters(self) -> Iterator[tuple[int, Param]]:
        return iter(self._owners)

    def _free(self) -> None:
        for buffer in self._lent.values():
            buffer.release()
        self._lent.clear()
        self._owners.clear()
