"""The tape: its events in order, its seeds, what it refuses, and its two kinds of gradients."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.cases.probes import NUMBERS, filled
from spec.op import Rejected
from spec.ops import OPS
from spec.tape import Accumulate, Event, Pull, Seed, Tape
from spec.tensor import Tensor, tensor


def apply(tape: Tape, name: str, *parents: int, **attributes: Any) -> int:
    """Append an op by its name."""
    return tape.apply(OPS[name], *parents, **attributes)


def test_events_come_in_the_order_of_the_sweep() -> None:
    events: list[Event] = []
    tape = Tape(events.append)
    x = tape.leaf(tensor(3))
    y = apply(tape, "square", x)
    z = apply(tape, "mul", y, x)
    tape.backward(z)
    one, nine = tensor(1), tensor(9)
    assert events == [
        Seed(z, one),
        Pull(z, one),
        Accumulate(z, y, tensor(3), tensor(3)),
        Accumulate(z, x, nine, nine),
        Pull(y, tensor(3)),
        Accumulate(y, x, tensor(18), tensor(27)),
    ]


def test_a_parent_named_twice_receives_twice() -> None:
    events: list[Event] = []
    tape = Tape(events.append)
    x = tape.leaf(tensor(5))
    assert tape.backward(apply(tape, "mul", x, x)) == {x: tensor(10)}
    assert [e.total for e in events if isinstance(e, Accumulate)] == [tensor(5), tensor(10)]


@pytest.mark.holds("Gradients of every entry in the reference")
def test_a_scalar_starts_at_1_and_others_need_a_seed() -> None:
    tape = Tape()
    x = tape.leaf(tensor([2, 3]))
    y = apply(tape, "square", x)
    with pytest.raises(
        Rejected, match=r"^tape: without a seed, .*; got node 1 of shape \(2,\); sum it"
    ):
        tape.backward(y)
    assert tape.backward(y, tensor([1, 10])) == {x: tensor([4, 60])}
    assert tape.backward(apply(tape, "sum", y)) == {x: tensor([4, 6])}
    assert tape.backward(apply(tape, "sum", y), tensor(5)) == {x: tensor([20, 30])}


@pytest.mark.holds("Gradients of every entry in the reference")
@pytest.mark.parametrize("seed", [1, [1], [1, 2, 3], [[1, 2]]])
def test_a_seed_of_another_shape_is_refused(seed: Any) -> None:
    tape = Tape()
    y = apply(tape, "square", tape.leaf(tensor([2, 3])))
    for backward in (tape.backward, tape.backward_dense):
        with pytest.raises(Rejected, match=r"^tape: the seed has the shape \(2,\) of node 1; got"):
            backward(y, tensor(seed))


@pytest.mark.parametrize("id", [-1, 1, 7])
def test_an_id_that_is_not_on_the_tape_is_refused(id: int) -> None:
    tape = Tape()
    tape.leaf(tensor(1))
    for ask in (
        tape.node,
        tape.value,
        tape.backward,
        tape.backward_dense,
        lambda k: apply(tape, "square", k),
    ):
        with pytest.raises(Rejected, match=rf"^tape: ids lie in \[0, 1\); got {id}$"):
            ask(id)
    assert len(tape) == 1


def test_a_refused_op_leaves_the_tape_as_it_was() -> None:
    tape = Tape()
    x, y = tape.leaf(tensor([1, 2])), tape.leaf(tensor([1, 2, 3]))
    with pytest.raises(Rejected, match=r"^add C1"):
        apply(tape, "add", x, y)
    with pytest.raises(Rejected, match=r"^sum C1"):
        apply(tape, "sum", x, axes=(1,))
    assert len(tape) == 2


@pytest.mark.holds("Trainable and constant leaves")
def test_ids_count_from_0_and_leaves_know_what_they_are() -> None:
    tape = Tape()
    ids = [tape.param(tensor(1), "w"), tape.const(tensor(2), "c"), tape.leaf(tensor(3))]
    assert ids == [0, 1, 2]
    assert [(tape.node(k).requires_grad, tape.node(k).name) for k in ids] == [
        (True, "w"),
        (False, "c"),
        (True, None),
    ]
    assert not tape.node(apply(tape, "square", 1)).requires_grad


@pytest.mark.holds(
    "Constants", "Inputs, with a gradient or without", "Trainable and constant leaves"
)
def test_constants_and_what_depends_on_them_alone_get_nothing() -> None:
    tape = Tape()
    w, c = tape.leaf(tensor(3)), tape.const(tensor(2))
    squared = apply(tape, "square", c)
    out = apply(tape, "mul", w, squared)
    assert tape.backward(out) == {w: tensor(4)}
    assert tape.backward_dense(out) == [tensor(4), tensor(0), tensor(0), tensor(1)]


def test_index_inputs_get_nothing_even_as_leaves() -> None:
    tape = Tape()
    x, picked = tape.leaf(tensor([5, 7])), tape.leaf(tensor([1, 1]))
    out = apply(tape, "sum", apply(tape, "take", x, picked, axis=0))
    assert tape.backward(out) == {x: tensor([0, 2])}


def test_a_leaf_may_be_its_own_output() -> None:
    tape = Tape()
    x = tape.leaf(tensor(3))
    assert tape.backward(x) == {x: tensor(1)}


@pytest.mark.holds("Gradients of every entry in the reference")
def test_unreached_leaves_are_absent_from_one_and_zero_in_the_other() -> None:
    tape = Tape()
    x, y = tape.leaf(tensor(3)), tape.leaf(tensor([1, 2]))
    out = apply(tape, "square", x)
    after = apply(tape, "square", out)
    assert tape.backward(out) == {x: tensor(6)}
    dense = tape.backward_dense(out)
    assert dense == [tensor(6), tensor([0, 0]), tensor(1), tensor(0)]
    assert len(dense) == after + 1 and y not in tape.backward(out)


def test_dense_gradients_know_what_was_reached() -> None:
    tape = Tape()
    x, y = tape.leaf(tensor(0)), tape.leaf(tensor(0))
    dense = tape.backward_dense(apply(tape, "square", x))
    assert dense[x] == dense[y] == tensor(0)
    assert x in dense.reached and y not in dense.reached


BINARY = st.tuples(st.sampled_from(["add", "sub", "mul"]), st.integers(0, 5), st.integers(0, 5))


@settings(max_examples=60)
@given(
    leaves=st.lists(st.tuples(filled((2,), NUMBERS), st.booleans()), min_size=1, max_size=3),
    steps=st.lists(BINARY, min_size=1, max_size=5),
    seed=filled((2,), NUMBERS),
)
def test_sparse_gradients_are_the_dense_ones_of_trainable_leaves(leaves, steps, seed) -> None:
    tape = Tape()
    for value, requires_grad in leaves:
        tape.leaf(value, requires_grad)
    for name, first, second in steps:
        apply(tape, name, first % len(tape), second % len(tape))
    out = len(tape) - 1
    sparse, dense = tape.backward(out, seed), tape.backward_dense(out, seed)
    zero = Tensor((2,), [Fraction(0)] * 2)
    for id, (_, requires_grad) in enumerate(leaves):
        assert dense[id] == sparse.get(id, zero)
        assert requires_grad or id not in sparse
    assert set(sparse) <= set(range(len(leaves)))
    assert list(sparse) == sorted(sparse)


def test_backward_can_be_run_again() -> None:
    tape = Tape()
    x = tape.leaf(tensor(3))
    out = apply(tape, "square", x)
    assert tape.backward(out) == tape.backward(out) == {x: tensor(6)}
    assert len(tape) == 2
