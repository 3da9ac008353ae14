"""What optimizers refuse: hyper-parameters, states, gradients and groups, before any is written."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from fast import Buffer, Rejected, Session
from fast.optim import OPTIMIZERS, AdamW, Sgd
from fast.train import ParamList, scalar_trainer

CPU: dict[str, Any] = {"provider": "aten", "device": "cpu"}
NAN = float("nan")
HUGE = 10**400


class Held:
    """A session with two parameters of two entries, of which the second may be frozen."""

    def __init__(self, provider: str = "aten", frozen: bool = False, **options: Any) -> None:
        self.session = Session(provider, device="cpu", **options)
        self.w = self.session.param([1.0, 2.0], name="w")
        self.b = self.session.param([3.0, 4.0], name="b", requires_grad=not frozen)
        self.leaves = [self.session.use(p).id for p in (self.w, self.b)]

    def step(self, name: str = "sgd", grads: Any = None, **hyper: Any) -> None:
        given = [[1.0, 1.0], [1.0, 1.0]] if grads is None else grads
        by_leaf = dict(zip(self.leaves, given, strict=True))
        getattr(self.session, f"{name}_step")(**{"lr": 0.5, **hyper}, grads=by_leaf)

    def everything(self) -> list[Any]:
        s = self.session
        found: list[Any] = []
        for p in s.params:
            found += [p.value().numpy().tobytes(), p.version]
            for name in OPTIMIZERS:
                found.append(str(s.optimizer_hyper(name, p)))
                for part in s.optimizer_state(name, p).values():
                    found.append(str(part))
        return found

    def refuses(self, run: Callable[[], Any], message: str) -> None:
        before = self.everything()
        with pytest.raises(Rejected, match=message):
            run()
        assert self.everything() == before


class Half(float):
    """A float by another name, which counts as one."""


STRANGE: list[tuple[float, Any]] = [
    (1.0, True), (1.0, np.True_), (0.5, np.array([0.5, 0.5])),
    (0.5, torch.tensor([0.5, 0.5])), (0.0, False), (0.5, "0.5"),
]  # fmt: skip


@pytest.mark.parametrize(("known", "strange"), STRANGE)
@pytest.mark.parametrize("name", ["lr", "momentum", "weight_decay"])
def test_what_equals_a_known_number_is_refused_all_the_same(
    name: str, known: float, strange: Any
) -> None:
    held = Held()
    if name == "momentum" and known == 1.0:
        known, strange = 0.0, False
    for _ in range(2):
        held.step(**{name: known})
        held.refuses(lambda: held.step(**{name: strange}), f"^sgd: {name} must be a number")
    held.step(**{name: known})
    held.step(**{name: Fraction(known)})
    held.step(**{name: Half(known)})


NUMBERS = [torch.tensor(0.5), torch.tensor([0.5]), np.array(0.5), np.float32(0.5), Fraction(1, 2)]


@pytest.mark.parametrize("half", NUMBERS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", ["lr", "momentum", "weight_decay"])
def test_a_number_is_a_number_whoever_made_it(name: str, half: Any) -> None:
    one, other = Held(), Held()
    for _ in range(2):
        one.step(**{name: 0.5})
        other.step(**{name: half})
    assert one.everything() == other.everything()


@pytest.mark.parametrize("make", [torch.tensor, np.array])
def test_a_number_that_changes_in_place_is_read_anew(make: Callable[[float], Any]) -> None:
    one, other, rate = Held(), Held(), make(0.5)
    for expected in (0.5, 0.25):
        one.step(lr=expected)
        other.step(lr=rate)
        rate *= 0.5
    assert one.everything() == other.everything()


def test_nesterov_is_a_flag() -> None:
    held = Held()
    held.step(momentum=0.5, nesterov=True)
    for strange in (1, 1.0, np.True_, torch.tensor(True), None):
        held.refuses(
            lambda strange=strange: held.step(momentum=0.5, nesterov=strange),
            "^sgd: nesterov is True or False; got",
        )


@pytest.mark.parametrize(
    "huge", [HUGE, -HUGE, Fraction(HUGE), Fraction(HUGE, 3), 10**5000], ids="abcde"
)
def test_numbers_beyond_doubles_are_refused(huge: Any) -> None:
    held = Held()
    beyond = "is beyond the largest double"
    held.refuses(lambda: held.step(lr=huge), f"^sgd: lr {beyond}")
    held.refuses(lambda: held.step("adamw", eps=huge), f"^adamw: eps {beyond}")
    held.refuses(lambda: held.step(groups=[{"params": [held.w], "lr": huge}]), f"^sgd: lr {beyond}")
    if isinstance(huge, int):
        held.refuses(lambda: held.step(max_norm=huge), f"^clip: max_norm {beyond}")
        with pytest.raises(Rejected, match=beyond):
            Sgd([torch.ones(1)], {"lr": 1.0}, max_norm=huge)


def moments(**change: Any) -> dict[str, Any]:
    return {"exp_avg": torch.ones(2), "exp_avg_sq": torch.ones(2), "step": 3, **change}


SPARSE = torch.ones(2).to_sparse()
META = torch.ones(2, device="meta")
STATES: list[tuple[Any, str]] = [
    (moments(step=NAN), "step counts"),
    (moments(step=float("inf")), "step counts"),
    (moments(step=10**30), "step counts"),
    (moments(step=-1), "step counts"),
    (moments(step=True), "step: .*bool"),
    (moments(step=None), "a state has .*, or nothing; got"),
    (moments(step="3"), "step: .*str"),
    (moments(step=torch.tensor([1, 2])), "step: .*one number is needed"),
    (moments(step=torch.tensor(3 + 0j)), "step: a tensor of torch.complex64 is not accepted"),
    (moments(step=torch.tensor(True)), "step: a tensor of torch.bool is not accepted"),
    (moments(step=torch.tensor(3.0, device="meta")), "step: a dense tensor"),
    (moments(step=0), "exp_avg was made by at least one step"),
    (None, r"a state has \['exp_avg', 'exp_avg_sq', 'step'\] and may have .*, got NoneType"),
    ([1, 2], "a state has .*, got list"),
    ({**moments(), 5: 1}, "a state has .*5"),
    ({1: 1, "a": 2, None: 3}, "a state has"),
    (moments(exp_avg=torch.tensor([1e300, 1.0]).double() * 1e300), "exp_avg .*not finite"),
    (moments(exp_avg=torch.tensor([1e300, 1.0], dtype=torch.float64)), "exp_avg .*not finite"),
    (moments(exp_avg_sq=torch.tensor([1e39, 1.0]).double()), "exp_avg_sq .*not finite"),
    (moments(exp_avg=torch.ones(2, dtype=torch.complex64)), "exp_avg: a tensor of torch.complex64"),
    (moments(exp_avg=torch.ones(2, dtype=torch.bool)), "exp_avg: a tensor of torch.bool"),
    (moments(exp_avg=torch.ones(2).to(torch.float8_e4m3fn)), "exp_avg: a tensor of torch.float8"),
    (moments(exp_avg=SPARSE), "exp_avg: a dense tensor"),
    (moments(exp_avg_sq=META), "exp_avg_sq: a dense tensor"),
    (moments(exp_avg_sq=torch.tensor([1.0, -1.0])), "exp_avg_sq has an entry below 0"),
    (moments(exp_avg=torch.ones(2), exp_avg_sq=None), "either all of"),
    (moments(exp_avg=None, exp_avg_sq=None), "step counts"),
]


@pytest.mark.parametrize("number", range(len(STATES)))
@pytest.mark.parametrize("provider", ["aten", "triton"])
def test_a_state_that_no_updates_made_is_refused(number: int, provider: str) -> None:
    state, message = STATES[number]
    held = Held(provider)
    held.step("adamw")
    for name in ("adamw", "adam"):
        held.refuses(
            lambda name=name: held.session.load_optimizer_state(name, held.w, state),
            f"^{name}: {message}",
        )


def test_hyper_parameters_of_a_state_are_read_before_it_is_written() -> None:
    held = Held()
    load = held.session.load_optimizer_state
    for hyper, message in (
        (5, "hyper-parameters are a mapping"), ({"lr": HUGE}, "beyond"), ({5: 1}, "there is no 5"),
    ):  # fmt: skip
        held.refuses(
            lambda hyper=hyper: load("adamw", held.w, moments(), hyper),
            f"^adamw: .*{message}",
        )


def test_moments_may_be_negative_where_they_are_no_squares() -> None:
    held = Held()
    state = moments(exp_avg=torch.tensor([-1.0, 2.0]), exp_avg_sq=torch.tensor([0.0, -0.0]))
    held.session.load_optimizer_state("adamw", held.w, state)
    held.session.load_optimizer_state("sgd", held.w, {"momentum_buffer": torch.tensor([-1.0, 1])})
    held.step("adamw")
    assert held.w.value().isfinite().all()


def test_what_says_that_nothing_happened_may_be_loaded() -> None:
    """A parameter beside one that was updated has moments of zeros."""
    held = Held()
    held.step("adamw", [[1.0, 1.0], None])
    fresh = held.session.optimizer_state("adamw", held.b)
    assert (fresh["step"], fresh["exp_avg"].tolist()) == (0, [0.0, 0.0])
    other = Held()
    other.step("adamw", [[1.0, 1.0], None])
    for state in (fresh, moments(exp_avg=None, exp_avg_sq=None, step=0)):
        other.session.load_optimizer_state("adamw", other.b, state)
    held.step("adamw")
    other.step("adamw")
    assert held.everything() == other.everything()


@pytest.mark.parametrize("counts", [torch.tensor(3.0), torch.tensor(3), np.int64(3), Fraction(3)])
def test_a_count_may_come_as_torch_keeps_it(counts: Any) -> None:
    held = Held()
    held.session.load_optimizer_state("adamw", held.w, moments(step=counts))
    assert held.session.optimizer_state("adamw", held.w)["step"] == 3


@pytest.mark.parametrize("provider", ["aten", "triton"])
def test_moments_and_gradients_bring_no_graph_along(provider: str) -> None:
    held = Held(provider)
    state = moments(exp_avg=torch.ones(2, requires_grad=True) * 2)
    held.session.load_optimizer_state("adamw", held.w, state)
    grad = torch.ones(2, requires_grad=True)
    for form in (grad, grad * 2, torch.nn.Parameter(grad.detach()), Buffer(grad * 3)):
        held.step("adamw", [form, form])
        held.step("sgd", [form, form], momentum=0.5)
    for optimizer in held.session.optimizers.values():
        assert not any(arena.flat.requires_grad for arena in optimizer._states or ())
    assert not held.session.store.masters.flat.requires_grad
    assert not any(arena.flat.requires_grad for arena in held.session.store._pool)
    held.w.value().numpy()


@pytest.mark.parametrize(
    ("strange", "message"),
    [
        (SPARSE, "a dense tensor"),
        (META, "a dense tensor"),
        (torch.ones(2, dtype=torch.complex64), "a tensor of torch.complex64 is not accepted"),
        (torch.ones(2, dtype=torch.bool), "a tensor of torch.bool is not accepted"),
        (torch.ones(2).to(torch.float8_e5m2), "a tensor of torch.float8_e5m2 is not accepted"),
    ],
)
@pytest.mark.parametrize("frozen", [False, True])
def test_gradients_that_are_no_dense_numbers_are_refused(
    strange: torch.Tensor, message: str, frozen: bool
) -> None:
    held = Held(frozen=frozen)
    held.step("adamw")
    forms: list[Any] = [strange] if strange.is_sparse else [strange, Buffer(strange)]
    for form in forms:
        held.refuses(
            lambda form=form: held.step("adamw", [[1.0, 1.0], form]),
            f"^adamw: the gradient of 'b'.*{message}",
        )


@pytest.mark.parametrize("wrong", [[1.0], 1.0, [[1.0, 1.0]], torch.ones(3), np.ones((2, 1))])
def test_a_gradient_of_a_frozen_parameter_has_its_shape_too(wrong: Any) -> None:
    held = Held(frozen=True)
    message = r"^sgd: the gradient of 'b' must have the shape \(2,\), got"
    held.refuses(lambda: held.step("sgd", [[1.0, 1.0], wrong]), message)
    leaves: list[Any] = [[1.0, 1.0], wrong]
    held.refuses(lambda: held.session.sgd_step(0.5, leaves), message)
    held.step("sgd", [[1.0, 1.0], [5.0, 5.0]])
    held.session.sgd_step(0.5, {held.leaves[0]: [1.0, 1.0]})
    held.session.sgd_step(0.5, [[1.0, 1.0]])
    assert held.w.value().tolist() == [-0.5, 0.5] and held.b.version == 0
    params = ParamList([[1.0, 2.0], [3.0, 4.0]], [True, False], **CPU)
    with pytest.raises(Rejected, match=r"must have the shape \(2,\)"):
        params.sgd_step(0.5, [[1.0, 1.0], wrong])
    with pytest.raises(Rejected, match="world str"):
        params.sgd_step(0.5, [[1.0, 1.0], ["a", "b"]])
    assert params.values()[0].tolist() == [1.0, 2.0]


def test_all_states_are_checked_before_one_is_written() -> None:
    optimizer = AdamW([torch.ones(2), torch.ones(2)])
    optimizer.step([torch.ones(2), torch.ones(2)])
    before = str(optimizer.state())
    good = {"exp_avg": torch.zeros(2), "exp_avg_sq": torch.zeros(2), "step": 5}
    columns = {name: [part, part] for name, part in good.items()}
    for change, message in (
        ({"exp_avg": [torch.ones(2), torch.ones(3)]}, "must be a tensor of shape"),
        ({"step": [5, -5]}, "step counts"),
        ({"step": [5]}, "an entry for each of the 2 parameters"),
        ({"step": 5}, "an entry for each of the 2 parameters"),
        ({"more": [1, 1]}, "a state has"),
    ):
        with pytest.raises(Rejected, match=f"^adamw: .*{message}"):
            optimizer.load_state({**columns, **change})  # type: ignore[dict-item]
        assert str(optimizer.state()) == before
    with pytest.raises(Rejected, match="a state has"):
        optimizer.load_state({"step": [5, 5]})
    optimizer.load_state(columns)
    assert optimizer.state()["step"] == [5, 5]


GROUPS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda w: {"params": [w]}, "groups are a list of mappings, got dict"),
    (lambda w: {}, "groups are a list of mappings, got dict"),
    (lambda w: 5, "groups are a list of mappings, got int"),
    (lambda w: "w", "groups are a list of mappings, got str"),
    (lambda w: [5], "group 1 is a mapping with 'params', got int"),
    (lambda w: [{"params": [w]}, [w]], "group 2 is a mapping with 'params', got list"),
    (lambda w: [{"params": w}], "the 'params' of group 1 are a list"),
    (lambda w: [{"params": "w"}], "the 'params' of group 1 are a list"),
    (lambda w: [{"params": {0: w}}], "the 'params' of group 1 are a list"),
    (lambda w: [{"params": None}], "the 'params' of group 1 are a list"),
    (lambda w: [{"params": torch.tensor(0)}], "the 'params' of group 1 are a list"),
    (lambda w: [{"params": np.array([0])}], "the 'params' of group 1 are a list"),
    (lambda w: [{"lr": 1.0}], "group 1 names no 'params'"),
]


@pytest.mark.parametrize("number", range(len(GROUPS)))
def test_malformed_groups_are_refused(number: int) -> None:
    make, message = GROUPS[number]
    held = Held()
    for name in ("sgd", "adamw"):
        held.refuses(lambda name=name: held.step(name, groups=make(held.w)), f"^{name}: {message}")
    with pytest.raises(Rejected, match=f"^sgd: {message}"):
        Sgd([torch.ones(1)], {"lr": 1.0}, groups=make(0))
    trainer = scalar_trainer(lambda ops, w, x: ops.sum(w * x), [[1.0]], **CPU)
    with pytest.raises(Rejected, match=f"^sgd: {message}"):
        trainer.step(0.5, [[1.0]], groups=make(0))
    with pytest.raises(Rejected, match=f"^sgd: {message}"):
        trainer.step(lambda step: 0.5, [[1.0]], groups=make(trainer.params.params[0]))
    assert trainer.params.values()[0].tolist() == [1.0] and trainer.steps == 0


@pytest.mark.parametrize("form", [list, tuple, set, iter])
def test_groups_name_their_parameters_in_any_collection(form: Any) -> None:
    held = Held()
    held.step(groups=({"params": form([held.w]), "lr": 0.0},))
    held.step(groups=[], lr=0.0)
    held.step(groups=(), lr=0.0)
    assert (held.w.value().tolist(), held.b.value().tolist()) == ([1.0, 2.0], [2.5, 3.5])
