"""The model of a stateful test: what a session promises to hold, and for how long.

It is bookkeeping and nothing else: no number is computed here, and nothing of `fast` is asked.

* A parameter's value is in its host copy, in its mirror, or in both. A write on the host leaves the
  host copy alone, a write or an update on the device the mirror; a use brings the mirror up to
  date, a readback the host copy. Each write and each update is one version.
* A tape holds every result once. The leaf by which a parameter is used borrows the parameter's
  memory. A change of a parameter makes every tape stale that has used it: what lies behind the use
  can no longer be sent back, nor a borrowed value be read.
* A gradient map owns an arena of the parameters' size, from a pool to which it returns, and memory
  for each further leaf that was reached. It outlives its tape, and it ends by its release.
* An arena grows by doubling, when it is next needed, and is counted from then on.
* Each random op that is recorded takes one more number; nothing but a checkpoint sets it back.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import torch
from torch import Tensor

from equivalence.sessions.judge import State
from spec.optim import OPTIMIZERS

Shape = tuple[int, ...]

PADDED_TO = 64
"""Every parameter's segment of an arena is padded to a multiple of so many elements."""


def copied(groups: Groups, hyper: Mapping[str, Any]) -> bool:
    """Say whether an update clips a copy of the gradients: by value, or by a group's own norm."""
    own = [changed for _, changed in groups]
    by_value = any(one.get("max_value") is not None for one in (hyper, *own))
    return by_value or any("max_norm" in one for one in own)


@dataclass
class Arena:
    """A flat allocation with a segment per parameter."""

    itemsize: int
    numel: int = 0
    slots: int = 0

    def fit(self, total: int, slots: int) -> None:
        """Grow, where a parameter came since, to at least double."""
        if slots != self.slots and self.numel < total:
            self.numel = max(total, 2 * self.numel)
        self.slots = slots

    @property
    def nbytes(self) -> int:
        """The bytes of its storage."""
        return self.numel * self.itemsize


@dataclass
class Param:
    """A parameter: its value, where that is, and how often it was written."""

    shape: Shape
    trainable: bool
    value: Tensor
    current: str = "host"
    version: int = 0
    states: dict[str, State] = field(default_factory=dict)
    used: dict[str, Mapping[str, float]] = field(default_factory=dict)

    def uploaded(self) -> None:
        """Note that the mirror is brought up to date."""
        self.current = "both" if self.current == "host" else self.current

    def synchronized(self) -> None:
        """Note that the host copy is brought up to date."""
        self.current = "both" if self.current == "device" else self.current

    def written(self, value: Tensor, where: str) -> None:
        """Note a new value on the host or on the device."""
        self.value, self.current = value, where
        self.version += 1


@dataclass(frozen=True)
class Leaf:
    """A trainable leaf: of an input, or of a parameter, whose first on a tape has its segment."""

    shape: Shape
    param: int | None = None
    first: bool = False


@dataclass
class Entry:
    """One value on the tape: its bits, and the memory that it holds of its own.

    A use holds none: it borrows `param`'s at a `version`.
    """

    bits: Tensor
    nbytes: int = 0
    buffers: int = 0
    param: int | None = None
    version: int = 0


@dataclass
class Tape:
    """The values, the trainable leaves, and the uses of parameters with their versions."""

    entries: list[Entry] = field(default_factory=list)
    leaves: dict[int, Leaf] = field(default_factory=dict)
    uses: list[tuple[int, int, int]] = field(default_factory=list)
    naturals: list[list[int] | int] = field(default_factory=list)

    def numbers(self) -> list[int]:
        """List the entries that hold numbers, and no integers that an op has returned."""
        return [here for here, x in enumerate(self.entries) if x.bits.is_floating_point()]

    def count(self, param: int) -> int:
        """Count the uses of a parameter."""
        return sum(p == param for _, p, _ in self.uses)


Pieces = list[tuple[int, Tensor]]
"""What gradients hold for parameters: a parameter once for each leaf that was reached."""


Groups = Sequence[tuple[tuple[int, ...], Mapping[str, Any]]]
"""Parameters, and the hyper-parameters that differ for them."""


@dataclass
class Sparse:
    """A gradient map: by parameter what is in its arena, by leaf what has memory of its own.

    A leaf that was not reached has zeros, from when it is asked for to the next pass.
    """

    tape: Tape
    arena: Arena
    slots: dict[int, Tensor] = field(default_factory=dict)
    loose: dict[int, Tensor] = field(default_factory=dict)
    zeros: dict[int, Tensor] = field(default_factory=dict)

    def due(self, leaf: int) -> Tensor | None:
        """Return the gradient of a leaf; None where it was not reached."""
        known = self.tape.leaves[leaf]
        if known.first and known.param is not None:
            return self.slots.get(known.param)
        return self.loose.get(leaf)

    def known(self) -> list[int]:
        """List the entries that have a gradient or a zero: the trainable leaves of the tape."""
        return list(self.tape.leaves)

    def pieces(self) -> Pieces:
        """List what there is for parameters."""
        owners = [(self.tape.leaves[leaf].param, bits) for leaf, bits in self.loose.items()]
        again = [(owner, bits) for owner, bits in owners if owner is not None]
        return [*self.slots.items(), *again]

    def weight(self) -> tuple[int, int]:
        """Return bytes and buffers."""
        own = [bits.nbytes for bits in (*self.loose.values(), *self.zeros.values())]
        return self.arena.nbytes + sum(own), 1 + len(own)


@dataclass
class Dense:
    """The gradients of the `count` first entries: memory for what was reached or asked for."""

    tape: Tape
    count: int
    bits: dict[int, Tensor] = field(default_factory=dict)
    zeros: dict[int, Tensor] = field(default_factory=dict)

    def due(self, entry: int) -> Tensor | None:
        """Return the gradient of an entry; None where it was not reached."""
        return self.bits.get(entry)

    def known(self) -> list[int]:
        """List the entries that have a gradient or a zero: integers have none."""
        return [here for here in self.tape.numbers() if here < self.count]

    def pieces(self) -> Pieces:
        """List what there is for parameters."""
        owners = [(leaf, owner.param) for leaf, owner in self.tape.leaves.items()]
        return [(p, self.bits[leaf]) for leaf, p in owners if p is not None and leaf in self.bits]

    def weight(self) -> tuple[int, int]:
        """Return bytes and buffers."""
        own = [bits.nbytes for bits in (*self.bits.values(), *self.zeros.values())]
        return sum(own), len(own)


class Model:
    """A whole session."""

    def __init__(self, compute: torch.dtype, master: torch.dtype) -> None:
        """Model a fresh session with these dtypes of values and of parameters."""
        self.compute, self.master = compute, master
        self.params: list[Param] = []
        self.masters = Arena(master.itemsize)
        self.shadow = Arena(compute.itemsize) if compute is not master else None
        self.states: dict[str, dict[str, Arena]] = {}
        self.optimizers: set[str] = set()
        self.pool: list[Arena] = []
        self.tape = Tape()
        self.grads: dict[int, Sparse | Dense] = {}
        self.calls = 0
        self.buffers: list[Tensor] = []
        self.contents: list[ref[Tensor]] = []

    @property
    def total(self) -> int:
        """The elements of all segments."""
        return sum(-(-math.prod(p.shape) // PADDED_TO) * PADDED_TO for p in self.params)

    def fit(self, arena: Arena) -> Arena:
        """Let an arena have a segment for every parameter."""
        arena.fit(self.total, len(self.params))
        return arena

    def fresh(self, itemsize: int) -> Arena:
        """Make an arena that just fits."""
        return Arena(itemsize, self.total, len(self.params))

    def take(self) -> Arena:
        """Take a gradient arena: the last that was returned, or a new one."""
        return self.fit(self.pool.pop()) if self.pool else self.fresh(self.master.itemsize)

    def fit_states(self, optimizer: str) -> None:
        """Note that an optimizer's state is looked at or updated."""
        self.optimizers.add(optimizer)
        for arena in self.states.get(optimizer, {}).values():
            self.fit(arena)

    def hold_states(self, optimizer: str, moments: Collection[str]) -> None:
        """Note that an optimizer has state to keep, in an arena for each of its moments."""
        for name in moments:
            held = self.states.setdefault(optimizer, {})
            if name not in held:
                held[name] = self.fresh(self.master.itemsize)

    def updated(self, pieces: Pieces) -> set[int]:
        """Return the parameters that an update by these gradients writes."""
        return {param for param, _ in pieces if self.params[param].trainable}

    def held(
        self, optimizer: str, pieces: Pieces, groups: Groups, hyper: Mapping[str, Any], direct: bool
    ) -> None:
        """Note what memory an update leaves behind."""
        self.optimizers.add(optimizer)
        taken = [] if direct else [self.take()]
        if self.updated(pieces) and copied(groups, hyper):
            taken.append(self.take())
        self.pool += reversed(taken)
        if not self.updated(pieces):
            return
        self.fit_states(optimizer)
        every = [hyper, *({**hyper, **changed} for _, changed in groups)]
        page = OPTIMIZERS[optimizer]
        self.hold_states(optimizer, {name for one in every for name in page.kept(one)})

    def use(self, param: int) -> None:
        """Note a parameter's use as the next entry of the tape; the caller adds the entry."""
        owner, tape = self.params[param], self.tape
        owner.uploaded()
        if self.shadow is not None:
            self.fit(self.shadow)
        here = len(tape.entries)
        if owner.trainable:
            first = not any(leaf.param == param for leaf in tape.leaves.values())
            tape.leaves[here] = Leaf(owner.shape, param, first)
        tape.uses.append((here, param, owner.version))

    def stale(self, last: int) -> bool:
        """Say whether a parameter used at an entry up to `last` has changed since."""
        return any(
            self.params[param].version != version and here <= last
            for here, param, version in self.tape.uses
        )

    def unreadable(self, here: int) -> bool:
        """Say whether an entry borrows from a parameter that has changed since."""
        entry = self.tape.entries[here]
        return entry.param is not None and self.params[entry.param].version != entry.version

    def intact(self) -> Iterator[tuple[int, Entry]]:
        """Iterate over the entries whose bits must be what they were when they were made."""
        for here, entry in enumerate(self.tape.entries):
            if not self.unreadable(here):
                yield here, entry

    def sees(self, contents: Tensor) -> None:
        """Note that a named buffer holds a tensor."""
        known = [(held, held()) for held in self.contents]
        self.contents = [held for held, there in known if there is not None]
        if not any(there is contents for _, there in known):
            self.contents.append(ref(contents))

    def weight(self) -> tuple[int, int]:
        """Return the bytes and the buffers that the session owns."""
        arenas = [self.masters, *self.pool, *([self.shadow] if self.shadow else [])]
        arenas += [arena for held in self.states.values() for arena in held.values()]
        weights = [(arena.nbytes, 1) for arena in arenas]
        weights += [(entry.nbytes, entry.buffers) for entry in self.tape.entries]
        weights += [grads.weight() for grads in self.grads.values()]
        # What a buffer has held is owned for as long as a rule of the tape reads it.
        held = (contents() for contents in self.contents)
        weights += [(contents.nbytes, 1) for contents in held if contents is not None]
        return sum(b for b, _ in weights), sum(n for _, n in weights)
