"""The tape's promises about cotangents, with rules made for the purpose."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

from fast import Rejected
from fast.device.counters import counters
from fast.tape import LEAF, Tape, backward_dense, backward_sparse


class Leaves:
    """A sink that copies the first contribution and adds the later ones."""

    def __init__(self) -> None:
        self.found: dict[int, Tensor] = {}

    def accumulate(self, leaf: int, cotangent: Tensor) -> None:
        if leaf in self.found:
            self.found[leaf].add_(cotangent)
        else:
            self.found[leaf] = cotangent.clone()

    def places(self, parents: tuple[int, ...], dtype: torch.dtype) -> list[Tensor | None]:
        return [None] * len(parents)


def node(tape: Tape, value: Tensor, parents: tuple[int, ...], rule: Any) -> int:
    """Append an op whose rule is a function of the cotangent."""
    needs = tuple(tape.rules[p] is not None for p in parents)

    def vjp(saved: tuple[Any, ...], cotangent: Tensor, needs: tuple[bool, ...]) -> Any:
        return rule(cotangent)

    inputs = [tape.values[p] for p in parents]
    return tape.apply(value, inputs, (), (vjp, (), parents, needs) if any(needs) else None)


def sparse(tape: Tape, out: int, seed: Tensor) -> dict[int, list[float]]:
    sink = Leaves()
    backward_sparse(tape, out, seed, sink)
    return {leaf: cotangent.tolist() for leaf, cotangent in sink.found.items()}


def test_ids_are_indices_and_a_node_without_trainable_parents_saves_nothing() -> None:
    tape = Tape()
    x = tape.leaf(torch.ones(2), trainable=False)
    y = node(tape, torch.ones(2), (x,), lambda g: (g,))
    z = tape.leaf(torch.ones(2), trainable=True)
    assert (x, y, z, len(tape)) == (0, 1, 2, 3)
    assert tape.rules == [None, None, LEAF]


def test_a_rule_may_return_the_cotangent_itself_twice() -> None:
    tape = Tape()
    x = tape.leaf(torch.ones(2), trainable=True)
    y = node(tape, torch.ones(2), (x, x), lambda g: (g, g))
    seed = torch.tensor([1.0, 3.0])
    assert sparse(tape, y, seed) == {x: [2.0, 6.0]}
    assert seed.tolist() == [1.0, 3.0]


def test_sums_of_aliases_never_write_an_alias() -> None:
    # a and b both pass the cotangent on; c receives it three times, by views of one tensor.
    tape = Tape()
    x = tape.leaf(torch.ones(2), trainable=True)
    c = node(tape, torch.ones(2), (x,), lambda g: (g,))
    b = node(tape, torch.ones(2), (c, c), lambda g: (g, g.view(2)))
    a = node(tape, torch.ones(2), (b, c), lambda g: (g, g))
    seed = torch.tensor([1.0, 2.0])
    assert sparse(tape, a, seed) == {x: [3.0, 6.0]}
    assert seed.tolist() == [1.0, 2.0]


def test_an_expanded_cotangent_is_no_trap() -> None:
    tape = Tape()
    x = tape.leaf(torch.ones(3), trainable=True)
    y = node(tape, torch.ones(3), (x,), lambda g: (g,))
    total = node(tape, torch.tensor(3.0), (y,), lambda g: (g.expand(3),))
    again = node(tape, torch.tensor(3.0), (y,), lambda g: (g.expand(3),))
    both = node(tape, torch.tensor(6.0), (total, again), lambda g: (g, g))
    assert sparse(tape, both, torch.tensor(1.0)) == {x: [2.0, 2.0, 2.0]}


def test_the_rule_of_an_unreached_node_never_runs() -> None:
    def never(g: Tensor) -> Any:
        raise AssertionError("an unreached rule ran")

    tape = Tape()
    x = tape.leaf(torch.ones(1), trainable=True)
    node(tape, torch.ones(1), (x,), never)
    y = node(tape, torch.ones(1), (x,), lambda g: (g * 2,))
    node(tape, torch.ones(1), (y,), never)
    assert sparse(tape, y, torch.ones(1)) == {x: [2.0]}
    dense = backward_dense(tape, y, torch.ones(1))
    assert [g if g is None else g.tolist() for g in dense] == [[2.0], None, [1.0]]


def test_a_cotangent_is_dropped_as_soon_as_it_was_propagated() -> None:
    alive: list[int] = []
    seen: list[weakref.ref[Tensor]] = []

    def rule(g: Tensor) -> tuple[Tensor]:
        alive.append(sum(ref() is not None for ref in seen))
        made = g * 1
        seen.append(weakref.ref(made))
        return (made,)

    tape = Tape()
    out = tape.leaf(torch.ones(1), trainable=True)
    for _ in range(6):
        out = node(tape, torch.ones(1), (out,), rule)
    sparse(tape, out, torch.ones(1))
    assert alive == [0, 1, 1, 1, 1, 1]
    assert all(ref() is None for ref in seen)


@pytest.mark.usefixtures("settled")
def test_an_error_in_the_middle_releases_what_was_made() -> None:
    seen: list[weakref.ref[Tensor]] = []

    def good(g: Tensor) -> tuple[Tensor]:
        made = g * 1
        seen.append(weakref.ref(made))
        return (made,)

    def bad(g: Tensor) -> Any:
        raise ValueError("in the middle")

    tape = Tape()
    x = tape.leaf(torch.ones(1), trainable=True)
    y = node(tape, torch.ones(1), (x,), bad)
    z = node(tape, torch.ones(1), (y,), good)
    other = node(tape, torch.ones(1), (x,), good)
    out = node(tape, torch.ones(1), (z, other), lambda g: (g * 2, g * 2))
    before = counters.snapshot()
    with pytest.raises(ValueError, match="in the middle") as caught:
        sparse(tape, out, torch.ones(1))
    # The traceback, and with it every frame, is still alive here.
    assert caught.value.__traceback__ is not None
    assert [ref() for ref in seen] == [None, None]
    after = counters.snapshot()
    assert (after.live_bytes, after.live_buffers) == (before.live_bytes, before.live_buffers)


@pytest.mark.usefixtures("settled")
def test_nothing_is_allocated_for_untouched_nodes() -> None:
    tape = Tape()
    x = tape.leaf(torch.ones(4), trainable=True)
    y = node(tape, torch.ones(4), (x,), lambda g: (g,))
    for _ in range(50):
        node(tape, torch.ones(4), (x,), lambda g: (g,))
    z = node(tape, torch.ones(4), (y,), lambda g: (g,))
    before = counters.snapshot()
    sparse(tape, z, torch.ones(4))
    assert counters.allocations - before.allocations == 1


def test_dense_gradients_have_memory_of_their_own() -> None:
    tape = Tape()
    x = tape.leaf(torch.ones(2), trainable=True)
    y = node(tape, torch.ones(2), (x,), lambda g: (g,))
    z = node(tape, torch.ones(1, 2), (y,), lambda g: (g.view(2),))
    seed = torch.tensor([[1.0, 2.0]])
    table = backward_dense(tape, z, seed)
    for cotangent in table:
        assert cotangent is not None
        cotangent.add_(10.0)
    assert [g.tolist() for g in table if g is not None] == [[11, 12], [11, 12], [[11, 12]]]
    assert seed.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("twice", [False, True])
def test_a_cotangent_of_the_wrong_shape_is_refused(twice: bool) -> None:
    tape = Tape()
    x = tape.leaf(torch.ones(2), trainable=True)
    y = node(tape, torch.ones(2), (x,), lambda g: (g,))
    parents, rule = ((y, y), lambda g: (g, g[:1])) if twice else ((x,), lambda g: (g[:1],))
    z = node(tape, torch.ones(2), parents, rule)
    with pytest.raises(Rejected, match=r"node 2 returned .* shape \(1,\).* shape is \(2,\)"):
        sparse(tape, z, torch.ones(2))


@pytest.mark.usefixtures("settled")
def test_views_weigh_nothing_and_clearing_returns_everything() -> None:
    before = counters.snapshot()
    tape = Tape()
    x = tape.leaf(torch.ones(4, 4), trainable=True)
    held = counters.snapshot()
    assert held.live_bytes - before.live_bytes == 64
    value = tape.values[x]
    for alias in (value.view(16), value.t(), value.expand(3, 4, 4), value.detach()):
        tape.apply(alias, [value], (), None)
    assert counters.snapshot() == held
    extra = torch.ones(2)
    rule = (lambda saved, g, needs: (g,), (value, extra), (x,), (True,))
    tape.apply(torch.ones(4, 4), [value], (value, extra), rule)
    assert counters.live_bytes - held.live_bytes == 64 + 8
    assert counters.live_buffers - held.live_buffers == 2
    tape.clear()
    after = counters.snapshot()
    assert (after.live_bytes, after.live_buffers) == (before.live_bytes, before.live_buffers)
    assert after.peak_bytes >= before.live_bytes + 136


@pytest.mark.usefixtures("settled")
def test_what_was_saved_and_returned_as_a_view_weighs_once() -> None:
    tape = Tape()
    x = tape.leaf(torch.ones(3, 4), trainable=True)
    before = counters.snapshot()
    largest = torch.ones(1, 4)
    tape.apply(largest.squeeze(0), [tape.values[x]], (largest,), (None, (), (x,), (True,)))
    after = counters.snapshot()
    assert (after.live_bytes - before.live_bytes, after.live_buffers - before.live_buffers) == (
        16,
        1,
    )
