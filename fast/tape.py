"""The tape: an append-only list of values, each with the rule that takes its cotangent back.

An id is an index. A node is one tuple, `(vjp, saved, parents, needs, form)`; a trainable leaf is
`LEAF`; and a node that no trainable leaf feeds has no rule, so that nothing is saved for it.
Several results of one op stand one after the other and share its rule, whose form is their ids; it
runs once, with a tuple of their cotangents, None for those that were not reached.

A backward pass walks the ids downwards and keeps one cotangent per reached node, at most:
* the first contribution to a leaf is copied into the leaf's own gradient, and later ones are added
  there, so a rule may hand back the cotangent itself, or a view of it; a rule of the form `WRITES`
  is told where that is, by `Sink.places`, and may write its contribution there itself;
* the first contribution to another node is borrowed, never written; the second makes a fresh sum,
  which later ones are added to;
* a node's cotangent is dropped as soon as its rule has run; an unreached node's rule never runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from traceback import clear_frames
from typing import Any, Final, NamedTuple, Protocol

import torch
from torch import Tensor

from fast.device.counters import counters
from fast.errors import Rejected, Stale

LEAF: tuple[Any, ...] = ("trainable leaf",)
"""The rule of a leaf whose gradient is kept."""

WRITES: Final = True
"""The form of a rule that takes, beside the others, the memory where leaves' gradients are kept."""

NO_PARENT = -1
"""Stands for an index input, which has no cotangent."""

NEEDED = (True,)
NEEDED_OF_TWO = (((), (False, True)), ((True, False), (True, True)))
"""What a rule with one or two parents is told of them; nothing where none is needed."""


class Input(NamedTuple):
    """What is known of a trainable leaf that is no parameter."""

    shape: torch.Size


class Again(NamedTuple):
    """The owner of a leaf by which a parameter is used once more on the same tape."""

    parameter: Any


Accumulate = Callable[[int, Tensor], None]
Places = Callable[[tuple[int, ...], torch.dtype], Sequence[Tensor | None]]


class Sink(Protocol):
    """What takes the cotangents of trainable leaves."""

    def accumulate(self, leaf: int, cotangent: Tensor) -> None:
        """Copy a leaf's first contribution, or add a later one; see `places`."""

    def places(self, parents: tuple[int, ...], dtype: torch.dtype) -> Sequence[Tensor | None]:
        """Offer, per parent, memory for a first contribution; `accumulate` is handed it back."""


class Tape:
    """Values and rules by id, the parameters that were used, and what the tape's memory weighs.

    `names` are those of ops, and of leaves that were given one, by id too. `naturals` are numbers
    that ops read and no cotangent reaches, recorded beside the values.

    `bytes` are those of the storages that the tape alone holds; `extra` is by how many their number
    differs from the number of values. The counters hear of both when they ask.
    """

    __slots__ = (
        "__weakref__",
        "_told_buffers",
        "_told_bytes",
        "bytes",
        "extra",
        "leaves",
        "names",
        "naturals",
        "rules",
        "session",
        "uses",
        "values",
    )

    def __init__(self, session: Any = None) -> None:
        self.session = session
        self.values: list[Tensor] = []
        self.rules: list[tuple[Any, ...] | None] = []
        self.leaves: dict[int, Any] = {}
        self.names: list[str | None] = []
        self.uses: dict[int, tuple[Any, int]] = {}
        self.naturals: list[Tensor] = []
        self.bytes = self.extra = self._told_bytes = self._told_buffers = 0
        counters.watch(self)

    def __len__(self) -> int:
        return len(self.values)

    def leaf(self, value: Tensor, trainable: bool, name: str | None = None) -> int:
        """Append a leaf that owns its value."""
        identity = len(self.values)
        self.values.append(value)
        self.names.append(name)
        self.rules.append(LEAF if trainable else None)
        if trainable:
            self.leaves[identity] = Input(value.shape)
        self.bytes += value.nbytes
        return identity

    def use(self, value: Tensor, parameter: Any, trainable: bool, again: bool = False) -> int:
        """Append a leaf that borrows a parameter's memory, and remember the version it saw."""
        identity = len(self.values)
        self.values.append(value)
        self.names.append(None)
        self.rules.append(LEAF if trainable else None)
        if trainable:
            # Uses while it was frozen are no leaves: the first that is one is the parameter's.
            again = again and any(owner is parameter for owner in self.leaves.values())
            self.leaves[identity] = Again(parameter) if again else parameter
        self.extra -= 1
        self.uses[identity] = parameter, parameter.version
        return identity

    def append_several(
        self,
        name: str,
        results: tuple[Tensor, ...],
        inputs: tuple[Tensor, ...],
        rule: tuple[Any, ...] | None,
        still: tuple[int, ...],
    ) -> range:
        """Append the results of one op, `rule` being that of an op with one; return their ids.

        Those that are `still`, by position among them, never have a cotangent.
        """
        ids = range(len(self.values), len(self.values) + len(results))
        if len(still) == len(results):
            rule = None
        known = list(inputs)
        saved = () if rule is None else rule[1]
        self.extra -= len(results)
        for tensor in (*results, *(item for item in saved if isinstance(item, Tensor))):
            self._weigh_unless_shared(tensor, known)
            known.append(tensor)
        shared = (*rule[:-1], ids) if rule is not None and len(ids) > 1 else rule
        self.values += results
        self.names += [name] * len(results)
        self.rules += [None if k in still else shared for k in range(len(results))]
        return ids

    def weigh(self, value: Tensor, inputs: Sequence[Tensor], saved: tuple[Any, ...]) -> None:
        """Weigh the storages of a result about to be appended, and of what its op saved."""
        is_view = value._is_view()
        if is_view or value.data_ptr() == inputs[0].data_ptr():
            self.extra -= 1
            self._weigh_unless_shared(value, inputs)
        else:
            self.bytes += value.nbytes
        for item in saved:
            if type(item) is Tensor and item is not value:
                for known in inputs:
                    if item is known:
                        break
                else:
                    if is_view or item._is_view():
                        self._weigh_unless_shared(item, (value, *inputs))
                    else:
                        self.bytes += item.nbytes
                        self.extra += 1

    def _weigh_unless_shared(self, tensor: Tensor, others: Sequence[Tensor]) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if all(other.untyped_storage()._cdata != key for other in others):
            self.bytes += storage.nbytes()
            self.extra += 1

    def tell(self) -> None:
        """Let the counters know what the tape has taken since they last heard of it."""
        buffers = len(self.values) + self.extra
        counters.allocate(self.bytes - self._told_bytes, buffers - self._told_buffers)
        self._told_bytes, self._told_buffers = self.bytes, buffers

    @property
    def untold(self) -> int:
        """The bytes that the counters have not heard of."""
        return self.bytes - self._told_bytes

    def check_versions(self, last: int) -> None:
        """Raise `Stale` if a parameter used at an id up to `last` has changed since."""
        for identity, (parameter, version) in self.uses.items():
            if parameter.version != version and identity <= last:
                raise _stale(parameter, version)

    def check_borrowed(self, *identities: int) -> None:
        """Raise `Stale` if an entry borrows the memory of a parameter that has changed since."""
        for identity in identities:
            parameter, version = self.uses.get(identity, (None, 0))
            if parameter is not None and parameter.version != version:
                raise _stale(parameter, version)

    def clear(self) -> None:
        """Drop every value and rule; the memory of parameters is theirs and stays."""
        # What the counters have not heard of has come and gone; the rest is free from now on.
        buffers = len(self.values) + self.extra
        counters.passed(self.bytes - self._told_bytes, buffers - self._told_buffers)
        if self._told_bytes or self._told_buffers:
            counters.free(self._told_bytes, self._told_buffers)
        self.session = None
        # Whoever looks at the old lists, such as a gradient map at the leaves, keeps them.
        self.values, self.rules = [], []
        self.uses, self.names, self.leaves, self.naturals = {}, [], {}, []
        self.bytes = self.extra = self._told_bytes = self._told_buffers = 0

    def __del__(self) -> None:
        if getattr(self, "values", None):
            self.clear()


def backward_sparse(tape: Tape, out: int, seed: Tensor, sink: Sink) -> None:
    """Send `seed` back from node `out`, keeping only the cotangents of trainable leaves."""
    send_back(tape, out, seed, sink.accumulate, sink.places)


def send_back(tape: Tape, out: int, seed: Tensor, accumulate: Accumulate, places: Places) -> None:
    """Do as `backward_sparse` with the two functions of a sink."""
    if tape.rules[out] is LEAF:
        accumulate(out, seed)
        return
    _sweep(tape, out, seed, accumulate, places)


def backward_dense(tape: Tape, out: int, seed: Tensor) -> list[Tensor | None]:
    """Return the cotangent of every node, each in memory of its own; None where unreached."""
    table = _sweep(tape, out, seed.clone(), None, _nowhere)
    storages: set[int] = set()
    for identity, cotangent in enumerate(table):
        if cotangent is None:
            continue
        storage = cotangent.untyped_storage()
        if storage._cdata in storages or storage.nbytes() != cotangent.nbytes:
            table[identity] = cotangent = cotangent.clone(memory_format=torch.contiguous_format)
        storages.add(cotangent.untyped_storage()._cdata)
    return table


def _nowhere(parents: tuple[int, ...], dtype: torch.dtype) -> Sequence[Tensor | None]:
    return [None] * len(parents)


def _sweep(
    tape: Tape, out: int, seed: Tensor, accumulate: Accumulate | None, places: Places
) -> list[Tensor | None]:
    """Run the rules from `out` downwards; without a sink, keep every cotangent."""
    # This runs for every node of every backward pass.
    rules, values = tape.rules, tape.values
    table: list[Tensor | None] = [None] * (out + 1)
    table[out] = seed
    owned: set[int] = set()
    answered: set[int] = set()
    # A sink takes the leaves' cotangents; without one, no rule is the leaf's.
    leaf = LEAF if accumulate is not None else ()
    live = peak = made = 0
    try:
        for identity in range(out, -1, -1):
            cotangent = table[identity]
            if cotangent is None:
                continue
            rule = rules[identity]
            if rule is None or rule is LEAF:
                continue
            vjp, saved, parents, needs, form = rule
            if not form:
                contributions = vjp(saved, cotangent, needs)
            elif form is WRITES:
                contributions = vjp(saved, cotangent, needs, places(parents, cotangent.dtype))
            else:
                contributions = _from_several(rule, table, answered)
            for parent, contribution in zip(parents, contributions, strict=True):
                if contribution is None:
                    continue
                before = table[parent]
                if before is None and rules[parent] is not leaf:
                    # Its shape is checked where it is added, or where it reaches a leaf.
                    table[parent] = contribution
                    made += 1
                    live += contribution.nbytes
                    if live > peak:
                        peak = live
                    continue
                if contribution.shape != values[parent].shape:
                    raise _wrong_shape(identity, parent, contribution, values[parent])
                if before is None:
                    assert accumulate is not None
                    accumulate(parent, contribution)
                elif parent in owned:
                    before.add_(contribution)
                else:
                    table[parent] = before + contribution
                    owned.add(parent)
                    made += 1
            if leaf:
                table[identity] = None
                live -= cotangent.nbytes
        return table
    except BaseException as error:
        # The traceback keeps this frame and the rules' frames, but must not keep cotangents.
        table.clear()
        cotangent = contribution = contributions = before = None
        clear_frames(error.__traceback__)
        raise
    finally:
        counters.passed(tape.untold + peak, made)


def _from_several(
    rule: tuple[Any, ...], table: list[Tensor | None], answered: set[int]
) -> tuple[Tensor | None, ...]:
    """Run the rule of several results at the first that the sweep meets: all cotangents are in."""
    vjp, saved, parents, needs, results = rule
    if results.start in answered:
        return (None,) * len(parents)
    answered.add(results.start)
    came = tuple(table[k] if k < len(table) else None for k in results)
    found: tuple[Tensor | None, ...] = vjp(saved, came, needs)
    return found


def _wrong_shape(node: int, parent: int, came: Tensor, wanted: Tensor) -> Rejected:
    return Rejected(
        f"tape: the rule of node {node} returned a cotangent of shape {tuple(came.shape)} for its "
        f"parent {parent}, whose shape is {tuple(wanted.shape)}"
    )


def _stale(parameter: Any, version: int) -> Stale:
    return Stale(
        f"tape: the parameter {parameter.name!r} was used at version {version} and is at version "
        f"{parameter.version} now, so what the tape saved of it is gone; call reset_tape() and run "
        "the program again"
    )
