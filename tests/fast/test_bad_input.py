"""Bad input raises by name and changes nothing: not a byte, not a version, not a step count."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from fast import Rejected, Released, Session, SessionError, Unavailable
from fast.device import flags
from fast.optim import OPTIMIZERS, Adam, AdamW, Sgd
from fast.session import Param, Ref
from spec import dual, formats, rounded
from spec.optim import OPTIMIZERS as PAGES
from spec.session import Session as Reference
from spec.tensor import tensor

PROVIDERS = ["aten", "triton"]
NAN = float("nan")
INF = float("inf")


class Machine:
    """A session with two parameters, one step behind it, and gradients at hand."""

    def __init__(self, provider: str) -> None:
        self.session = s = Session(provider=provider, device="cpu")
        self.w: Param = s.param([[1.0, 2.0]], name="w")
        self.b: Param = s.param([[3.0]], name="b")
        self.record()
        s.adamw_step(0.5, grads=s.backward(self.loss))
        s.sgd_step(0.5, s.backward_dense(self.fresh()), momentum=0.5)
        s.adam_step(0.5, grads=s.backward(self.fresh()), max_norm=1.0)
        for name in OPTIMIZERS.keys() - {"sgd", "adam", "adamw"}:
            getattr(s, f"{name}_step")(0.5, grads=s.backward(self.fresh()))
        self.fresh()
        self.bytes()

    def record(self) -> None:
        s = self.session
        self.x, self.y = s.use(self.w), s.use(self.b)
        self.loss = s.add(s.sum(s.square(self.x)), s.sum(self.y))

    def fresh(self) -> Ref:
        self.session.reset_tape()
        self.record()
        return self.loss

    def bytes(self) -> list[Any]:
        """Everything that an update may write, bit for bit."""
        found: list[Any] = [self.session.store.masters.flat.view(torch.int32).tolist()]
        for parameter in (self.w, self.b):
            found += [parameter.version, parameter.current, parameter.value().tolist()]
            for name in OPTIMIZERS:
                state = self.session.optimizer_state(name, parameter)
                found += [v.tolist() if isinstance(v, torch.Tensor) else v for v in state.values()]
        for optimizer in self.session.optimizers.values():
            # The step counts that the device keeps, and every byte of the states' arenas.
            found.append(optimizer._steps.tolist())
            found += [arena.flat.view(torch.int32).tolist() for arena in optimizer._states or ()]
        return found


def released(m: Machine) -> Any:
    grads = m.session.backward(m.loss)
    grads.release()
    return grads


def of_another_session(m: Machine) -> Any:
    other = Machine("aten")
    return other.session.backward(other.loss)


def with_released_buffer(m: Machine) -> Any:
    buffer = m.session.upload([[1.0, 1.0]])
    buffer.release()
    return {m.x.id: buffer, m.y.id: [[1.0]]}


GRADIENTS: list[tuple[Callable[[Machine], Any], type[Exception], str]] = [
    (lambda m: {m.x.id: [[1.0, 1.0]]}, Rejected, "gradient of 'b', leaf 1, is missing"),
    (lambda m: [[[1.0, 1.0]]], Rejected, "gradient of 'b', leaf 1, is missing"),
    (lambda m: {m.x.id: [1.0], m.y.id: [[1.0]]}, Rejected, r"'w' must have the shape \(1, 2\)"),
    (lambda m: [[[1.0, 1.0]], [1.0]], Rejected, r"'b' must have the shape \(1, 1\), got \(1,\)"),
    (lambda m: ["one", [[1.0]]], Rejected, "world str"),
    (lambda m: None, Rejected, "got NoneType"),
    (lambda m: "gradients", Rejected, "got str"),
    (released, Released, "released"),
    (of_another_session, SessionError, "another session"),
    (with_released_buffer, Released, "released"),
]


@pytest.mark.holds(
    "Sizes are checked before use", "Stochastic gradient descent, from any form of gradients"
)
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("grads", "error", "message"), GRADIENTS)
def test_bad_gradients_change_nothing(
    provider: str, grads: Callable[[Machine], Any], error: type[Exception], message: str
) -> None:
    m = Machine(provider)
    given, before = grads(m), m.bytes()
    for step in (
        lambda: m.session.sgd_step(0.5, given, momentum=0.5),
        lambda: m.session.adam_step(0.5, grads=given),
        lambda: m.session.adamw_step(0.5, grads=given),
        lambda: m.session.adamw_step(0.5, grads=given, max_norm=1.0),
    ):
        with pytest.raises(error, match=message):
            step()
        assert m.bytes() == before


MOMENTS = [
    ({"lr": NAN}, " C1: lr is finite and >= 0; got nan"),
    ({"lr": -1.0}, " C1"),
    ({"lr": INF}, " C1"),
    ({"weight_decay": NAN}, " C1: weight_decay"),
    ({"beta1": 1.0}, r" C2: beta1 lies in \[0, 1\); got 1.0"),
    ({"beta2": NAN}, " C2"),
    ({"beta2": -0.1}, " C2"),
    ({"eps": 0.0}, " C3: eps is finite and > 0; got 0.0"),
    ({"eps": NAN}, " C3"),
    ({"lr": "fast"}, ": lr must be a number, got 'fast'"),
    ({"lr": True}, ": lr must be a number"),
]
SGD = [
    ({"lr": NAN}, "sgd C1: lr is finite and >= 0; got nan"),
    ({"momentum": -0.5}, "sgd C1: momentum"),
    ({"weight_decay": INF}, "sgd C1: weight_decay"),
    ({"dampening": NAN}, "sgd C1: dampening is finite; got nan"),
    ({"nesterov": True}, "sgd C2: nesterov needs momentum > 0 and dampening = 0; got momentum 0.0"),
    ({"nesterov": True, "momentum": 0.5, "dampening": 0.5}, "sgd C2"),
    ({"nesterov": 1.0}, "sgd: nesterov is True or False; got 1.0"),
]


@pytest.mark.holds("Adam")
@pytest.mark.parametrize("kind", [Adam, AdamW])
@pytest.mark.parametrize(("hyper", "message"), MOMENTS)
def test_bad_hyper_parameters_of_adam_and_adamw_change_nothing(
    kind: Any, hyper: dict[str, Any], message: str
) -> None:
    m = Machine("aten")
    grads, before = m.session.backward(m.loss), m.bytes()
    name = kind.__name__.lower()
    step = getattr(m.session, f"{name}_step")
    with pytest.raises(Rejected, match=name + message):
        step(grads=grads, **hyper)
    with pytest.raises(Rejected, match=name + message):
        step(grads=grads, groups=[{"params": [m.b], **hyper}])
    with pytest.raises(Rejected, match=name + message):
        kind([torch.ones(1)], hyper)
    with pytest.raises(Rejected, match=name + message):
        kind([torch.ones(1)], groups=[{"params": [0], **hyper}])
    assert m.bytes() == before


@pytest.mark.parametrize(("hyper", "message"), SGD)
def test_bad_hyper_parameters_of_sgd_change_nothing(hyper: dict[str, Any], message: str) -> None:
    m = Machine("aten")
    grads, before = m.session.backward(m.loss), m.bytes()
    with pytest.raises(Rejected, match=message):
        m.session.sgd_step(**{"lr": 0.5, **hyper}, grads=grads)
    with pytest.raises(Rejected, match=message):
        m.session.sgd_step(0.5, grads, groups=[{"params": [m.b], **hyper}])
    with pytest.raises(Rejected, match=message):
        Sgd([torch.ones(1)], {"lr": 0.5, **hyper})
    assert m.bytes() == before


BOUNDS = [
    (0.0, "clip C1: max_norm is finite and > 0; got 0.0"),
    (-1.0, "clip C1"),
    (NAN, "clip C1"),
    (INF, "clip C1"),
    ("1", "clip: max_norm must be a number, got '1'"),
    (True, "clip: max_norm must be a number, got True"),
]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("max_norm", "message"), BOUNDS)
def test_a_bad_bound_of_the_norm_changes_nothing(
    provider: str, max_norm: Any, message: str
) -> None:
    m = Machine(provider)
    s = m.session
    grads, before = s.backward(m.loss), m.bytes()
    for step in (s.sgd_step, s.adam_step, s.adamw_step):
        with pytest.raises(Rejected, match=message):
            step(0.5, grads=grads, max_norm=max_norm)
    with pytest.raises(Rejected, match=message):
        s.adam_step(grads=grads, groups=[{"params": [m.w], "max_norm": max_norm}])
    with pytest.raises(Rejected, match=message):
        Adam([torch.ones(1)], {}, provider, max_norm=max_norm)
    assert m.bytes() == before


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("max_norm", [None, 1.0])
def test_while_the_flag_is_set_no_step_writes_or_counts(
    provider: str, max_norm: float | None
) -> None:
    m = Machine(provider)
    s = m.session
    before = m.bytes()
    flag = flags.word(s.options.device)
    flag.fill_(flags.code_of("take") << 48)
    try:
        for step in (getattr(s, f"{name}_step") for name in PAGES):
            step(0.5, grads=s.backward(m.fresh()), max_norm=max_norm)
        m.fresh()
    finally:
        s.clear_flag()
    written = [s.store.masters.flat.view(torch.int32).tolist()]
    for optimizer in s.optimizers.values():
        written.append(optimizer._steps.tolist())
        written += [arena.flat.view(torch.int32).tolist() for arena in optimizer._states or ()]
    assert all(entry in before for entry in written)
    states = [s.optimizer_state(name, p).get("step") for p in (m.w, m.b) for name in s.optimizers]
    assert {*s.optimizers} == {*PAGES}
    assert states == [1 if PAGES[name].counted else None for name in s.optimizers] * 2


def test_a_learning_rate_is_checked_again_when_it_changes() -> None:
    m = Machine("aten")
    m.session.adamw_step(0.5, grads=m.session.backward(m.loss))
    m.fresh()
    m.bytes()
    grads, before = m.session.backward(m.loss), m.bytes()
    for lr in (NAN, NAN):
        with pytest.raises(Rejected):
            m.session.adamw_step(lr, grads=grads)
    assert m.bytes() == before


def test_bad_groups_change_nothing() -> None:
    m = Machine("aten")
    grads, before = m.session.backward(m.loss), m.bytes()
    stranger = Machine("aten").w
    for groups, error, message in (
        ([{"params": [m.w]}, {"params": [m.b, m.w]}], Rejected, "'w' is in groups 1 and 2"),
        ([{"params": [m.w], "rho": 1.0}], Rejected, "there is no 'rho'"),
        ([{"lr": 1.0}], Rejected, "group 1 names no 'params'"),
        ([{"params": [stranger]}], SessionError, "not a parameter of this session"),
    ):
        for step in (m.session.sgd_step, m.session.adam_step, m.session.adamw_step):
            with pytest.raises(error, match=message):
                step(0.5, grads=grads, groups=groups)  # type: ignore[operator]
    assert m.bytes() == before
    for positions, message in (([0, 2], "position, from 0 to 1; got 2"), (["w"], "got 'w'")):
        with pytest.raises(Rejected, match=f"adam: group 1: .*{message}"):
            Adam([torch.ones(1), torch.ones(2)], groups=[{"params": positions}])


@pytest.mark.holds(
    "Sizes are checked before use", "Optimizer state, one for each parameter, by leaf id"
)
def test_bad_state_changes_nothing() -> None:
    m = Machine("aten")
    s = m.session
    good = s.optimizer_state("adamw", m.w)
    before = m.bytes()
    for change, message in (
        ({"exp_avg": torch.ones(3)}, r"exp_avg must be a tensor of shape \(1, 2\)"),
        ({"exp_avg": [1.0, 2.0]}, "exp_avg must be a tensor"),
        ({"exp_avg_sq": torch.tensor([[1.0, NAN]])}, "exp_avg_sq has an entry that is not finite"),
        ({"exp_avg": None}, "either all of"),
        ({"step": -1}, "step counts"),
        ({"step": 1.5}, "step counts"),
        ({"rho": 1}, "a state has"),
    ):
        with pytest.raises(Rejected, match=message):
            s.load_optimizer_state("adamw", m.w, good | change)  # type: ignore[operator]
    with pytest.raises(Rejected, match="unknown optimizer 'signum'"):
        s.load_optimizer_state("signum", m.w, good)
    with pytest.raises(SessionError):
        s.load_optimizer_state("adamw", Machine("aten").w, good)
    assert m.bytes() == before


@pytest.mark.parametrize("kind", [Adam, AdamW, Sgd])
def test_the_functional_form_refuses_and_changes_nothing(kind: Any) -> None:
    optimizer = kind([torch.ones(2), torch.ones(1)], {"lr": 0.5})
    for grads, message in (
        ([torch.ones(2)], "2 gradients are needed"),
        ([torch.ones(2), torch.ones(2)], r"parameter 1 must have the shape \(1,\), got \(2,\)"),
        ([torch.ones(2), 1.0], "parameter 1 must have the shape"),
        ([torch.ones(2).double(), None], "float32 on cpu, got torch.float64"),
    ):
        with pytest.raises(Rejected, match=message):
            optimizer.step(grads)
    with pytest.raises(Rejected, match="there is no 'rho'"):
        kind([torch.ones(2)], {"lr": 0.5, "rho": 1.0})
    with pytest.raises(Rejected, match="unknown provider 'cuda'"):
        kind([torch.ones(2)], {"lr": 0.5}, "cuda")
    with pytest.raises(Unavailable, match="float64"):
        kind([torch.ones(2).double()], {"lr": 0.5}, "triton")
    assert [p.tolist() for p in optimizer.params()] == [[1.0, 1.0], [1.0]]


@pytest.mark.holds("Numbers of other worlds run in the reference")
def test_other_worlds_are_named() -> None:
    class Dual:
        """A number of another world."""

    s = Session(provider="aten", device="cpu")
    for data in (Dual(), [1.0, Dual()], 1j, "1", True, None, torch.tensor([True])):
        with pytest.raises(Rejected, match=r"upload: .*accepted are int, float or Fraction"):
            s.input(data)
    with pytest.raises(Rejected, match=r"numbers of the world .*Dual cannot go to a device"):
        s.param([Dual()])
    with pytest.raises(Rejected, match="every entry must be an int; got float"):
        s.take(s.input([1.0]), [0.5], axis=0)
    assert s.params == []
    assert len(s._tape) == 1


WORLDS: dict[str, tuple[Callable[[float], Any], list[Any]]] = {
    "spec.dual.Dual": (
        lambda x: dual.Dual(x, 1.0),
        [dual.Dual(1.0, 2.0), dual.Dual(4.0, 4.0)],
    ),
    "spec.rounded.Rounded": (
        lambda x: rounded.Rounded(formats.BF16, x + 2.0**-20),
        [rounded.Rounded(formats.BF16, n) for n in (1.0, 4.0)],
    ),
}


@pytest.mark.holds("Numbers of other worlds run in the reference")
@pytest.mark.parametrize("world", WORLDS)
def test_what_a_device_refuses_by_its_world_runs_in_the_reference(world: str) -> None:
    number, squares = WORLDS[world]
    data = [number(1.0), number(2.0)]
    reference = Reference()
    assert reference.value(reference.square(reference.input(tensor(data)))) == tensor(squares)
    s = Session(provider="aten", device="cpu")
    for refused in (data, data[0], [0.0, data[1]]):
        for use in (s.input, s.const, s.param, s.upload):
            with pytest.raises(
                Rejected, match=f"the world {world} cannot go to a device; accepted are int, float"
            ):
                use(refused)
    assert (s.params, len(s._tape)) == ([], 0)


GIVEN: list[tuple[str, Callable[[Session, Param, Ref], Any]]] = [
    ("use() of a Param", lambda s, w, x: s.matmul(x, w)),
    ("use() of a Param", lambda s, w, x: x + w),
    ("use() of a Param", lambda s, w, x: x @ w),
    ("use() of a Param", lambda s, w, x: w @ x),
    ("input() and const() make a ref of a tensor", lambda s, w, x: s.exp(torch.ones(2))),
    (
        "to compute with",
        lambda s, w, x: s.exp(torch.tensor([1, 2])),
    ),
    ("to compute with", lambda s, w, x: s.exp([1, 2])),
    (
        "to compute with",
        lambda s, w, x: torch.ones(2, 2).long() @ x,
    ),
]


@pytest.mark.parametrize("number", range(len(GIVEN)))
def test_what_is_no_ref_is_told_how_to_become_one(number: int) -> None:
    hint, call = GIVEN[number]
    s = Session(provider="aten", device="cpu")
    w, x = s.param(torch.ones(2, 2)), s.input(torch.ones(2, 2))
    with pytest.raises((Rejected, TypeError), match=re.escape(hint)):
        call(s, w, x)
