"""What is no tensor, no number, no ref or no flag is refused by name, and changes nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from spec.autodiff import grad, hessian, hvp, jacfwd, jacrev, jvp, value_and_grad, vjp
from spec.graph import Graph, Type
from spec.linked import GraphSession
from spec.op import Rejected
from spec.optim import adam, adamw, clip, schedules, sgd
from spec.refusals import Unmoved
from spec.session import Session
from spec.tape import Tape
from spec.tensor import tensor
from spec.train import ParamList, mean_scalar_over, scalar_trainer
from spec.updates import Param

BOTH_SESSIONS = pytest.mark.parametrize("kind", [Session, GraphSession])
ONE, TWO = tensor([1.0]), tensor([1.0, 2.0])


@BOTH_SESSIONS
@pytest.mark.parametrize("bad", [2.0, [1.0], None, "x", True])
def test_what_is_no_tensor_is_not_recorded(kind: Any, bad: Any) -> None:
    s = kind()
    for who, ask in (("const", s.const), ("input", s.input), ("param", s.param)):
        with pytest.raises(
            Rejected, match=rf"^{who}: a value is a tensor; got {type(bad).__name__}"
        ):
            ask(bad)
    x, y = s.input(tensor([5.0])), s.input(tensor([6.0]))
    assert (s.value(x), s.value(y)) == (tensor([5.0]), tensor([6.0]))
    assert (x.id, y.id) == (0, 1)
    assert s.value(s.sum(x * y)) == tensor(30.0)


def test_a_record_without_a_session_is_not_corrupted_either() -> None:
    recording = GraphSession().tape
    for append in (recording.leaf, recording.const):
        with pytest.raises(Rejected, match=r"^graph: a value is a tensor; got list; write tensor"):
            append([1.0])
    assert len(recording) == len(recording.graph) == len(recording.inputs) == 0
    tape = Tape()
    for append in (tape.leaf, tape.param, tape.const):
        with pytest.raises(Rejected, match=r"^tape: a value is a tensor; got list; write tensor"):
            append([1.0])
    assert len(tape) == 0


@pytest.mark.parametrize("bad", ["no", None, 1, 0])
def test_a_flag_is_true_or_false(bad: Any) -> None:
    s = Session()
    for ask in (
        lambda: s.param(ONE, requires_grad=bad),
        lambda: s.input(ONE, requires_grad=bad),
        lambda: ParamList([ONE, ONE], [True, bad]),
        lambda: scalar_trainer(lambda ops, w: ops.sum(w), [ONE], [bad]),
    ):
        with pytest.raises(Rejected, match=r"requires_grad is True or False; got "):
            ask()
    assert len(s.tape) == 0


@BOTH_SESSIONS
def test_what_is_no_parameter_is_not_used(kind: Any) -> None:
    s = kind()
    for bad in (ONE, 1.0, None, s.input(ONE)):
        with pytest.raises(Rejected, match=r"^use: a parameter is a Param; got "):
            s.use(bad)
    assert (len(s.tape), s.params_by_leaf) == (1, {})


def test_a_parameter_is_set_to_a_tensor_of_its_shape() -> None:
    w = Session().param(TWO, "w")
    for bad in ([1.0, 2.0], 1.0, None):
        with pytest.raises(Rejected, match=r"^param: a value of w has the shape \(2,\); got "):
            w.set(bad)  # type: ignore[arg-type]
    assert (w.value, w.version) == (TWO, 0)


@BOTH_SESSIONS
def test_a_vector_of_naturals_has_rank_1(kind: Any) -> None:
    s = kind()
    block = s.nat_vec(tensor([4, 5]))
    assert s.get_nat_vec(block, 2) == [4, 5]
    for bad, came in (
        (tensor([[4, 5], [6, 7]]), r"the shape \(2, 2\)"),
        (tensor(3), r"the shape \(\)"),
        (3, "int"),
        (None, "NoneType"),
        ("12", "str"),
    ):
        for ask in (lambda: s.nat_vec(bad), lambda: s.set_nat_vec(block, bad)):  # noqa: B023
            with pytest.raises(
                Rejected, match=rf"^nat: a vector is a tensor of rank 1 .*got {came}"
            ):
                ask()
    with pytest.raises(Rejected, match=r"^nat: a recorded integer is a natural number; got 1.5"):
        s.nat_vec(tensor([1.5]))
    assert s.get_nat_vec(block, 2) == [4, 5]
    assert s.nat(1) == block + 2, "nothing was recorded meanwhile"


@BOTH_SESSIONS
def test_a_vector_of_naturals_is_overwritten_to_its_end_and_no_further(kind: Any) -> None:
    s = kind()
    block, empty, n = s.nat_vec(iter([1, 2, 3])), s.nat_vec([]), s.nat(7)
    assert len({block, empty, n}) == 3
    for handle, bad in ((block, [9] * 4), (block, [9] * 2), (block + 1, [9] * 3), (empty, [9])):
        with pytest.raises(
            Rejected, match=r"^set_nat_vec: from handle \d+ on, its vector has \d int"
        ):
            s.set_nat_vec(handle, bad)
    assert (s.get_nat_vec(block, 3), s.get_nat(n)) == ([1, 2, 3], 7)
    s.set_nat_vec(block, [4, 5, 6])
    s.set_nat_vec(block + 1, (8, 9))
    s.set_nat_vec(empty, [])
    assert s.get_nat_vec(block, 3) == [4, 8, 9]
    assert (s.get_nat_vec(block + 1, 1), s.get_nat_vec(empty, 0)) == ([8], [])
    for handle, count in ((block, 4), (block + 2, 2), (empty, 1), (n, 2)):
        with pytest.raises(Rejected, match=r"^nat: a block lies within its vector, which has \d"):
            s.get_nat_vec(handle, count)


def test_handles_and_counts_of_naturals_are_integers() -> None:
    s = Session()
    block = s.nat_vec([1, 2])
    for bad in ("a", 1.5, True, None, 1.0):
        for ask in (
            lambda: s.get_nat_vec(block, bad),  # noqa: B023
            lambda: s.indices(block, bad),  # noqa: B023
        ):
            with pytest.raises(Rejected, match=r"^nat: a count is an integer >= 0; got "):
                ask()
        for ask in (
            lambda: s.get_nat(bad),  # noqa: B023
            lambda: s.set_nat(bad, 1),  # noqa: B023
            lambda: s.set_nat_vec(bad, [1]),  # noqa: B023
        ):
            with pytest.raises(Rejected, match=r"^nat: a handle is an integer; got "):
                ask()
    assert s.get_nat_vec(block, 2) == [1, 2]


def product(ops: Any, x: Any, y: Any) -> Any:
    """The sum of x y."""
    return ops.sum(x * y)


def recorded(kind: Any) -> tuple[Any, Any]:
    """Return a session and the scalar that it has recorded of two leaves."""
    s = kind()
    x, y = s.input(TWO, requires_grad=True), s.input(TWO)
    return s, product(s, x, y)


@BOTH_SESSIONS
@pytest.mark.parametrize("bad", [[1.0], 1.0, "1"])
def test_a_seed_is_a_tensor(kind: Any, bad: Any) -> None:
    s, out = recorded(kind)
    for ask in (s.backward, s.backward_dense):
        with pytest.raises(
            Rejected,
            match=r"the seed has the shape \(\) of node \d; got \w+(; write tensor\(\.\.\.\))?$",
        ):
            ask(out, bad)


@pytest.mark.parametrize("bad", [[1.0, 2.0], 1.0])
def test_a_tangent_is_a_tensor_and_its_position_is_named(bad: Any) -> None:
    s, out = recorded(GraphSession)
    name = type(bad).__name__ + re.escape("; write tensor(...)")
    with pytest.raises(Rejected, match=rf"^graph: tangent 1 has the shape \(2,\) .*; got {name}$"):
        s.jvp(out, [None, bad])
    for ask in (
        lambda: jvp(product, [TWO, TWO], [TWO, bad]),
        lambda: hvp(product, [TWO] * 2, [None, bad]),
    ):
        with pytest.raises(
            Rejected, match=rf"^jvp: tangent 1 has the shape \(2,\) .*; got {name}$"
        ):
            ask()
    graph = Graph()
    graph.leaf(Type((2,)))
    with pytest.raises(Rejected, match=rf"^graph: input 0 has the shape \(2,\) .*; got {name}$"):
        graph.evaluate([bad])
    with pytest.raises(Rejected, match=r"tape: the seed has the shape"):
        vjp(product, TWO, TWO)[1](bad)


@pytest.mark.parametrize("bad", [[1.0, 2.0], 1.0, None])
def test_an_input_of_a_derivative_is_a_tensor(bad: Any) -> None:
    name = type(bad).__name__ + ("" if bad is None else re.escape("; write tensor(...)"))
    for ask in (
        lambda: grad(product)(TWO, bad),
        lambda: value_and_grad(product)(TWO, bad),
        lambda: jacfwd(product)(TWO, bad),
        lambda: vjp(product, TWO, bad),
        lambda: jvp(product, [TWO, bad], [TWO, TWO]),
        lambda: hvp(product, [TWO, bad], [TWO, TWO]),
    ):
        with pytest.raises(Rejected, match=rf"^\w+: input 1: a value is a tensor; got {name}$"):
            ask()


Step = Callable[[Any, Any], None]
STEPS: dict[str, Step] = {
    "sgd": lambda s, grads: s.sgd_step(0.5, grads),
    "adam": lambda s, grads: s.adam_step(grads=grads),
    "adamw": lambda s, grads: s.adamw_step(grads=grads, max_norm=1.0),
}


@BOTH_SESSIONS
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_gradients_are_a_mapping_or_a_list(kind: Any, step: Step) -> None:
    s = kind()
    w = s.param(ONE)
    x = s.use(w)
    for bad in (None, 1.0, (g for g in [ONE]), ONE):
        with pytest.raises(Rejected, match=r"^grad: gradients are a mapping by id or a list; got "):
            step(s, bad)
        with pytest.raises(Rejected, match=r"^grad: gradients are a mapping by id or a list; got "):
            s.grad(bad, x)
    for grads in ({0: [1.0]}, [[1.0]], {0: 1.0}):
        with pytest.raises(
            Rejected, match=r"^grad: the gradient of node 0 has its shape \(1,\); got"
        ):
            step(s, grads)
    assert (w.version, s.state(w)) == (0, None)


def test_lists_of_values_and_gradients_hold_tensors() -> None:
    params = ParamList([ONE, TWO])
    for bad in ([ONE, [1.0, 2.0]], [1.0, 2.0], None, 1.0):
        with pytest.raises(
            Rejected, match=r"^params: values of the shapes \[\(1,\), \(2,\)\]; got"
        ):
            params.set_values(bad)  # type: ignore[arg-type]
    with pytest.raises(Rejected, match=r"^grad: .*; got list; write tensor"):
        params.sgd_step(0.5, [ONE, [1.0, 2.0]])  # type: ignore[list-item]
    for bad in (None, {0: ONE, 1: TWO}, (g for g in [ONE])):
        with pytest.raises(Rejected, match=r"^params: one gradient for each of 2; got "):
            params.sgd_step(0.5, bad)  # type: ignore[arg-type]
    assert [param.version for param in params.params] == [0, 0]
    for bad in (None, 1.0, [1.0]):
        with pytest.raises(Rejected, match=r"^param"):
            ParamList(bad)  # type: ignore[arg-type]
    with pytest.raises(Rejected, match=r"^params: one requires_grad flag for each of the 1 val"):
        ParamList([ONE], True)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [None, "0.5", True, 1j, [0.5]])
def test_hyper_parameters_are_numbers(bad: Any) -> None:
    for record, names in (
        (sgd.Sgd, ("lr", "momentum", "dampening", "weight_decay")),
        (adam.Adam, ("lr", "beta1", "beta2", "eps", "weight_decay")),
        (adamw.AdamW, ("lr", "beta1", "beta2", "eps", "weight_decay")),
    ):
        for name in names:
            with pytest.raises(Rejected, match=rf"^{record.__name__.lower()} C\d: {name} .*; got "):
                record(**{"lr": 0.5, name: bad})  # type: ignore[arg-type]
    if bad is not None:
        with pytest.raises(Rejected, match=r"^clip C1: max_norm is finite and > 0; got "):
            clip.check(bad)
    for record in (sgd.Sgd, adam.Adam, adamw.AdamW):
        record(lr=Fraction(1, 2))  # type: ignore[arg-type]
        record(lr=1)


def test_nesterov_is_true_or_false() -> None:
    for bad in ("no", None, 1):
        with pytest.raises(Rejected, match=r"^sgd C2: nesterov is True or False; got "):
            sgd.Sgd(0.5, momentum=0.5, nesterov=bad)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (5, "groups are mappings in a list; got int"),
        ("ab", "groups are mappings in a list; got str"),
        ({"params": []}, "groups are mappings in a list; got dict"),
        ([5], "group 1 is a mapping; got int"),
        ([{"params": []}, ["params"]], "group 2 is a mapping; got list"),
        ([{"params": Param(ONE, "w", True)}], "group 1: 'params' are Params in a list; got Param"),
        ([{"params": 0}], "group 1: 'params' are Params in a list; got int"),
        ([{"params": None}], "group 1: 'params' are Params in a list; got NoneType"),
        ([{"params": "w"}], "group 1: 'params' are Params in a list; got str"),
        ([{"params": [7]}], "group 1: a parameter is a Param"),
        ([{"params": [True]}], "group 1: a parameter is a Param"),
        ([{"params": [-3]}], "group 1: a parameter is a Param"),
    ],
)
def test_groups_that_are_none_change_nothing(groups: Any, message: str) -> None:
    s = Session()
    w = s.param(ONE)
    grads = s.backward(s.sum(s.use(w)))
    with pytest.raises(Rejected, match=rf"^adam: {message}"):
        s.adam_step(grads=grads, groups=groups)
    assert (w.version, s.state(w)) == (0, None)
    trainer = scalar_trainer(lambda ops, w: ops.sum(w), [ONE])
    with pytest.raises(Rejected, match=rf"^adam: {message}"):
        trainer.adam_step([], groups=groups)
    assert (trainer.params.values(), trainer.steps) == ([ONE], 0)


@pytest.mark.parametrize("interpreter", ["eager", "graph"])
def test_a_loss_is_a_ref(interpreter: str) -> None:
    for bad in (1.0, None, ONE, Session().const(tensor(1.0))):
        trainer = scalar_trainer(lambda ops, w: bad, [ONE], None, interpreter)  # noqa: B023
        for ask in (trainer.forward, trainer.backward, lambda x: trainer.step(0.5, x)):  # noqa: B023
            with pytest.raises(Rejected, match=r"^trainer: a loss is a ref of this session"):
                ask([])
        assert (trainer.params.values(), trainer.steps) == ([ONE], 0)


@BOTH_SESSIONS
def test_the_loss_of_an_example_is_a_ref(kind: Any) -> None:
    for bad in (1.0, None, ONE, Session().const(tensor(1.0))):
        with pytest.raises(Rejected, match=r"^fold 3: a loss is a ref of this session"):
            mean_scalar_over(kind(), "fold 3", [1, 2], lambda x: bad)  # noqa: B023


def test_a_gradient_of_another_shape_is_refused_for_a_frozen_parameter_too() -> None:
    params = ParamList([tensor(1.0), TWO], [True, False])
    with pytest.raises(
        Rejected, match=r"^grad: the gradient of node 1 has its shape \(2,\); got \(\)"
    ):
        params.sgd_step(0.0, [tensor(1.0), tensor(1.0)])
    assert [param.version for param in params.params] == [0, 0]


@BOTH_SESSIONS
def test_a_leaf_that_was_frozen_when_used_takes_no_gradient_later(kind: Any) -> None:
    s = kind()
    w = s.param(ONE, requires_grad=False)
    frozen = s.use(w)
    w.requires_grad = True
    with pytest.warns(Unmoved, match=r"^sgd_step: no parameter was updated: the gradients do not "):
        s.sgd_step(1.0, {frozen.id: ONE})
    assert w.version == 0
    thawed = s.use(w)
    s.sgd_step(1.0, [ONE, tensor([0.5])])
    assert (w.value, thawed.id) == (tensor([0.5]), 1)
    ParamList([], session=s).sgd_step(1.0, [])
    with pytest.warns(Unmoved):
        s.sgd_step(1.0, {frozen.id: ONE})
    assert w.version == 1, "a list's step leaves the session's leaves as they were"
    s.reset_tape()
    s.sgd_step(1.0, {s.use(w).id: ONE})
    assert w.version == 2


def test_a_number_beyond_every_float_is_an_infinity() -> None:
    for kind in (Session, GraphSession):
        s = kind()
        assert s.value(s.constant(10**400)) == tensor(math.inf)
        assert s.value(s.constant(Fraction(-(10**400), 3))) == tensor(-math.inf)
        assert s.value(s.input(tensor([1.0, -1.0])) * 10**400) == tensor([math.inf, -math.inf])


@pytest.mark.parametrize("bad", [None, "0.5", True, 1j])
def test_the_numbers_of_a_schedule_are_numbers(bad: Any) -> None:
    asks: list[tuple[str, Callable[[], Any]]] = [
        ("constant C1", lambda: schedules.constant(bad)),
        ("cosine C1", lambda: schedules.cosine(0.5, total=3, minimum=bad)),
        ("step C3", lambda: schedules.step(0.5, step_size=2, gamma=bad)),
        ("exponential C3", lambda: schedules.exponential(0.5, gamma=bad)),
        ("linear_warmup C3", lambda: schedules.linear_warmup(0.5, warmup=2, start_factor=bad)),
        ("one_cycle C3", lambda: schedules.one_cycle(0.5, total=9, rise=bad)),
        ("one_cycle C3", lambda: schedules.one_cycle(0.5, total=9, div_factor=bad)),
    ]
    for label, ask in asks:
        with pytest.raises(Rejected, match=rf"^{label}: .*; got "):
            ask()
    with pytest.raises(Rejected, match=r"^sgd C1: lr is finite and >= 0; got "):
        trainer = scalar_trainer(lambda ops, w: ops.sum(w), [ONE])
        trainer.step(lambda step: bad, [])


@pytest.mark.parametrize("bad", [None, 3, TWO, (t for t in [TWO])])
def test_tangents_and_inputs_are_lists(bad: Any) -> None:
    name = type(bad).__name__
    s, out = recorded(GraphSession)
    graphs = {"one tangent": lambda: s.jvp(out, bad), "one input": lambda: s.graph.evaluate(bad)}
    for rule, ask in graphs.items():
        with pytest.raises(
            Rejected, match=rf"^graph: {rule} for each of the 2 leaves; got {name}$"
        ):
            ask()
    for ask in (lambda: jvp(product, [TWO, TWO], bad), lambda: hvp(product, [TWO, TWO], bad)):
        with pytest.raises(Rejected, match=rf"^jvp: one tangent for each of the 2 .*; got {name}$"):
            ask()


@pytest.mark.parametrize("bad", ["a", "01", 1.0, None, True, (0, True), (0.0,), [0, "1"]])
def test_argnums_are_integers(bad: Any) -> None:
    for make in (grad, value_and_grad, jacfwd, jacrev, hessian):
        with pytest.raises(
            Rejected, match=r"^\w+: argnums names distinct inputs in \[-2, 2\); got"
        ):
            make(product, bad)(TWO, TWO)


def test_a_state_is_that_of_a_parameter() -> None:
    s = Session()
    for state in (None, sgd.State()):
        with pytest.raises(Rejected, match=r"^load_state: a parameter is a Param; got Tensor$"):
            s.load_state(ONE, state)  # type: ignore[arg-type]
    with pytest.raises(Rejected, match=r"^state: a parameter is a Param; got Tensor$"):
        s.state(ONE)  # type: ignore[arg-type]


@BOTH_SESSIONS
def test_integers_of_an_op_are_no_numbers(kind: type[Session] | type[GraphSession]) -> None:
    s = kind()
    x = s.input(tensor([1.0, 3.0]))
    places = s.argmax(x)
    for call in (s.exp, lambda ref: s.mul(x, ref), lambda ref: s.concat(x, ref, axis=0)):
        before = len(s.tape)
        with pytest.raises(
            Rejected, match="integers of an op are taken for indices only; got argmax"
        ):
            call(places)
        assert len(s.tape) == before
    assert s.value(s.take(x, places, axis=0)) == tensor(3.0)
