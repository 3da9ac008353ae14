"""The graph: what it prints, what it refuses, and that what nothing reaches is never asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from spec.graph import Graph
from spec.op import AnyTensor, Op, Rejected, Type
from spec.ops import OPS
from spec.tensor import tensor

REAL2 = Type((2,))


def apply(graph: Graph, name: str, *parents: int, **attributes: Any) -> int:
    """Append an op by its name."""
    return graph.apply(OPS[name], *parents, **attributes)


def product() -> Graph:
    """sum(w * x * 3), with x frozen."""
    graph = Graph()
    w, x = graph.leaf(REAL2, name="w"), graph.leaf(REAL2, requires_grad=False, name="x")
    three = graph.const(tensor([3.0, 3.0]))
    apply(graph, "sum", apply(graph, "mul", apply(graph, "mul", w, x), three), axes=(0,))
    return graph


AT = [tensor([1.0, 2.0]), tensor([5.0, 7.0])]


def test_a_graph_prints_one_assignment_per_entry() -> None:
    expected = """\
x0: real[2] = leaf w
x1: real[2] = input x
x2: real[2] = const
x3: real[2] = mul x0 x1
x4: real[2] = mul x3 x2
x5: real[] = sum x4 axes=(0,)"""
    assert str(product()) == expected
    assert str(product()) == str(product()), "the print depends on nothing but the graph"


def test_integers_and_masks_print_as_what_they_may_serve_as() -> None:
    graph = Graph()
    graph.leaf(Type((3,), index=True), requires_grad=False, name="labels")
    graph.const(tensor([True, False]), "mask")
    assert str(graph) == "x0: index[3] = input labels\nx1: mask[2] = const mask"


def test_a_graph_is_evaluated_as_often_as_one_likes() -> None:
    graph = product()
    values = graph.evaluate(AT)
    assert values == [*AT, tensor([3.0, 3.0]), *map(tensor, ([5.0, 14.0], [15.0, 42.0], 57.0))]
    exact = [x.map(Fraction) for x in AT]
    assert graph.evaluate(exact)[-1] == tensor(57)
    assert len(graph) == 6 and graph.leaves == [0, 1]


@pytest.mark.holds("Tangents of all leaves, of one leaf, of a scalar loss")
def test_tangents_of_the_whole_context() -> None:
    graph = product()
    moved = graph.jvp(AT, [tensor([1.0, 0.0]), tensor([0.0, 10.0])])
    assert moved == [
        tensor([1.0, 0.0]),
        tensor([0.0, 10.0]),
        tensor([0.0, 0.0]),
        tensor([5.0, 20.0]),
        tensor([15.0, 60.0]),
        tensor(75.0),
    ]
    assert moved.reached == {0, 1, 3, 4, 5}, "a constant does not move; a frozen leaf may"
    assert graph.jvp(AT, [None, None])[-1] == tensor(0.0)


@pytest.mark.holds("Gradients of every entry, with a seed or from a scalar loss")
def test_cotangents_of_the_whole_context() -> None:
    graph = product()
    seeds = {5: tensor(1.0), 3: tensor([100.0, 0.0]), 1: tensor([8.0, 9.0])}
    every = graph.backprop_all(AT, seeds)
    assert every == [
        tensor([515.0, 21.0]),
        tensor([8.0, 9.0]),
        tensor([0.0, 0.0]),
        tensor([103.0, 3.0]),
        tensor([1.0, 1.0]),
        tensor(1.0),
    ]
    assert every.reached == {0, 1, 3, 4, 5}
    assert graph.backprop(AT, seeds) == [every[0], every[1]]
    assert graph.backprop(AT, {5: None}) == [tensor([15.0, 21.0]), tensor([0.0, 0.0])]
    assert graph.backprop(AT, {}) == [tensor([0.0, 0.0])] * 2


def test_an_entry_that_is_read_twice_adds_up() -> None:
    graph = Graph()
    x = graph.leaf(Type(()))
    apply(graph, "mul", apply(graph, "mul", x, x), x)
    assert graph.backprop([tensor(5)], {2: None}) == [tensor(75)]
    assert graph.jvp([tensor(5)], [tensor(1)])[2] == tensor(75)


def never(name: str) -> Op:
    """An op that must not be asked for its derivatives."""

    def asked(*_: Any, **__: Any) -> Any:
        raise AssertionError(f"the rule of {name} was run")

    return dataclasses.replace(OPS[name], jvp=asked, vjp=asked)


def test_a_derivative_that_nothing_reaches_is_not_asked_for() -> None:
    graph = Graph()
    zero, far = graph.leaf(Type(())), graph.leaf(Type(()))
    one = graph.const(tensor(1.0))
    pole = graph.apply(never("div"), one, far)
    graph.apply(never("mul"), pole, pole)
    loss = apply(graph, "square", zero)
    at = [tensor(0.0), tensor(0.0)]
    assert graph.evaluate(at)[pole] == tensor(float("inf"))
    assert graph.jvp(at, [tensor(1.0), None])[loss] == tensor(0.0)
    every = graph.backprop_all(at, {loss: None})
    assert every[far] == every[pole] == tensor(0.0) and far not in every.reached


def test_nothing_passes_detach_and_nothing_behind_it_is_asked() -> None:
    graph = Graph()
    x, one = graph.leaf(Type(())), graph.const(tensor(1.0))
    pole = graph.apply(dataclasses.replace(never("div"), jvp=OPS["div"].jvp), one, x)
    stopped = graph.apply(never("detach"), pole)
    out = apply(graph, "add", stopped, x)
    every = graph.backprop_all([tensor(0.0)], {out: None})
    assert every[x] == tensor(1.0), "0 times infinity came through"
    assert every.reached == {x, out}
    seeded = graph.backprop_all([tensor(0.0)], {stopped: None})
    assert seeded.reached == {stopped} and seeded[x] == tensor(0.0)
    moved = graph.jvp([tensor(0.0)], [tensor(1.0)])
    assert moved[pole] == tensor(float("-inf")) and moved[out] == tensor(1.0)


def test_a_constant_takes_no_cotangent() -> None:
    graph = Graph()
    x, zero = graph.leaf(Type(())), graph.const(tensor(0.0))
    out = apply(graph, "div", x, zero)
    every = graph.backprop_all([tensor(2.0)], {out: None})
    assert every[zero] == tensor(0.0) and zero not in every.reached
    assert every[x] == tensor(float("inf"))


@pytest.mark.holds("Compile the graph into a tape")
def test_a_tape_is_compiled_line_by_line() -> None:
    graph, events = product(), []
    tape = graph.compile_tape(AT, events.append)
    assert [tape.value(k) for k in range(len(tape))] == graph.evaluate(AT)
    assert [(tape.node(k).requires_grad, tape.node(k).name) for k in range(3)] == [
        (True, "w"),
        (False, "x"),
        (False, None),
    ]
    assert tape.backward(5) == {0: tensor([15.0, 21.0])}
    assert len(events) > 3


Ask = Callable[[Graph], Any]

REFUSED: dict[str, tuple[Ask, str]] = {
    "an id": (lambda g: g.entry(6), r"graph: ids lie in \[0, 6\); got 6"),
    "an id of a parent": (lambda g: apply(g, "square", -1), r"graph: ids lie in \[0, 6\); got -1"),
    "shapes": (lambda g: apply(g, "add", 0, 5), r"add C1: all shapes are equal; got real\[2\]"),
    "a real as an index": (
        lambda g: apply(g, "take", 0, 1, axis=0),
        r"take C2: the indices are integers; got real\[2\]",
    ),
    "an attribute": (lambda g: apply(g, "sum", 0, axis=0), r"sum: no attribute 'axis'"),
    "too few inputs": (
        lambda g: g.evaluate(AT[:1]),
        r"graph: one input for each of the 2 leaves; got 1",
    ),
    "an input's shape": (
        lambda g: g.evaluate([AT[0], tensor(1.0)]),
        r"graph: input 1 has the shape \(2,\) of leaf x1; got \(\)",
    ),
    "too many tangents": (
        lambda g: g.jvp(AT, [*AT, AT[0]]),
        r"graph: one tangent for each of the 2 leaves; got 3",
    ),
    "a tangent's shape": (
        lambda g: g.jvp(AT, [None, tensor([1.0])]),
        r"graph: tangent 1 has the shape \(2,\) of leaf x1; got \(1,\)",
    ),
    "a seed's id": (
        lambda g: g.backprop_all(AT, {-1: tensor(1.0)}),
        r"graph: ids lie in \[0, 6\); got -1",
    ),
    "a seed's shape": (
        lambda g: g.backprop(AT, {5: tensor([1.0])}),
        r"graph: the seed has the shape \(\) of node 5; got \(1,\)",
    ),
    "no seed": (
        lambda g: g.backprop(AT, {4: None}),
        r"graph: without a seed, backward starts at a scalar; got node 4 of shape \(2,\)",
    ),
    "inputs of a tape": (
        lambda g: g.compile_tape([]),
        r"graph: one input for each of the 2 leaves; got 0",
    ),
}


@pytest.mark.holds("What is no leaf, or does not fit one")
@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_and_changes_nothing(case: str) -> None:
    ask, message = REFUSED[case]
    graph = product()
    with pytest.raises(Rejected, match=f"^{message}"):
        ask(graph)
    assert str(graph) == str(product())


def test_what_only_entries_can_tell_is_refused_at_evaluation() -> None:
    graph = Graph()
    x, k = graph.leaf(REAL2), graph.leaf(Type((1,), index=True), requires_grad=False)
    apply(graph, "take", x, apply(graph, "reshape", k, shape=(1, 1)), axis=0)

    def at(index: Any) -> list[AnyTensor]:
        return graph.evaluate([tensor([5.0, 7.0]), tensor([index])])

    assert at(1)[-1] == tensor([[7.0]])
    with pytest.raises(Rejected, match=r"^take C3: every index lies in \[0, 2\); got 2"):
        at(2)
    with pytest.raises(Rejected, match=r"^take C2: the indices are integers; got real"):
        at(1.0)
