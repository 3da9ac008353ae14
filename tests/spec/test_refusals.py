"""A learner's mistakes are answered by sentences that say what to write, not by bare errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from spec.autodiff import grad, hvp, jacfwd, jvp, vjp
from spec.dual import Dual
from spec.graph import Graph
from spec.linked import GraphSession
from spec.op import Rejected, Type
from spec.ops import OPS
from spec.optim import clip
from spec.picture import svg
from spec.refusals import Table, Unsupported, called, hints, unknown
from spec.scalar import exp, log, sqrt, tanh
from spec.session import Session
from spec.show import dot, event, ledger, opened, program
from spec.tape import Tape
from spec.tensor import Tensor, tabulate, tensor, zip_map
from spec.train import (
    MicroBatches,
    mean_scalar_over,
    scalar_trainer,
    split,
    use_inputs,
)

ONE = tensor([1.0])
TWO = tensor([[1.0, 2.0], [3.0, 4.0]])
BOTH_SESSIONS = pytest.mark.parametrize("kind", [Session, GraphSession])


def says(sentence: str, ask: Callable[[], Any], error: type[Exception] = Rejected) -> None:
    """Hold that a call is refused by an error of a type, whose message has the sentence."""
    with pytest.raises(error, match=re.escape(sentence)):
        ask()


def test_a_name_is_answered_with_the_nearest_or_with_all() -> None:
    near = unknown("shop", "tea", "asam", ["oolong", "assam"])
    assert str(near) == "shop: there is no tea 'asam'; the nearest are assam"
    far = unknown("shop", "tea", 7, ["oolong", "assam"])
    assert str(far) == "shop: there is no tea 7; there are oolong, assam"
    assert isinstance(near, (Rejected, KeyError, AttributeError))


def test_a_name_that_differs_in_its_capitals_is_the_nearest() -> None:
    says("the nearest are exp", lambda: Session().Exp)
    says("there is no op 'SoftMax'; the nearest are softmax", lambda: OPS["SoftMax"])
    assert str(unknown("opened", "composite", "x", ())).endswith("there are none")


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("ln", "ops.log(x)"),
        ("multiply", "ops.mul(x, y)"),
        ("transpose", "ops.permute(x, axes=axes)"),
        ("zero_grad", "nothing for it: every call of backward() returns new gradients"),
        ("tan", "ops.sin(x) / ops.cos(x)"),
    ],
)
def test_a_name_of_numpy_or_torch_is_answered_by_what_is_written_here(
    name: str, written: str
) -> None:
    for ask in (lambda: getattr(Session(), name), lambda: OPS[name]):
        says(f"'{name}'; write {written}", ask)


def test_no_op_is_offered_for_a_function_that_none_means() -> None:
    # By its letters alone it is near hardtanh.
    says("no op or method 'arctan'; dir(ops) lists all names", lambda: Session().arctan)
    says("no op 'arctan'; list(OPS) has all names", lambda: OPS["arctan"])
    says("no op or method 'qqq'; dir(ops) lists all names", lambda: Session().qqq)


def test_the_table_of_ops_names_the_nearest_and_is_else_a_table() -> None:
    says("ops: there is no op 'matmull'; the nearest are matmul", lambda: OPS["matmull"], KeyError)
    says("ops: there is no op 'convolve'; list(OPS) has all names", lambda: OPS["convolve"])
    assert "matmull" not in OPS
    assert OPS.get("matmull") is None
    assert Table("row", {"a": 1}) == {"a": 1}


@BOTH_SESSIONS
def test_a_session_names_the_nearest_op_or_method(kind: Any) -> None:
    s = kind()
    says("session: there is no op or method 'matmull'; the nearest are matmul", lambda: s.matmull)
    says("there is no op or method 'parm'; the nearest are param", lambda: s.parm(ONE))
    says("the nearest are backward", lambda: s.backwards())
    says(
        "session: there is no op 'matmull'; the nearest are matmul",
        lambda: s.apply("matmull", (), {}),
    )
    assert not hasattr(s, "matmull")
    assert not hasattr(s, "__array__")
    says("'matmull'; the nearest are matmul", lambda: grad(lambda ops, x: ops.matmull(x))(ONE))


@BOTH_SESSIONS
def test_a_ref_shows_what_it_is(kind: Any) -> None:
    s = kind()
    w, x = s.use(s.param(TWO, "w")), s.input(ONE)
    total = s.sum(s.square(w))
    shown = [repr(ref) for ref in (w, total, s.const(ONE))]
    assert shown == [
        "Ref(x0 w, shape (2, 2))",
        "Ref(x3 sum, shape ())",
        "Ref(x4 const, shape (1,))",
    ]
    assert re.fullmatch(r"Ref\(x1 (const|input), shape \(1,\)\)", repr(x))
    assert repr(s.param(TWO, "w", False)) == "Param(w, shape (2, 2), frozen)"
    assert repr(s.param(ONE, None)) == "Param(shape (1,))"


@BOTH_SESSIONS
def test_operators_that_a_ref_has_not_say_what_to_write(kind: Any) -> None:
    s = kind()
    p = s.param(ONE)
    x = s.input(TWO)
    for ask, sentence in (
        (lambda: 2**x, "Ref: x ** y is not offered; write ops.exp("),
        (lambda: len(x), "write x.shape[0]"),
        (lambda: x > 0, "compare ops.value(x)"),
        (lambda: x >= 0, "compare ops.value(x)"),
        (lambda: float(x), "write ops.value(x)[()]"),
        (lambda: "yes" if x else "no", "write ops.value(x)[()]"),
        (lambda: x // 2, "write x / y"),
        (lambda: 2 @ x, "matmul: x is a ref of this session; got int"),
        (lambda: x % 2, "there is no such op"),
        (lambda: p + 1, "Param: x + y is not offered; write ops.use(x)"),
        (lambda: 2 * p, "write ops.use(x)"),
    ):
        says(sentence, ask, TypeError)
        says(sentence, ask, Unsupported)
    says("Ref: there is no x.exp; write ops.exp(x)", lambda: x.exp(), AttributeError)
    says("Ref: there is no x.backward; write ops.backward(x)", lambda: x.backward())
    says("Ref: there is no attribute 'shap'; the nearest are shape", lambda: x.shap)
    says("Param: there is no x.grad; gradients are what backward()", lambda: p.grad)
    says("Param: there is no attribute 'valu'; the nearest are value", lambda: p.valu)
    assert x == x  # refs are compared by identity, and may stand in sets
    assert len({x, x}) == 1


def test_an_operand_that_is_no_ref_is_told_how_to_become_one() -> None:
    s = Session()
    x = s.input(ONE)
    way = "input() and const() make a ref of a tensor, use() of a Param, constant() of a number"
    for other in (ONE, np.ones(1), s.param(ONE), "1", 1j, None, True, [1.0]):
        says(way, lambda: x * other)  # noqa: B023
        says("a power is a number", lambda: x**other)  # noqa: B023
        says(way, lambda: s.exp(other))  # noqa: B023
    says(way, lambda: np.ones(1) * x)
    says(
        "take: indices is a ref of this session or a tensor of integers",
        lambda: s.take(x, 0, axis=0),
    )
    says(
        "where: mask is a ref of this session or a tensor of truth values",
        lambda: s.where(True, x, x),
    )


@pytest.mark.parametrize("name", ["sum", "mean", "max"])
def test_one_axis_is_a_tuple_of_one(name: str) -> None:
    s = Session()
    says(
        f"{name} C1: axes is a tuple: write axes=(0,); got axes=0",
        lambda: getattr(s, name)(s.input(TWO), axes=0),
    )


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("sum", {"axes": 1.0}),
        ("permute", {"axes": 0}),
        ("permute", {"axes": None}),
        ("reshape", {"shape": 4}),
        ("reshape", {"shape": (None, 2)}),
        ("broadcast_to", {"shape": 2}),
        ("broadcast_to", {"shape": None}),
        ("slice", {"axis": 0, "start": None, "length": 1}),
        ("slice", {"axis": 0, "start": "0", "length": 1}),
        ("rand_uniform", {"shape": 2, "seed": 1}),
    ],
)
def test_an_attribute_of_another_type_is_refused_by_name(name: str, attributes: Any) -> None:
    s = Session()
    inputs = [s.input(TWO)] if OPS[name].inputs else []
    with pytest.raises(Rejected, match=rf"^{name}\b.*; got "):
        getattr(s, name)(*inputs, **attributes)


def test_every_op_refuses_what_is_no_tensor() -> None:
    for name, op in OPS.items():
        if op.inputs and not op.variadic:
            with pytest.raises(
                Rejected, match=rf"^{name}: input 0: a value is a tensor; got float; write tensor"
            ):
                op(*[2.0] * len(op.inputs))


@pytest.mark.parametrize("name", [function.name for function in (exp, log, tanh, sqrt)])
@pytest.mark.parametrize(
    ("x", "written"), [(3, "3.0"), (Fraction(1, 3), "0.3333"), (10**400, "inf")]
)
def test_what_is_no_fraction_says_which_float_to_write(name: str, x: Any, written: str) -> None:
    with pytest.raises(
        ArithmeticError, match=rf"^{name}: {name}\(.*\) is no fraction, .* Write {written}"
    ):
        OPS[name](tensor([x + (name == "sqrt")]) if x == 10**400 else tensor([x]))


def test_what_an_inner_step_refuses_names_what_the_caller_wrote() -> None:
    with pytest.raises(ArithmeticError) as caught:
        OPS["gelu"](tensor([Fraction(1, 2)]))
    said = str(caught.value)
    assert said.startswith("gelu: erf(about 0.353553) is no fraction, ")
    assert said.endswith(
        "accepted there: erf(0) = 0. Write 0.5 for 1/2, and so on, to compute in floats."
    )


def test_a_quotient_by_an_exact_zero_says_which_float_to_write() -> None:
    with pytest.raises(ZeroDivisionError, match=r"^1 / 0 is no fraction, .* Write 0\.0 to compute"):
        OPS["div"](tensor([1]), tensor([0]))


def test_tensors_and_duals_say_how_they_are_computed_with() -> None:
    for ask in (lambda: ONE + 1, lambda: ONE * ONE, lambda: ONE**2, lambda: ONE > 0):
        says("write OPS['add'](x, y)", ask, TypeError)
    says("write x[()] for the entry of a scalar", lambda: float(tensor(1.0)))
    for index in ("a", 0.5, slice(0, 1), None):
        says("an index is an integer for each axis", lambda: ONE[index])  # noqa: B023
    says("a shape is a tuple of extents; for one, write (2,); got 2", lambda: Tensor(2, [1.0]))  # type: ignore[arg-type]
    says("a shape is a tuple of extents", lambda: tabulate(2, lambda i: i))  # type: ignore[arg-type]
    says("tensors of one shape, (1,), are joined; got (2, 2)", lambda: zip_map(max, ONE, TWO))
    says("are joined; got float", lambda: zip_map(max, ONE, 2.0))  # type: ignore[arg-type]
    x = Dual(1.0, 1.0)
    says("write divide(x, y)", lambda: x / 2, TypeError)
    says("write square(x)", lambda: x**2)
    says("write less(x, y)", lambda: x < 2)


def test_what_is_no_tensor_is_to_be_made_one() -> None:
    s = Session()
    x = s.input(ONE, requires_grad=True)
    for ask in (
        lambda: s.backward(x, [1.0]),
        lambda: s.backward(x, np.ones(1)),
        lambda: s.input([1.0]),
        lambda: jvp(lambda ops, x: x, [ONE], [1.0]),
        lambda: grad(lambda ops, x: x)([1.0]),
    ):
        says("; write tensor(...)", ask)
    says("; got node 0 of shape (1,); sum it, or give seed=tensor(...)", lambda: s.backward(x))


@BOTH_SESSIONS
def test_how_a_gradient_is_looked_up_is_told(kind: Any) -> None:
    s = kind()
    p = s.param(ONE)
    w, x = s.use(p), s.input(ONE)
    y = s.sum(w * x)
    with s.backward(y) as grads:
        assert grads == {w.id: ONE}
    says("by the ids of the leaves, [0]; got Ref(x0", lambda: grads[w], KeyError)
    says("write session.grad(grads, x), of a ref x", lambda: grads[x.id])
    assert grads.get(x.id) is None
    for swapped in (lambda: s.grad(w, grads), lambda: s.grad(grads, p), lambda: s.grad(grads, 0)):
        says("grad: write grad(grads, x), where x is a ref, such as use(param) returns", swapped)


def test_a_tensor_says_how_it_is_read_and_which_ops_there_are() -> None:
    x: Any = ONE
    for ask in (lambda: 2 * x, lambda: 1 - x, lambda: -x, lambda: x // 2, lambda: 3 % x):
        says("write OPS['add'](x, y)", ask, TypeError)
    says("write OPS['sum'](x) if there is such an op", lambda: x.sum(), AttributeError)
    for ask in (lambda: x.tolist(), lambda: x.item(), lambda: round(x), lambda: f"{x:.3f}"):
        says("write x[()] for the entry of a scalar", ask)
    says("a tensor keeps no gradient: grad(f)(x) returns it", lambda: x.grad)
    says("Tensor: there is no x.shap; the nearest are shape", lambda: x.shap)
    says("len(x) is not offered; write x.shape[0]", lambda: len(x))
    assert x and f"{x}" == repr(x)
    assert list(x) == [1.0]
    rule = "tensor: an index is an integer for each axis; x[()] is the entry of a scalar; got (0,)"
    says(f"{rule} for shape ()", lambda: tensor(2.0)[0])
    counted = "it is counted from the front, from 0; x.data[-1] is the last entry"
    says(f"tensor: index (-1,) is outside shape (1,); {counted}", lambda: x[-1], IndexError)
    says(f"{rule} for shape (2, 2)", lambda: list(tensor([[1.0, 2.0], [3.0, 4.0]])))


def test_a_table_and_what_shows_a_tape_say_how_they_are_called() -> None:
    table: Any = OPS
    says("ops: a row is found by its name: write ['softmax']; got .softmax", lambda: table.softmax)
    says("no op 'softmaxx'; the nearest are", lambda: table.softmaxx)
    s = Session()
    x = s.input(ONE)
    wrong: Any = (dot, ledger)
    says("dot: 2 arguments without a name are too many; it takes shown", lambda: wrong[0](s, x))
    says("ledger: out is missing; it takes shown, out, seed=None", lambda: wrong[1](s), TypeError)


def test_a_derivative_says_how_it_and_its_program_are_called() -> None:
    program: Any = lambda x: x * x  # noqa: E731
    said = "grad: a program is called as f(ops, *refs), where ops has the ops, with a ref for each"
    says(said, lambda: grad(program)(ONE))
    says(
        "here it is given 2 arguments; got a function that takes 1: (x)", lambda: grad(program)(ONE)
    )
    made: Any = grad
    says("write grad(f)(x); got Tensor([1.0]) as argnums", lambda: made(program, ONE))
    says(
        "grad: 3 arguments without a name are too many", lambda: made(program, ONE, ONE), TypeError
    )
    assert repr(grad(program)) == "<grad(f), a function of tensors: call it on them>"
    assert repr(jacfwd(grad(program))).startswith("<jacfwd(grad(f)), a function of tensors")


def test_integers_are_numbers_where_a_program_calculates_with_them() -> None:
    whole = tensor([3, 1])
    says(
        "hvp: an input holds numbers, or integers with a vector of their shape beside them",
        lambda: hvp(lambda ops, x: ops.sum(x * x), [whole], [None]),
    )
    ones = tensor([1, 1])
    assert vjp(lambda ops, x: x * x, whole)[1](ones) == (tensor([6, 2]),)
    back = vjp(lambda ops, x, at: ops.sum(ops.take(x, at, axis=0)), TWO, tensor([1, 1]))[1]()
    assert back == (tensor([[0.0, 0.0], [2.0, 2.0]]), None)


def test_what_is_opened_is_a_composite_by_its_name() -> None:
    s = Session()
    s.exp(s.input(ONE))
    names: Any = ["softmax"]
    says("no composite on the tape 'softmax'; there are none", lambda: opened(s, "softmax"))
    says("opened: a name is a str: write opened(shown, ", lambda: opened(s, names))


@BOTH_SESSIONS
def test_no_name_of_the_inside_is_offered(kind: Any) -> None:
    s = kind()
    x: Any = s.input(ONE)
    for one in (x, s, ONE):
        for name in ("answer_for_both", "x_unknown"):
            with pytest.raises(Rejected) as caught:
                getattr(one, name)
            assert "answers_for_both" not in str(caught.value)


def test_numpy_is_told_what_to_write_for_its_functions() -> None:
    s = Session()
    x: Any = s.input(TWO)
    assert s.value(np.sum(x)) == tensor(10.0)
    says("Ref: numpy.dot is of arrays; write ops.dot(x, y)", lambda: np.dot(x, x))
    says(
        "Ref: numpy.where is of arrays; write ops.where(mask, x, y)", lambda: np.where([True], x, x)
    )


def test_a_ref_of_elsewhere_is_told_so() -> None:
    s = Session()
    y = s.input(tensor(1.0))
    way = "x0 of another session; what a program uses comes in by its arguments, or by ops.const("
    says(way, lambda: grad(lambda ops, x: ops.mul(x, y))(tensor(2.0)))
    s.reset_tape()
    says("mul: an operand is a ref of this session or a number; got x0 from before", lambda: y * 2)


def test_records_take_ids_ops_and_types() -> None:
    s, graph = Session(), Graph()
    x = s.input(ONE)
    for bad in ("0", x, 0.0, None):
        says("tape: ids lie in [0, 1); got ", lambda: s.tape.node(bad))  # noqa: B023
        says("graph: ids lie in [0, 0); got ", lambda: graph.entry(bad))  # noqa: B023
    says("an op is an Op, such as OPS['add']; got 'add'", lambda: s.tape.apply("add", 0, 0))
    says("an op is an Op, such as OPS['add']; got 'add'", lambda: graph.apply("add", 0, 0))
    says("exp: input 0: a value is a tensor; got Ref", lambda: s.tape.apply(OPS["exp"], x))
    says("a leaf is given by its Type", lambda: graph.leaf((2,)))
    says("seeds are a mapping from ids", lambda: graph.backprop([], None))
    says("seeds are a mapping from ids", lambda: s.tape.backward_from(0))
    graph.leaf(Type(()))
    assert len(graph) == len(s.tape) == 1
    says("an observer is a function of one event; got int", lambda: Session(3))
    for shape in (3, None, "ab", (1, None), (-1,)):
        says("constant: ", lambda: s.constant(1.0, shape))  # noqa: B023


def test_programs_and_what_they_are_run_on() -> None:
    rule = "a program is called as f(ops, *refs), where ops has the ops, with a ref for each tensor"
    for bad in (3, None, lambda x: x, lambda ops, x, y: x):
        says(f"grad: {rule}", lambda: grad(bad)(ONE))  # noqa: B023
        says(f"jvp: {rule}", lambda: jacfwd(bad)(ONE))  # noqa: B023
        trainer = scalar_trainer(bad, [ONE])
        says(f"trainer: {rule}", lambda: trainer.step(0.5, []))  # noqa: B023
    says("jvp: inputs are tensors in a list; got float", lambda: jvp(lambda ops, x: x, 1.0, 1.0))
    says("hvp: inputs are tensors in a list; got Tensor", lambda: hvp(lambda ops, x: x, ONE, ONE))
    assert called("who", "rule", max, 1, 2) == 2


def test_batches_and_their_pieces() -> None:
    trainer = scalar_trainer(lambda ops, w: ops.sum(w), [ONE])
    for bad in (None, 3, 0.1):
        says("trainer: inputs are tensors in a list", lambda: trainer.step(0.5, bad))  # noqa: B023
    for pieces, weights in ((None, None), ([[]], 3), ([[]], [None]), ([[]], ["a"])):
        says("trainer: ", lambda: trainer.forward(MicroBatches(pieces, weights)))  # noqa: B023
    for inputs, count in (([ONE], "a"), ([ONE], 1.0), (ONE, 1), ([1.0], 1), (None, 1)):
        says("split: ", lambda: split(inputs, count))  # noqa: B023
    s = Session()
    says("t: data are examples", lambda: mean_scalar_over(s, "t", 3, lambda e: e))
    says("t: a loss is a function of an example", lambda: mean_scalar_over(s, "t", [1], None))
    says("trainer: inputs are tensors in a list", lambda: use_inputs(s, None))
    says("clip: ", lambda: clip.clipped(ONE, 1.0))
    says("clip: a value is a tensor", lambda: clip.clipped([1.0], 1.0))
    says("the interpreter is one of eager, graph", lambda: scalar_trainer(None, [], None, []))


def test_what_is_shown_is_a_tape_or_has_one() -> None:
    s = GraphSession()
    out = s.sum(s.input(ONE))
    for bad in (s.graph, out, None):
        rule = "show: what is shown is a session, its tape, or the tape that compile_tape() returns"
        for show in (program, dot, svg, lambda x: ledger(x, 1)):
            says(rule, lambda: show(bad))  # noqa: B023
    for shown in (s, s.tape):
        assert program(shown) == program(s.compile_tape())
        assert dot(shown) == dot(s.compile_tape())
        assert ledger(shown, out) == ledger(s.compile_tape(), out.id)
    says("an event is a Seed, a Pull or an Accumulate; got 3", lambda: event(3))
    assert program(s.compile_tape()).count("\n") == 1
    assert len(Tape()) == 0


def test_a_class_refuses_operators_and_type_checkers_see_nothing() -> None:
    @hints({"__mod__": "write less"})
    class Plain:
        pass

    says("Plain: x % y is not offered; write less", lambda: Plain() % 2)


def test_what_makes_tensors_and_sessions_says_how_it_is_called() -> None:
    wrong: Any = (tensor, Session, GraphSession)
    says(
        "tensor: there is no argument 'requires_grad'; it takes nested",
        lambda: wrong[0](1.0, requires_grad=True),
        TypeError,
    )
    says(
        "Session: there is no argument 'observe'; it takes observer=None",
        lambda: wrong[1](observe=print),
        TypeError,
    )
    says(
        "GraphSession: there is no argument 'observe'; it takes no argument",
        lambda: wrong[2](observe=print),
        TypeError,
    )
