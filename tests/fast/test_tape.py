"""The tape's promises about cotangents, with rules made for the purpose."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

from fast import Rejected
from fast.device.counters import counters
from fast.ref import Ref
from fast.session import Session
from fast.tape import LEAF, backward_dense, backward_sparse
from tests.fast.made import node

CPU: dict[str, Any] = {"provider": "aten", "device": "cpu"}


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


def leaf(session: Session, *shape: int, trainable: bool = True) -> Ref:
    return session.input(torch.ones(*shape), requires_grad=trainable)


def sparse(out: Ref, seed: Tensor) -> dict[int, list[float]]:
    sink = Leaves()
    backward_sparse(out.tape, out.id, seed, sink)
    return {leaf: cotangent.tolist() for leaf, cotangent in sink.found.items()}


def test_ids_are_indices_and_a_node_without_trainable_parents_saves_nothing() -> None:
    s = Session(**CPU)
    x = leaf(s, 2, trainable=False)
    y = node(s, torch.ones(2), (x,), lambda g: (g,))
    z = leaf(s, 2)
    assert (x.id, y.id, z.id, len(s._tape)) == (0, 1, 2, 3)
    assert s._tape.rules == [None, None, LEAF]


@pytest.mark.holds("Take one contribution to a leaf")
def test_a_rule_may_return_the_cotangent_itself_twice() -> None:
    s = Session(**CPU)
    x = leaf(s, 2)
    y = node(s, torch.ones(2), (x, x), lambda g: (g, g))
    seed = torch.tensor([1.0, 3.0])
    assert sparse(y, seed) == {x.id: [2.0, 6.0]}
    assert seed.tolist() == [1.0, 3.0]


@pytest.mark.holds("Take one contribution to a leaf")
def test_sums_of_aliases_never_write_an_alias() -> None:
    # a and b both pass the cotangent on; c receives it three times, by views of one tensor.
    s = Session(**CPU)
    x = leaf(s, 2)
    c = node(s, torch.ones(2), (x,), lambda g: (g,))
    b = node(s, torch.ones(2), (c, c), lambda g: (g, g.view(2)))
    a = node(s, torch.ones(2), (b, c), lambda g: (g, g))
    seed = torch.tensor([1.0, 2.0])
    assert sparse(a, seed) == {x.id: [3.0, 6.0]}
    assert seed.tolist() == [1.0, 2.0]


@pytest.mark.holds("Take one contribution to a leaf")
def test_an_expanded_cotangent_is_no_trap() -> None:
    s = Session(**CPU)
    x = leaf(s, 3)
    y = node(s, torch.ones(3), (x,), lambda g: (g,))
    total = node(s, torch.tensor(3.0), (y,), lambda g: (g.expand(3),))
    again = node(s, torch.tensor(3.0), (y,), lambda g: (g.expand(3),))
    both = node(s, torch.tensor(6.0), (total, again), lambda g: (g, g))
    assert sparse(both, torch.tensor(1.0)) == {x.id: [2.0, 2.0, 2.0]}


def test_the_rule_of_an_unreached_node_never_runs() -> None:
    def never(g: Tensor) -> Any:
        raise AssertionError("an unreached rule ran")

    s = Session(**CPU)
    x = leaf(s, 1)
    node(s, torch.ones(1), (x,), never)
    y = node(s, torch.ones(1), (x,), lambda g: (g * 2,))
    node(s, torch.ones(1), (y,), never)
    assert sparse(y, torch.ones(1)) == {x.id: [2.0]}
    dense = backward_dense(s._tape, y.id, torch.ones(1))
    assert [g if g is None else g.tolist() for g in dense] == [[2.0], None, [1.0]]


def test_a_cotangent_is_dropped_as_soon_as_it_was_propagated() -> None:
    alive: list[int] = []
    seen: list[weakref.ref[Tensor]] = []

    def rule(g: Tensor) -> tuple[Tensor]:
        alive.append(sum(ref() is not None for ref in seen))
        made = g * 1
        seen.append(weakref.ref(made))
        return (made,)

    s = Session(**CPU)
    out = leaf(s, 1)
    for _ in range(6):
        out = node(s, torch.ones(1), (out,), rule)
    sparse(out, torch.ones(1))
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

    s = Session(**CPU)
    x = leaf(s, 1)
    y = node(s, torch.ones(1), (x,), bad)
    z = node(s, torch.ones(1), (y,), good)
    other = node(s, torch.ones(1), (x,), good)
    out = node(s, torch.ones(1), (z, other), lambda g: (g * 2, g * 2))
    before = counters.snapshot()
    with pytest.raises(ValueError, match="in the middle") as caught:
        sparse(out, torch.ones(1))
    # The traceback, and with it every frame, is still alive here.
    assert caught.value.__traceback__ is not None
    assert [ref() for ref in seen] == [None, None]
    after = counters.snapshot()
    assert (after.live_bytes, after.live_buffers) == (before.live_bytes, before.live_buffers)


@pytest.mark.usefixtures("settled")
def test_nothing_is_allocated_for_untouched_nodes() -> None:
    s = Session(**CPU)
    x = leaf(s, 4)
    y = node(s, torch.ones(4), (x,), lambda g: (g,))
    for _ in range(50):
        node(s, torch.ones(4), (x,), lambda g: (g,))
    z = node(s, torch.ones(4), (y,), lambda g: (g,))
    before = counters.snapshot()
    sparse(z, torch.ones(4))
    assert counters.allocations - before.allocations == 1


@pytest.mark.holds("Gradients of every entry on the device, with a seed or from a scalar loss")
def test_dense_gradients_have_memory_of_their_own() -> None:
    s = Session(**CPU)
    x = leaf(s, 2)
    y = node(s, torch.ones(2), (x,), lambda g: (g,))
    z = node(s, torch.ones(1, 2), (y,), lambda g: (g.view(2),))
    seed = torch.tensor([[1.0, 2.0]])
    table = backward_dense(s._tape, z.id, seed)
    for cotangent in table:
        assert cotangent is not None
        cotangent.add_(10.0)
    assert [g.tolist() for g in table if g is not None] == [[11, 12], [11, 12], [[11, 12]]]
    assert seed.tolist() == [[1.0, 2.0]]


@pytest.mark.holds("Sizes are checked before use")
@pytest.mark.parametrize("twice", [False, True])
def test_a_cotangent_of_the_wrong_shape_is_refused(twice: bool) -> None:
    s = Session(**CPU)
    x = leaf(s, 2)
    y = node(s, torch.ones(2), (x,), lambda g: (g,))
    parents, rule = ((y, y), lambda g: (g, g[:1])) if twice else ((x,), lambda g: (g[:1],))
    z = node(s, torch.ones(2), parents, rule)
    with pytest.raises(Rejected, match=r"node 2 returned .* shape \(1,\).* shape is \(2,\)"):
        sparse(z, torch.ones(2))


@pytest.mark.usefixtures("settled")
def test_views_weigh_nothing_and_clearing_returns_everything() -> None:
    s = Session(**CPU)
    before = counters.snapshot()
    x = leaf(s, 4, 4)
    held = counters.snapshot()
    assert held.live_bytes - before.live_bytes == 64
    value = s._tape.values[x.id]
    for alias in (value.view(16), value.t(), value.expand(3, 4, 4), value.detach()):
        node(s, alias, (x,), lambda g: (g,))
    assert counters.snapshot() == held
    extra = torch.ones(2)
    node(s, torch.ones(4, 4), (x,), lambda g: (g,), saved=(value, extra))
    assert counters.live_bytes - held.live_bytes == 64 + 8
    assert counters.live_buffers - held.live_buffers == 2
    s.reset_tape()
    after = counters.snapshot()
    assert (after.live_bytes, after.live_buffers) == (before.live_bytes, before.live_buffers)
    assert after.peak_bytes >= before.live_bytes + 136


@pytest.mark.usefixtures("settled")
def test_what_was_saved_and_returned_as_a_view_weighs_once() -> None:
    s = Session(**CPU)
    x = leaf(s, 3, 4)
    before = counters.snapshot()
    largest = torch.ones(1, 4)
    node(s, largest.squeeze(0), (x,), lambda g: (g.expand(3, 4),), saved=(largest,))
    after = counters.snapshot()
    assert (after.live_bytes - before.live_bytes, after.live_buffers - before.live_buffers) == (
        16,
        1,
    )
