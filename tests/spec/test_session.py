"""The session: parameters across tapes, gradients in both forms, naturals, and what it refuses."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from spec.autodiff import grad, hvp, jvp
from spec.dual import Dual
from spec.formats import BINARY32
from spec.linked import GraphSession
from spec.op import AnyTensor, Rejected
from spec.ops import OPS
from spec.optim import OPTIMIZERS, adam, adamw, clip, sgd
from spec.optim._moments import Moments
from spec.rounded import Rounded
from spec.scalar import divide, lift, zero_like
from spec.session import Ref, Session
from spec.tensor import tensor
from spec.updates import Param

Backward = Callable[[Session, Ref], Any]
FORMS: dict[str, Backward] = {
    "sparse": lambda session, loss: session.backward(loss),
    "dense": lambda session, loss: session.backward_dense(loss),
}
BOTH_FORMS = pytest.mark.parametrize("backward", FORMS.values(), ids=FORMS)

Step = Callable[[Session, Any], None]
STEPS: dict[str, Step] = {
    "sgd": lambda s, grads: s.sgd_step(0.5, grads, momentum=0.5, weight_decay=0.5),
    "adam": lambda s, grads: s.adam_step(0.5, grads=grads, weight_decay=0.5),
    "adamw": lambda s, grads: s.adamw_step(0.5, grads=grads, weight_decay=0.5),
    "clipped": lambda s, grads: s.sgd_step(0.5, grads, weight_decay=0.5, max_norm=1.0),
}
BOTH_STEPS = pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
BOTH_SESSIONS = pytest.mark.parametrize("kind", [Session, GraphSession])


def squared(session: Session, *refs: Ref) -> Ref:
    """Add the squares of all entries of all refs."""
    total = session.sum(session.square(refs[0]))
    for ref in refs[1:]:
        total = total + session.sum(session.square(ref))
    return total


@pytest.mark.holds("A session: its options, its tape, its parameters, its naturals")
def test_every_op_is_a_method() -> None:
    session = Session()
    x = session.input(tensor([[3, 1]]))
    assert session.value(session.permute(x, axes=(1, 0))) == tensor([[3], [1]])
    assert [name for name in OPS if not callable(getattr(session, name, None))] == []


def test_operators_broadcast_as_numpy_does() -> None:
    s = Session()
    x, y = s.input(tensor([[6], [8]])), s.input(tensor([2, 1]))
    z = s.input(tensor(2))
    assert s.value(x + y).nested() == [[8, 7], [10, 9]]
    assert s.value(x - y).nested() == [[4, 5], [6, 7]]
    assert s.value(x * z).nested() == [[12], [16]]
    assert s.value(x / y).nested() == [[3, 6], [4, 8]]
    assert s.value(x @ s.input(tensor([[1, 10]]))).nested() == [[6, 60], [8, 80]]
    assert s.value(-y).nested() == [-2, -1]


@pytest.mark.holds("Inputs, with a gradient or without")
def test_gradients_pass_the_broadcasts_of_operators() -> None:
    s = Session()
    x, y = (s.input(v, requires_grad=True) for v in (tensor([[6], [8]]), tensor([2, 1])))
    grads = s.backward(s.sum(x * y))
    assert s.grad(grads, x) == tensor([[3], [3]])
    assert s.grad(grads, y) == tensor([14, 14])


def test_shapes_that_do_not_broadcast_are_refused() -> None:
    s = Session()
    x, y = s.input(tensor([1, 2])), s.input(tensor([1, 2, 3]))
    with pytest.raises(Rejected, match=r"^add: the shapes broadcast .*\(2,\).*\(3,\)"):
        x + y
    assert len(s.tape) == 2


@pytest.mark.holds("Use a parameter, once or more often")
@BOTH_FORMS
def test_a_parameter_used_twice_adds_up_and_is_updated_once(backward: Backward) -> None:
    s = Session()
    w = s.param(tensor([1.0, -2.0]), name="w")
    first, second = s.use(w), s.use(w)
    assert first.id != second.id
    # the gradient of first * second is their exchange: 1 + 1, -2 - 2
    s.sgd_step(0.25, backward(s, s.sum(first * second)))
    assert w.value == tensor([0.5, -1.0])
    assert w.version == 1


@pytest.mark.holds("Make a parameter, trainable or frozen")
@BOTH_STEPS
@BOTH_FORMS
def test_frozen_parameters_stay(step: Step, backward: Backward) -> None:
    s = Session()
    w, frozen = s.param(tensor([1.0])), s.param(tensor([2.0]), requires_grad=False)
    loss = squared(s, s.use(w), s.use(frozen))
    step(s, backward(s, loss))
    assert w.version == 1
    assert (frozen.value, frozen.version, s.state(frozen)) == (tensor([2.0]), 0, None)


@pytest.mark.holds("Gradients of the trainable leaves")
@BOTH_STEPS
@BOTH_FORMS
def test_a_parameter_used_but_not_reached_stays(step: Step, backward: Backward) -> None:
    s = Session()
    w, aside = s.param(tensor([1.0])), s.param(tensor([2.0]))
    x, far = s.use(w), s.use(aside)
    s.square(far)
    grads = backward(s, squared(s, x))
    assert s.grad(grads, far) == tensor([0.0]), "asked for its gradient, it says zero"
    step(s, grads)
    assert (aside.value, aside.version, s.state(aside)) == (tensor([2.0]), 0, None)
    assert w.version == 1


@BOTH_STEPS
def test_a_reached_parameter_with_gradient_zero_is_stepped(step: Step) -> None:
    s = Session()
    w = s.param(tensor([1.0]))
    x = s.use(w)
    step(s, s.backward(s.sum(x - x)))
    assert w.version == 1
    assert w.value.data[0] <= 0.75, "weight decay acts"


@pytest.mark.holds("Forget the tape, and not the random counter")
def test_a_tape_reset_keeps_parameters_and_states() -> None:
    s = Session()
    w = s.param(tensor(4.0))
    for _ in range(2):
        s.reset_tape()
        assert len(s.tape) == 0 and not s.params_by_leaf
        s.sgd_step(1.0, s.backward(s.sum(s.use(w))), momentum=0.5)
    # buffers 1, 1.5
    assert w.value == tensor(1.5)
    assert s.state(w) == sgd.State(tensor(1.5))


@pytest.mark.holds("Optimizer state, one for each parameter, by leaf id")
def test_each_parameter_counts_its_own_steps() -> None:
    s = Session()
    w, late = s.param(tensor([1.0])), s.param(tensor([1.0]))
    for params in ((w,), (w,), (w, late)):
        s.reset_tape()
        s.adamw_step(grads=s.backward(squared(s, *[s.use(p) for p in params])))
    assert (s.state(w).step, s.state(late).step) == (3, 1)


def test_a_state_belongs_to_a_parameter_and_not_to_its_address() -> None:
    s = Session()
    for _ in range(50):
        s.reset_tape()
        w = s.param(tensor([1.0]))
        assert s.state(w) is None, "a new parameter has taken the state of one long gone"
        s.sgd_step(1.0, s.backward(squared(s, s.use(w))), momentum=0.5)
        del w


@pytest.mark.holds("Optimizer state, one for each parameter, by leaf id")
def test_states_can_be_carried_over() -> None:
    s, t = Session(), Session()
    w, copy = s.param(tensor([1.0])), t.param(tensor([1.0]))
    s.adamw_step(grads=s.backward(squared(s, s.use(w))))
    copy.set(w.value)
    t.load_state(copy, s.state(w))
    for session, param in ((s, w), (t, copy)):
        session.reset_tape()
        session.adamw_step(grads=session.backward(squared(session, session.use(param))))
    assert (copy.value, t.state(copy)) == (w.value, s.state(w))


@pytest.mark.parametrize(
    ("step", "hyper"),
    [
        (Session.sgd_step, sgd.Sgd),
        (Session.adam_step, adam.Adam),
        (Session.adamw_step, adamw.AdamW),
    ],
)
def test_steps_have_the_defaults_of_their_pages(step: Any, hyper: Any) -> None:
    taken = inspect.signature(step).parameters
    own = {name: p.default for name, p in inspect.signature(hyper).parameters.items()}
    assert {name: taken[name].default for name in own} == own
    beside = {"self", "grads", "groups", "max_norm", "grad_scale", "max_value"}
    assert taken.keys() - own.keys() == beside


@pytest.mark.parametrize(
    ("method", "page", "record", "hyper"),
    [
        ("sgd_step", sgd, sgd.Sgd, {"momentum": 0.5, "dampening": 0.25, "weight_decay": 0.125}),
        ("sgd_step", sgd, sgd.Sgd, {"momentum": 0.5, "nesterov": True}),
        ("adam_step", adam, adam.Adam, {"beta1": 0.5, "beta2": 0.25, "eps": 0.125}),
        ("adamw_step", adamw, adamw.AdamW, {"beta1": 0.5, "beta2": 0.25, "eps": 0.125}),
    ],
)
def test_every_hyper_parameter_reaches_its_page(
    method: str, page: Any, record: Any, hyper: dict[str, Any]
) -> None:
    if page is not sgd:
        hyper = {**hyper, "weight_decay": 0.75}
    s = Session()
    w = s.param(tensor([1.0, -2.0]))
    value, state = w.value, page.init(w.value)
    for _ in range(2):
        s.reset_tape()
        grads = s.backward(squared(s, s.use(w)))
        getattr(s, method)(lr=0.5, grads=grads, **hyper)
        gradient = value.map(lambda x: 2 * x)
        value, state = page.update(value, gradient, state, record(lr=0.5, **hyper))
    assert (w.value, s.state(w)) == (value, state)


def test_a_state_of_none_starts_afresh() -> None:
    s = Session()
    w = s.param(tensor([1.0]))
    s.adamw_step(grads=s.backward(squared(s, s.use(w))))
    s.load_state(w, None)
    assert s.state(w) is None
    s.sgd_step(1.0, s.backward(squared(s, s.use(w))), momentum=0.5)
    assert type(s.state(w)) is sgd.State, "a fresh parameter may take up another optimizer"


ONE, TWO = tensor([1.0]), tensor([1.0, 2.0])


@pytest.mark.parametrize(
    "state",
    [
        sgd.State(),
        sgd.State(ONE),
        adam.State(ONE, ONE),
        adamw.State(tensor([Fraction(1, 3)]), tensor([float("nan")]), 10**9),
    ],
)
def test_a_state_of_any_optimizer_world_and_value_is_loaded(state: Any) -> None:
    s = Session()
    w = s.param(ONE)
    s.load_state(w, state)
    assert s.state(w) is state


*FIRST, LAST = OPTIMIZERS


@pytest.mark.holds("Optimizer state, one for each parameter, by leaf id")
@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, f"load_state: a state is None or the State of {', '.join(FIRST)} or {LAST}; got dict"),
        (adamw.State, "load_state: a state is None or .*; got type"),
        (Moments(ONE, ONE), "load_state: a state is None or .*; got Moments"),
        (sgd.State(TWO), r"load_state: momentum_buffer .* shape \(1,\) of w; got \(2,\)"),
        (sgd.State([1.0]), "load_state: momentum_buffer is a tensor .*; got list"),  # type: ignore[arg-type]
        (adam.State(TWO, ONE), r"load_state: exp_avg is a tensor .*; got \(2,\)"),
        (adamw.State(ONE, tensor(1.0)), r"load_state: exp_avg_sq .*; got \(\)"),
        (adamw.State(ONE, None, 1), "load_state: exp_avg_sq is a tensor .*; got NoneType"),  # type: ignore[arg-type]
        *[
            (adam.State(ONE, ONE, bad), f"load_state: step is an integer >= 0; got {bad!r}$")  # type: ignore[arg-type]
            for bad in (-1, 1.0, True, None)
        ],
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(state: Any, message: str) -> None:
    s = Session()
    w = s.param(ONE, "w")
    s.load_state(w, before := sgd.State(ONE))
    with pytest.raises(Rejected, match=f"^{message}"):
        s.load_state(w, state)
    assert s.state(w) is before


def test_each_optimizer_has_its_own_state_of_a_parameter() -> None:
    s, alone = Session(), Session()
    w, other = s.param(tensor([1.0])), alone.param(tensor([1.0]))
    grads, same = s.backward(squared(s, s.use(w))), alone.backward(squared(alone, alone.use(other)))
    s.sgd_step(0.5, grads, momentum=0.5)
    buffer = s.state(w)
    assert (s.state(w, "sgd"), s.state(w, "adamw")) == (buffer, None)
    alone.adamw_step(grads=same)
    s.adamw_step(grads=grads)
    assert s.state(w) == s.state(w, "adamw") == alone.state(other)
    assert s.state(w, "sgd") is buffer
    s.sgd_step(0.5, grads, momentum=0.5)
    assert s.state(w) is s.state(w, "sgd") is not buffer
    s.load_state(w, None)
    assert [s.state(w, name) for name in (None, *OPTIMIZERS)] == [None] * (1 + len(OPTIMIZERS))
    with pytest.raises(Rejected, match="there is no optimizer 'adamm'; the nearest are adam"):
        s.state(w, "adamm")


def test_groups_have_their_own_hyper_parameters() -> None:
    s = Session()
    a, b, c = (s.param(tensor([8.0]), name) for name in "abc")
    loss = s.sum(s.use(a)) + s.sum(s.use(b)) + s.sum(s.use(c))
    groups = [{"params": [b], "lr": 2.0}, {"params": [c], "weight_decay": 0.5}]
    s.sgd_step(1.0, s.backward(loss), groups=groups)
    assert [p.value.nested() for p in (a, b, c)] == [[7.0], [6.0], [3.0]]


def test_bad_groups_change_nothing() -> None:
    s = Session()
    w, b = s.param(tensor([1.0]), "w"), s.param(tensor([2.0]), "b")
    grads = s.backward(squared(s, s.use(w), s.use(b)))
    for groups, message in (
        ([{"params": [w]}, {"params": [b, w]}], "adam: the parameter 'w' is in groups 1 and 2;"),
        ([{"params": [w], "rho": 1.0}], "adam: there is no hyper-parameter 'rho'; there are lr, "),
        ([{"lr": 1.0}], "adam: group 1 names no 'params'"),
        ([{"params": [w], "beta1": 1.0}], "adam C2: beta1 lies in"),
        ([{"params": ["w"]}], "adam: group 1: a parameter is a Param; got 'w'"),
    ):
        with pytest.raises(Rejected, match=f"^{message}"):
            s.adam_step(grads=grads, groups=groups)
    assert [(p.version, s.state(p)) for p in (w, b)] == [(0, None)] * 2


@pytest.mark.parametrize("max_norm", [0.0, -1.0, float("nan"), float("inf")])
def test_a_bad_bound_of_the_norm_changes_nothing(max_norm: float) -> None:
    s = Session()
    w = s.param(tensor([1.0]))
    grads = s.backward(squared(s, s.use(w)))
    for step in (s.sgd_step, s.adam_step, s.adamw_step):
        with pytest.raises(Rejected, match=r"^clip C1: max_norm is finite and > 0; got"):
            step(0.5, grads=grads, max_norm=max_norm)
    assert (w.version, s.state(w)) == (0, None)


def test_the_norm_is_that_of_what_is_updated() -> None:
    s = Session()
    w, b, frozen, idle = (s.param(tensor([Fraction(n)])) for n in (3, 4, 99, 99))
    unused = s.use(idle)
    loss = squared(s, *map(s.use, (w, b, frozen)))
    grads = s.backward(loss)
    frozen.requires_grad = False
    # The gradients are 6 and 8; the bound halves them.
    groups = [{"params": [b], "lr": 1.0}]
    bound = (10 + clip.GUARD) / 2
    s.sgd_step(0.5, grads, groups=groups, max_norm=bound)  # type: ignore[arg-type]
    assert [p.value.nested() for p in (w, b, frozen, idle)] == [[Fraction(3, 2)], [0], [99], [99]]
    assert s.grad(grads, unused) == tensor([Fraction(0)])


def test_a_group_has_bounds_of_its_own() -> None:
    s = Session()
    w, b, c, d = (s.param(tensor([Fraction(n)])) for n in (3, 4, 5, 6))
    grads = s.backward(squared(s, *map(s.use, (w, b, c, d))))
    groups = [
        {"params": [b], "max_norm": (4 + clip.GUARD) / 4},
        {"params": [c], "max_value": 3},
        {"params": [d], "max_norm": None, "max_value": None},
    ]
    # The gradients are 6, 8, 10 and 12; by their values 4, 4, 3 and 12. The norm of 4 and 3 is 5.
    bound = 5 + clip.GUARD
    s.sgd_step(1.0, grads, groups=groups, max_norm=bound / 5, max_value=4)  # type: ignore[arg-type]
    expected = [3 - Fraction(4, 5), Fraction(3), 5 - Fraction(3, 5), Fraction(-6)]
    assert [p.value.nested() for p in (w, b, c, d)] == [[n] for n in expected]


@pytest.mark.parametrize("bad", [0.0, float("nan"), "1"])
@pytest.mark.parametrize(("key", "label"), [("max_norm", "C1"), ("max_value", "C3")])
def test_a_bound_of_a_group_that_is_none_changes_nothing(bad: Any, key: str, label: str) -> None:
    s = Session()
    w = s.param(tensor([1.0]))
    grads = s.backward(squared(s, s.use(w)))
    for given in ({key: bad}, {"groups": [{"params": [w], key: bad}]}):
        with pytest.raises(Rejected, match=rf"^clip {label}: {key} is finite and > 0; got"):
            s.sgd_step(0.5, grads, **given)
    assert (w.value, w.version, s.state(w)) == (tensor([1.0]), 0, None)


@pytest.mark.holds("Stochastic gradient descent, from any form of gradients")
@pytest.mark.parametrize("bad", [{"lr": float("nan")}, {"lr": 0.5, "momentum": -1.0}])
def test_a_refused_step_changes_nothing(bad: dict[str, float]) -> None:
    s = Session()
    w = s.param(tensor([1.0]))
    grads = s.backward(squared(s, s.use(w)))
    with pytest.raises(Rejected, match=r"^sgd C1"):
        s.sgd_step(grads=grads, **bad)
    assert (w.value, w.version, s.state(w)) == (tensor([1.0]), 0, None)


@pytest.mark.holds("Look a gradient up")
@BOTH_STEPS
def test_a_gradient_of_another_shape_changes_nothing(step: Step) -> None:
    s = Session()
    first, second = s.param(tensor([1.0])), s.param(tensor([1.0]))
    grads = s.backward(squared(s, s.use(first), s.use(second)))
    grads[1] = tensor([1.0, 2.0])
    with pytest.raises(Rejected, match=r"^grad: the gradient of node 1 has its shape \(1,\); got"):
        step(s, grads)
    assert (first.version, second.version) == (0, 0)


@pytest.mark.holds("Look a gradient up")
def test_a_dense_list_that_is_too_short_is_refused() -> None:
    s = Session()
    x = s.use(s.param(tensor([1.0])))
    squared(s, x)
    with pytest.raises(Rejected, match=r"^grad: ids lie in \[0, 0\); got 0$"):
        s.grad([], x)


@pytest.mark.holds("Overwrite a parameter's host value")
def test_a_parameter_is_overwritten_only_by_its_shape() -> None:
    w = Session().param(tensor([1.0, 2.0]), name="w")
    w.set(tensor([3.0, 4.0]))
    assert (w.value, w.version) == (tensor([3.0, 4.0]), 1)
    with pytest.raises(Rejected, match=r"^param: a value of w has the shape \(2,\); got \(1,\)"):
        w.set(tensor([1.0]))
    assert (w.value, w.version) == (tensor([3.0, 4.0]), 1)


@pytest.mark.holds("Overwrite a parameter's host value")
def test_a_leaf_keeps_the_value_that_it_was_used_with() -> None:
    s = Session()
    w = s.param(tensor(2.0))
    x = s.use(w)
    w.set(tensor(5.0))
    assert s.value(x) == tensor(2.0)
    assert s.value(s.use(w)) == tensor(5.0)


def _foreign(s: Session) -> Ref:
    return Session().input(tensor(1.0))


def _stale(s: Session) -> Ref:
    ref = s.input(tensor(1.0))
    s.reset_tape()
    s.input(tensor(2.0))
    return ref


@pytest.mark.holds(
    "A session: its options, its tape, its parameters, its naturals", "Read a value back"
)
@pytest.mark.parametrize("make", [_foreign, _stale])
@pytest.mark.parametrize(
    "ask",
    [
        lambda s, r: s.value(r),
        lambda s, r: s.square(r),
        lambda s, r: s.add(s.input(tensor(1.0)), r),
        lambda s, r: s.input(tensor([1.0])) + r,
        lambda s, r: s.backward(r),
        lambda s, r: s.backward_dense(r),
        lambda s, r: s.grad({}, r),
    ],
)
def test_a_ref_of_another_session_or_tape_is_refused(make, ask) -> None:
    s = Session()
    ref = make(s)
    with pytest.raises(Rejected, match="a ref of this session"):
        ask(s, ref)


def test_what_is_no_ref_is_refused() -> None:
    s = Session()
    x = s.input(tensor([1.0]))
    for ask in (
        lambda: s.add(x, tensor([1.0])),  # type: ignore[arg-type]
        lambda: s.square(1.0),  # type: ignore[arg-type]
        lambda: x @ 1.0,  # type: ignore[operator]
    ):
        with pytest.raises(Rejected, match="a ref of this session"):
            ask()
    assert len(s.tape) == 1


OPERATORS = (operator.add, operator.sub, operator.mul, operator.truediv)
BOTH_SIDES = pytest.mark.parametrize("turned", [False, True], ids=["ref first", "ref second"])


@BOTH_SESSIONS
@BOTH_SIDES
@pytest.mark.parametrize("number", [3, 0.5, Fraction(1, 3)])
def test_an_operator_takes_a_number_into_the_world_of_its_ref(
    kind: Any, turned: bool, number: Any
) -> None:
    for entry, world in ((0.25, float), (Fraction(3, 4), Fraction), (6, Fraction)):
        for compute in OPERATORS:
            s = kind()
            s.like = 1.0
            x = s.input(tensor([[entry], [entry]]))
            out = s.value(compute(number, x) if turned else compute(x, number))
            exact = lift(zero_like(entry), Fraction(number))
            expected = divide(exact, entry) if turned else divide(entry, exact)
            if compute is not operator.truediv:
                expected = compute(exact, entry) if turned else compute(entry, exact)
            assert out == tensor([[expected], [expected]])
            assert {type(a) for a in out.data} == {world}


def test_an_operator_with_a_number_is_a_program_in_every_world() -> None:
    def f(ops: Any, x: Any) -> Any:
        return ops.sum((2 * x - 1) / 4 * (1 - x) + Fraction(1, 2) / x - 0.5)

    # The derivative of (2 x - 1) (1 - x) / 4 + 1 / (2 x), and the second one.
    x = tensor([Fraction(1, 2), Fraction(-2)])
    expected = [(3 - 4 * a) / 4 - 1 / (2 * a * a) for a in x.data]
    assert grad(f)(x) == tensor(expected)
    assert hvp(f, [x], [tensor([Fraction(1)] * 2)])[0] == tensor([-1 + 1 / a**3 for a in x.data])
    assert jvp(f, [x], [tensor([Fraction(1)] * 2)])[1] == tensor(sum(expected))
    s = Session()
    third, moving = Rounded(BINARY32, Fraction(1, 3)), Dual(Fraction(2), Fraction(5))
    assert s.value(1 / (s.input(tensor(third)) * 3))[()] == Rounded(BINARY32, 1)
    assert s.value(3 - s.input(tensor(moving)) * 2)[()] == Dual(Fraction(-1), Fraction(-10))
    assert s.value(2 * s.input(tensor([]))).shape == (0,)


@BOTH_SESSIONS
def test_minus_is_the_product_with_minus_1(kind: Any) -> None:
    s = kind()
    x = s.input(tensor([0.0, -0.0, 2.0]), requires_grad=True)
    signs = [math.copysign(1.0, a) for a in s.value(-x).data]
    assert signs == [-1.0, 1.0, -1.0], "as IEEE negation, where 0 - 0 would be +0"
    assert s.grad(s.backward(s.sum(-x)), x) == tensor([-1.0] * 3)


@BOTH_SESSIONS
@BOTH_SIDES
@pytest.mark.parametrize("bad", ["1", None, True, 1j, [1.0], tensor([1.0])])
def test_an_operand_that_is_neither_a_ref_nor_a_number_is_refused(
    kind: Any, turned: bool, bad: Any
) -> None:
    s = kind()
    x = s.input(tensor([1.0]))
    rule = "(add|sub|mul|div): an operand is a ref of this session or a number"
    for compute in OPERATORS:
        with pytest.raises(Rejected, match=rf"^{rule}; got {type(bad).__name__}; "):
            compute(bad, x) if turned else compute(x, bad)
    assert len(s.tape) == 1


@BOTH_SIDES
def test_a_number_that_the_world_lacks_or_a_dead_ref_leaves_no_trace(turned: bool) -> None:
    s = Session()
    x = s.input(tensor([Fraction(1)]))
    for compute in OPERATORS:
        with pytest.raises(Rejected, match=r"^constant: a number of the world Fraction; got inf"):
            compute(math.inf, x) if turned else compute(x, math.inf)
    assert len(s.tape) == 1
    s.reset_tape()
    for compute in OPERATORS:
        with pytest.raises(Rejected, match="a ref of this session"):
            compute(1, x) if turned else compute(x, 1)
    assert len(s.tape) == 0


@pytest.mark.holds("Vectors of naturals")
def test_indices_are_refs_or_tensors_of_ints() -> None:
    s = Session()
    x = s.input(tensor([5, 7]))
    handle = s.nat_vec([1, 0, 1])
    assert s.value(s.take(x, s.indices(handle, 3), axis=0)) == tensor([7, 5, 7])
    assert s.value(s.take(x, s.const(tensor([1])), axis=0)) == tensor([7])
    with pytest.raises(Rejected, match=r"^take C2"):
        s.take(x, tensor([1.0]), axis=0)


@pytest.mark.holds("Constants")
@BOTH_SESSIONS
def test_a_constant_is_one_number_repeated_and_takes_no_gradient(kind: Any) -> None:
    s = kind()
    x = s.input(tensor([2.0, 3.0]), requires_grad=True)
    y = s.mul(x, s.constant(Fraction(1, 3), (2,)))
    out = s.sum(y) * s.constant(2)
    assert s.value(y) == tensor([2.0 * (1 / 3), 3.0 * (1 / 3)])
    assert s.grad(grads := s.backward(out), x) == tensor([2 / 3, 2 / 3])
    assert list(grads) == [x.id]
    assert s.value(s.constant(0.5, (0, 2))).shape == (0, 2)


@pytest.mark.holds("Constants")
@BOTH_SESSIONS
def test_a_constant_enters_the_world_of_like_else_of_the_session(kind: Any) -> None:
    s = kind()
    third = Rounded(BINARY32, Fraction(1, 3))
    worlds = [0.1, Fraction(1), third, Dual(Fraction(2), Fraction(5)), 7]
    likes = [s.input(tensor([number, number])) for number in worlds]
    found = [s.value(s.constant(Fraction(1, 3), like=ref))[()] for ref in likes]
    exact = Fraction(1, 3)
    assert found == [1 / 3, exact, third, Dual(exact, Fraction(0)), exact]
    assert [type(x) for x in found] == [float, Fraction, Rounded, Dual, Fraction]
    nothing = s.input(tensor([]))
    assert type(s.value(s.constant(1, like=nothing))[()]) is float
    s.like = Fraction(0)
    for constant in (s.constant(0.1), s.constant(0.1, like=nothing)):
        assert s.value(constant) == tensor(Fraction(0.1))


def test_special_numbers_are_constants_where_the_world_has_them() -> None:
    s = Session()
    assert s.value(s.constant(-math.inf, (2,))) == tensor([-math.inf] * 2)
    assert math.isnan(s.value(s.constant(math.nan))[()])
    assert math.copysign(1.0, s.value(s.constant(-0.0))[()]) == -1.0
    s.like = Dual(0.0, 1.0)
    assert s.value(s.constant(math.inf)) == tensor(Dual(math.inf, 0.0))
    s.like = Rounded(BINARY32, 1)
    assert s.value(s.constant(-math.inf))[()].number == -math.inf
    assert math.copysign(1.0, s.value(s.constant(-0.0))[()].number) == -1.0
    s.like = Fraction(1)
    assert s.value(s.constant(-0.0)) == tensor(Fraction(0))
    for special in (math.inf, math.nan):
        with pytest.raises(Rejected, match=r"^constant: a number of the world Fraction; got "):
            s.constant(special)


@BOTH_SESSIONS
def test_what_is_no_constant_is_refused(kind: Any) -> None:
    s = kind()
    other = kind().input(tensor(1.0))
    for bad in ("1", None, True, [1.0], 1j, tensor(1.0)):
        with pytest.raises(Rejected, match=r"^constant: the value is an int, a float or a Fracti"):
            s.constant(bad)
    for shape in ((-1,), (2.0,), (2, True)):
        with pytest.raises(Rejected, match=r"^constant: every extent is an integer >= 0; got"):
            s.constant(1, shape)
    for like in (other, 1.0, tensor(1.0)):
        with pytest.raises(Rejected, match=r"^constant: the argument is a ref of this session"):
            s.constant(1, like=like)
    assert len(s.tape) == 0


def test_a_refused_op_leaves_the_tape_as_it_was() -> None:
    s = Session()
    x = s.input(tensor([5, 7]))
    for ask in (
        lambda: s.take(x, tensor([2]), axis=0),
        lambda: s.take(x, tensor([0]), axis=1),
        lambda: s.apply("add", (x,), {}),
        lambda: s.apply("sum", (x,), {"axis": 0}),
    ):
        with pytest.raises(Rejected):
            ask()
    assert len(s.tape) == 1


def test_an_unknown_op_is_refused_by_name() -> None:
    with pytest.raises(
        Rejected, match=r"^session: there is no op 'convolve'; dir\(ops\) lists all names$"
    ):
        Session().apply("convolve", (), {})


@pytest.mark.holds("A new session, empty", "Naturals")
def test_naturals_are_read_and_overwritten() -> None:
    s = Session()
    one, many = s.nat(7), s.nat_vec([1, 2, 3])
    assert (s.get_nat(one), s.get_nat_vec(many, 3), s.get_nat(many + 2)) == (7, [1, 2, 3], 3)
    s.set_nat(many, 9)
    s.set_nat_vec(many + 1, [8, 0])
    assert s.get_nat_vec(many, 3) == [9, 8, 0]


@pytest.mark.holds("Naturals")
@BOTH_SESSIONS
def test_a_handle_from_before_a_reset_is_never_met_again(kind: Any) -> None:
    s = kind()
    one, many, none = s.nat(7), s.nat_vec([1, 2]), s.nat_vec([])
    s.reset_tape()
    later = s.nat_vec([5, 6])
    assert later not in (one, many, many + 1, none)
    assert s.get_nat_vec(later, 2) == [5, 6]
    for ask in (
        lambda: s.get_nat(one),
        lambda: s.get_nat_vec(many, 2),
        lambda: s.set_nat(one, 0),
        lambda: s.set_nat_vec(many, [0, 0]),
        lambda: s.indices(none, 0),
    ):
        with pytest.raises(Rejected, match=r"^nat: a handle is used on .*; got .* before reset_t"):
            ask()
    assert s.get_nat_vec(later, 2) == [5, 6]
    assert s.nat(1) == later + 2, "counting goes on where it stopped"


@pytest.mark.holds("Naturals")
@pytest.mark.parametrize("bad", [-1, 1.0, True, "1", None])
def test_a_natural_is_a_natural_number(bad: Any) -> None:
    s = Session()
    handle = s.nat_vec([1, 2])
    for ask in (
        lambda: s.nat(bad),
        lambda: s.nat_vec([1, bad]),
        lambda: s.set_nat(handle, bad),
        lambda: s.set_nat_vec(handle, [5, bad]),
    ):
        with pytest.raises(Rejected, match=r"^nat: a recorded integer is a natural number; got"):
            ask()
    assert s.get_nat_vec(handle, 2) == [1, 2]
    assert s.nat(3) == 2, "nothing was recorded meanwhile"


@pytest.mark.holds("Vectors of naturals")
@pytest.mark.parametrize(
    ("handle", "count", "message"),
    [
        (-1, 1, r"handles lie in \[0, 3\); got -1$"),
        (3, 0, r"handles lie in \[0, 3\); got 3$"),
        (0, 3, "a block lies within its vector, which has 2 from handle 0 on; got 3"),
        (1, 2, "a block lies within its vector, which has 1 from handle 1 on; got 2"),
        (0, -1, "a count is an integer >= 0; got -1"),
    ],
)
def test_a_block_of_naturals_lies_within_the_recorded_ones(
    handle: int, count: int, message: str
) -> None:
    s = Session()
    s.nat_vec([1, 2])
    s.nat(3)
    with pytest.raises(Rejected, match=f"^nat: {message}"):
        s.get_nat_vec(handle, count)
    with pytest.raises(Rejected, match=f"^nat: {message}"):
        s.indices(handle, count)


@pytest.mark.holds("Naturals")
def test_integers_do_not_change_under_what_was_computed_from_them() -> None:
    s = Session()
    x = s.input(tensor([5, 7]), requires_grad=True)
    handle = s.nat(0)
    taken = s.sum(s.take(x, s.indices(handle, 1), axis=0))
    s.set_nat(handle, 1)
    assert s.value(taken) == tensor(5)
    assert s.grad(s.backward(taken), x) == tensor([1, 0])


def quadratic(s: Session, w: Param, x: AnyTensor) -> Ref:
    """The mean of squares of a linear map."""
    return s.sum(s.square(s.matmul(s.input(x), s.use(w))))


@pytest.mark.holds("AdamW")
def test_a_session_steps_as_the_optimizer_pages_do() -> None:
    s = Session()
    w = s.param(tensor([[Fraction(1)], [Fraction(-1)]]))
    x = tensor([[Fraction(2), Fraction(1)]])
    # w = (1, -1): x w = 1, the gradient is 2 x^T = (4, 2)
    s.sgd_step(0.25, s.backward(quadratic(s, w, x)))
    assert w.value == tensor([[0], [Fraction(-3, 2)]])
    t = Session()
    u = t.param(tensor([[1.0], [-1.0]]))
    t.adamw_step(0.5, grads=t.backward(quadratic(t, u, tensor([[2.0, 1.0]]))), beta1=0.5)
    expected, state = adamw.update(
        tensor([[1.0], [-1.0]]),
        tensor([[4.0], [2.0]]),
        adamw.init(tensor([[1.0], [-1.0]])),
        adamw.AdamW(0.5, beta1=0.5),
    )
    assert (u.value, t.state(u)) == (expected, state)


SHAPE = (2, 3)
DRAWS: dict[str, Callable[[Session], Ref]] = {
    "rand_uniform": lambda s: s.rand_uniform(shape=SHAPE, seed=7),
    "rand_normal": lambda s: s.rand_normal(shape=SHAPE, seed=7),
    "bernoulli_mask": lambda s: s.bernoulli_mask(shape=SHAPE, keep_prob=0.5, seed=7),
    "dropout": lambda s: s.dropout(s.const(tensor([[1.0] * 3] * 2)), p=0.5, seed=7),
    "dropout at rest": lambda s: s.dropout(s.const(tensor([1.0])), p=0.5, seed=7, training=False),
}


@pytest.mark.holds("Forget the tape, and not the random counter")
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_each_random_op_that_is_recorded_takes_the_next_counter(draw: Any) -> None:
    s = Session()
    assert s.random_counter == 0
    first = draw(s)
    s.square(first)
    draw(s)
    assert s.random_counter == 2
    s.reset_tape()
    assert s.random_counter == 2, "resetting the tape does not rewind"
    again = draw(s)
    node = s.tape.node(again.id)
    assert node.op is not None and node.attributes["counter"] == 2
    assert s.value(again) == node.op.value(
        *(s.tape.value(k) for k in node.parents), **node.attributes
    )


@pytest.mark.holds("Random numbers")
def test_draws_differ_by_counter_and_seed_and_repeat_with_both() -> None:
    s = Session()
    first, second = s.rand_uniform(shape=SHAPE, seed=7), s.rand_uniform(shape=SHAPE, seed=7)
    values = s.value(first), s.value(second)
    assert values[0] != values[1]
    s.random_counter = 0
    assert s.value(s.rand_uniform(shape=SHAPE, seed=8)) not in values
    assert s.value(s.rand_uniform(shape=SHAPE, seed=7)) == values[1]
    s.random_counter = 2**64 - 1
    s.rand_uniform(shape=SHAPE, seed=7)
    with pytest.raises(Rejected, match=r"^rand_uniform C3: the call counter"):
        s.rand_uniform(shape=SHAPE, seed=7)


@pytest.mark.parametrize("bad", [-1, 2**64, 1.0, True, None])
def test_the_counter_is_a_word_of_64_bits(bad: Any) -> None:
    s = Session()
    with pytest.raises(Rejected, match=r"^random_counter: "):
        s.random_counter = bad
    assert s.random_counter == 0


@pytest.mark.holds("Random numbers")
def test_a_refused_random_op_takes_no_counter() -> None:
    s = Session()
    x = s.input(tensor([1.0]))
    refused: list[Callable[[], Ref]] = [
        lambda: s.rand_uniform(shape=(-1,), seed=7),
        lambda: s.bernoulli_mask(shape=(2,), keep_prob=2.0, seed=7),
        lambda: s.dropout(x, p=0.5, seed=-1),
        lambda: s.dropout(x, p=1.5, seed=7),
        lambda: s.apply("rand_normal", (x,), {"shape": (2,), "seed": 7}),
        lambda: s.apply("rand_normal", (), {"shape": (2,), "seed": 7, "counter": 3}),
        lambda: s.apply("rand_normal", (), {"shape": (2,), "seed": 7, "like": 1}),
        lambda: s.apply("dropout", (x,), {"p": 0.5, "seed": 7, "counter": 0}),
    ]
    for call in refused:
        with pytest.raises(Rejected):
            call()
    assert (s.random_counter, len(s.tape)) == (0, 1)


def test_random_numbers_come_in_the_world_that_the_session_names() -> None:
    s = Session()
    assert {type(x) for x in s.value(s.rand_uniform(shape=SHAPE, seed=7)).data} == {float}
    s.like = Fraction(0)
    exact = s.value(s.rand_uniform(shape=SHAPE, seed=7))
    assert {type(x) for x in exact.data} == {Fraction}
    s.random_counter, s.like = 1, Dual(0.0, 0.0)
    dual = s.value(s.rand_uniform(shape=SHAPE, seed=7))
    assert dual == exact.map(lambda x: Dual(float(x), 0.0))


def test_a_gradient_passes_the_mask_of_its_own_call() -> None:
    s = Session()
    x = s.input(tensor([[1.0] * 8] * 8), requires_grad=True)
    s.rand_uniform(shape=(), seed=0)
    y = s.dropout(s.dropout(x, p=0.5, seed=0), p=0.5, seed=0)
    grads = s.backward(s.sum(y))
    assert s.grad(grads, x) == s.value(y)
    assert set(s.value(y).data) == {0.0, 4.0}
