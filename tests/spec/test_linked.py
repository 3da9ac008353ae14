"""The linked session: what it records when, forward mode, steps; and that the tape agrees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.cases.probes import Call, carried, like
from equivalence.worlds.opaque import opaque
from spec.linked import GraphSession
from spec.op import Rejected
from spec.ops import OPS
from spec.ref import Ref
from spec.session import Session
from spec.tensor import tensor
from tests.turns import of_pages


def loss(ops: Any, w: Any, b: Any, x: Any) -> Any:
    """The sum of squares of a line with operators, a broadcast and a constant."""
    two = ops.const(tensor([Fraction(2)]))
    return ops.sum(ops.square((w * x + b) / two - (-x)))


W, B, X = (
    tensor([Fraction(3), Fraction(-1)]),
    tensor(Fraction(5)),
    tensor([Fraction(2), Fraction(7)]),
)


def recorded(session: Any, frozen: bool = False) -> tuple[list[Any], list[Ref], Ref]:
    """Run the loss; return the parameters, the leaves and the loss."""
    params = [session.param(W, "w"), session.param(B, "b", requires_grad=not frozen)]
    refs = [*map(session.use, params), session.input(X, "x")]
    return params, refs, loss(session, *refs)


@pytest.mark.holds("Gradients of every entry, with a seed or from a scalar loss")
def test_both_sessions_compute_the_same() -> None:
    eager, linked = Session(), GraphSession()
    (_, _, first), (_, _, second) = recorded(eager), recorded(linked)
    assert eager.value(first) == linked.value(second) == linked.evaluate(second)
    assert eager.backward_dense(first) == linked.backward_dense(second)
    assert eager.backward(first) == linked.backward(second)
    seed = tensor(Fraction(3))
    assert eager.backward(first, seed) == linked.backward(second, seed)
    assert len(linked.tape) == len(linked.graph) == len(eager.tape)


@pytest.mark.holds("Look a gradient up by its ref")
def test_gradients_are_looked_up_by_ref() -> None:
    session = GraphSession()
    _, (w, _, x), out = recorded(session)
    sparse, dense = session.backward(out), session.backward_dense(out)
    for grads in (sparse, dense):
        # d/dw of ((w x + b) / 2 + x)^2, at 15/2 and 6
        assert session.grad(grads, w) == tensor([15, 42])
    assert session.grad(dense, x) == tensor([0, 0]), "an input takes no gradient unless asked"
    with pytest.raises(
        Rejected, match=r"^grad: backward\(\) keeps .*; got x2 x; input\(\.\.\., req"
    ):
        session.grad(sparse, x)
    with pytest.raises(Rejected, match=r"; backward_dense\(\) keeps those of results too$"):
        session.grad(sparse, out)


def test_the_graph_is_evaluated_at_other_inputs() -> None:
    session = GraphSession()
    params, refs, out = recorded(session)
    zero = tensor([Fraction(0)] * 2)
    assert session.evaluate(out, [W, B, zero]) == tensor(Fraction(25, 2))
    params[0].set(zero)
    assert session.value(refs[0]) == W, "what was recorded keeps its value"
    with pytest.raises(Rejected, match=r"^graph: input 2 has the shape \(2,\) of leaf x2; got"):
        session.evaluate(out, [W, B, B])


@pytest.mark.holds("Tangents of all leaves, of one leaf, of a scalar loss")
def test_forward_mode_by_all_leaves_and_by_one() -> None:
    session = GraphSession()
    _, (w, b, x), out = recorded(session)
    t, u = tensor([Fraction(1), Fraction(10)]), tensor(Fraction(4))
    along_w, along_b = session.jvp_leaf(out, w, t), session.jvp_leaf(out, b, u)
    assert along_w == tensor(15 + 420)
    assert session.jvp(out, [t, u, None]) == tensor(along_w[()] + along_b[()])
    assert session.jvp(out, [None, None, None]) == tensor(0)
    assert session.jvp_scalar_leaf(out, w, t) == along_w
    assert session.jvp_leaf(out, x, t) == tensor(15 * Fraction(5, 2) + 12 * Fraction(1, 2) * 10)


LEAVES = "one tangent for each of the 3 leaves"

REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "too few tangents": (lambda s, w, b, x, out: s.jvp(out, [W]), f"graph: {LEAVES}; got 1"),
    "a tangent of another shape": (
        lambda s, w, b, x, out: s.jvp(out, [None, W, None]),
        r"graph: tangent 1 has the shape \(\) of leaf x1; got \(2,\)",
    ),
    "a leaf's tangent of another shape": (
        lambda s, w, b, x, out: s.jvp_leaf(out, x, B),
        r"graph: tangent 2 has the shape \(2,\) of leaf x2; got \(\)",
    ),
    "what is no leaf": (
        lambda s, w, b, x, out: s.jvp_leaf(out, out, B),
        r"jvp: the leaves are x0, x1, x2; got x\d+",
    ),
    "a constant is no leaf": (
        lambda s, w, b, x, out: s.jvp_leaf(out, s.const(B), B),
        r"jvp: the leaves are x0, x1, x2; got x\d+",
    ),
    "a loss that is no scalar": (
        lambda s, w, b, x, out: s.jvp_scalar_leaf(w, w, W),
        r"jvp: the loss is a scalar; got shape \(2,\)",
    ),
    "a ref of another session": (
        lambda s, w, b, x, out: s.jvp(GraphSession().const(B), [None] * 3),
        r"jvp: the argument is a ref of this session",
    ),
    "no seed": (lambda s, w, b, x, out: s.backward(w), "graph: without a seed, backward starts"),
    "a seed of another shape": (
        lambda s, w, b, x, out: s.backward_dense(out, W),
        r"graph: the seed has the shape \(\) of node \d+; got \(2,\)",
    ),
    "a leaf after an op": (
        lambda s, w, b, x, out: s.input(X),
        "graph session: a leaf comes before",
    ),
    "a parameter after an op": (
        lambda s, w, b, x, out: s.use(s.param(X)),
        "graph session: a leaf comes before the first op",
    ),
    "an integer after an op": (
        lambda s, w, b, x, out: s.nat(3),
        r"graph session: a natural number comes before the first op \(reset_tape\(\)",
    ),
}


@pytest.mark.holds("What is no leaf, or does not fit one")
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_leaves_the_session_as_it_was(case: str) -> None:
    ask, message = REFUSED[case]
    session = GraphSession()
    _, refs, out = recorded(session)
    params, leaves = dict(session.params_by_leaf), session.graph.leaves
    with pytest.raises(Rejected, match=f"^{message}"):
        ask(session, *refs, out)
    assert session.params_by_leaf == params and session.graph.leaves == leaves
    assert session.value(out) == session.evaluate(out)


@pytest.mark.holds("Leaves and naturals first, ops atomic")
def test_leaves_and_integers_come_first_and_constants_at_any_time() -> None:
    session = GraphSession()
    first = session.nat_vec([1, 0])
    early = session.const(tensor([1.0, 2.0]))
    x = session.input(tensor([5.0, 7.0]))
    late = session.const(tensor([3.0, 3.0]))
    taken = session.take(early + x, session.indices(first, 2), axis=0)
    assert session.graph.leaves == [x.id], "a constant is no leaf"
    later = session.const(tensor([10.0, 10.0]))
    out = taken * late + later - session.constant(1, (2,))
    assert session.value(out) == tensor([36.0, 27.0])
    session.set_nat(first, 0)
    assert session.evaluate(out) == session.value(out), "an op keeps the integers it was given"
    session.reset_tape()
    assert len(session.graph) == 0 and session.get_nat(session.nat(3)) == 3
    assert session.use(session.param(tensor(1.0))).id == 0


BAD: list[Callable[[GraphSession, Ref], Any]] = [
    lambda s, x: s.take(x, tensor([2]), axis=0),
    lambda s, x: s.take(x, tensor([0]), axis=1),
    lambda s, x: s.apply("add", (x,), {}),
    lambda s, x: s.apply("convolve", (x,), {}),
    lambda s, x: x + Session().input(tensor([5, 7])),
]


@pytest.mark.holds("Leaves and naturals first, ops atomic")
@pytest.mark.parametrize("ask", BAD)
def test_a_refused_op_leaves_the_graph_as_it_was(ask: Callable[..., Any]) -> None:
    session = GraphSession()
    x = session.input(tensor([5.0, 7.0]))
    with pytest.raises(Rejected):
        ask(session, x)
    assert str(session.graph) == "x0: real[2] = input"
    assert session.input(tensor(1.0)).id == 1, "a refused op is none: leaves may still come"


@pytest.mark.holds("Leaves and naturals first, ops atomic")
def test_an_op_that_fails_as_it_computes_leaves_no_constants_behind() -> None:
    for session in (Session(), GraphSession()):
        x = session.input(tensor([[Fraction(1), Fraction(2)]]))
        with pytest.raises(ArithmeticError, match="no fraction"):
            session.cross_entropy(x, tensor([1]))
        assert len(session.tape) == 1


@pytest.mark.holds("Updates of the parameters in use; frozen ones stay")
def test_frozen_parameters_stay() -> None:
    session = GraphSession()
    (w, b), refs, out = recorded(session, frozen=True)
    for grads in (session.backward(out), session.backward_dense(out)):
        assert session.grad(grads, refs[1]) == tensor(0)
        session.sgd_step(Fraction(1, 3), grads)
    assert (b.value, b.version, w.version) == (B, 0, 2)
    assert w.value == tensor([3 - 10, -1 - 28])


STEPS: dict[str, Callable[[Any, Any], None]] = {
    "sgd": lambda s, grads: s.sgd_step(0.5, grads, momentum=0.5),
    "adam": lambda s, grads: s.adam_step(0.5, grads=grads, max_norm=1.0),
    "adamw": lambda s, grads: s.adamw_step(0.5, grads=grads, weight_decay=0.5),
}


@pytest.mark.holds("Updates of the parameters in use; frozen ones stay")
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("dense", [True, False])
def test_steps_are_those_of_the_eager_session(step: Any, dense: bool) -> None:
    params: list[Any] = []
    for session in (Session(), GraphSession()):
        w = session.param(tensor([3.0, -1.0]))
        for _ in range(3):
            session.reset_tape()
            x = session.use(w)
            out = session.sum(session.square(x) * x)
            step(session, session.backward_dense(out) if dense else session.backward(out))
        params.append((w.value, w.version, session.state(w)))
    assert params[0] == params[1]
    assert params[0][1] == 3


@pytest.mark.holds("Updates of the parameters in use; frozen ones stay")
def test_a_parameter_used_twice_adds_up_and_is_updated_once() -> None:
    session = GraphSession()
    w = session.param(tensor([1.0, -2.0]))
    first, second = session.use(w), session.use(w)
    session.sgd_step(0.25, session.backward(session.sum(first * second)))
    assert (w.value, w.version) == (tensor([0.5, -1.0]), 1)


@pytest.mark.holds("Look a gradient up by its ref")
def test_an_unreached_parameter_has_gradient_zero_and_is_skipped() -> None:
    session = GraphSession()
    w, aside = session.param(tensor([1.0])), session.param(tensor([2.0]))
    x, far = session.use(w), session.use(aside)
    grads = session.backward(session.sum(session.square(x)))
    assert session.grad(grads, far) == tensor([0.0])
    session.adamw_step(grads=grads)
    assert (aside.version, session.state(aside)) == (0, None)


def test_a_leaf_may_be_its_own_output() -> None:
    for session in (Session(), GraphSession()):
        w, x = session.use(session.param(tensor(1.0))), session.input(tensor(2.0))
        assert session.backward(w) == {w.id: tensor(1.0)}
        assert session.backward(x) == {}, "an input that requires no gradient is not handed out"
        assert session.backward_dense(x) == [tensor(0.0), tensor(1.0)]


@pytest.mark.holds("Compile the graph into a tape")
def test_the_compiled_tape_is_the_eager_one() -> None:
    session = GraphSession()
    _, _, out = recorded(session)
    tape = session.compile_tape()
    assert tape.backward_dense(out.id) == session.backward_dense(out)
    assert tape.backward(out.id) == session.backward(out)


def test_random_ops_draw_anew_for_every_call_and_alike_for_every_evaluation() -> None:
    session = GraphSession()
    x = session.input(tensor([1.0] * 8), requires_grad=True)
    once, twice = (session.dropout(x, p=0.5, seed=3) for _ in range(2))
    assert session.value(once) != session.value(twice)
    assert session.evaluate(once) == session.value(once)
    assert session.random_counter == 2
    ones = tensor([1.0] * 8)
    assert session.jvp(once, [ones]) == session.value(once)
    assert session.backward(once, ones) == {x.id: session.value(once)}
    session.reset_tape()
    again = session.dropout(session.input(ones), p=0.5, seed=3)
    assert session.random_counter == 3 and session.value(again) not in (once, twice)


@pytest.fixture
def exact_world() -> Iterator[None]:
    """Let exp, log, tanh and roots be opaque."""
    with opaque():
        yield


def applied(session: Any, call: Call) -> tuple[Ref, ...]:
    """Record a call, all of its inputs as leaves, and return what it makes."""
    attributes = dict(call.attributes)
    session.random_counter = attributes.pop("counter", 0)
    session.like = attributes.pop("like", Fraction(0))
    refs = [session.input(x, requires_grad=True) for x in call.inputs]
    made = session.apply(call.op.name, tuple(refs), attributes)
    return made if isinstance(made, tuple) else (made,)


@pytest.mark.holds(
    "Gradients of every entry, with a seed or from a scalar loss", "One program, every interpreter"
)
@pytest.mark.usefixtures("exact_world")
@pytest.mark.parametrize("name", of_pages(sorted(OPS), 4))
@settings(max_examples=20)
@given(data=st.data())
def test_every_op_is_recorded_as_on_the_tape(name: str, data: st.DataObject) -> None:
    call = data.draw(carried(OPS[name]))
    eager, linked = Session(), GraphSession()
    for first, second in zip(applied(eager, call), applied(linked, call), strict=True):
        assert linked.graph.entry(second.id).type.shape == linked.value(second).shape
        assert linked.value(second) == eager.value(first) == linked.evaluate(second)
        seed = data.draw(like(eager.value(first)))
        assert linked.backward_dense(second, seed) == eager.backward_dense(first, seed)
