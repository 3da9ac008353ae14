"""Muon's iteration in bf16: each turn beside the exact one of what the turn before has left.

Five turns of bf16 in a row have a bound that says nothing. So every turn is recorded, by updates of
zeros that leave what so many turns make, and is judged alone: ours, and torch's that it follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor

import fast
import fast.torch
from fast.checkpoint.interchange import from_torch, to_torch
from fast.device.dtypes import BF16, FP32
from fast.errors import Rejected
from fast.optim import Muon
from fast.train import scalar_trainer
from tests.support import same
from tests.turns import in_turns

SHAPES = [(4, 9), (12, 3), (5, 5), (16, 64), (1, 1)]
"""Matrices whose rate, the root of rows over columns or 1, is a power of two."""

NEAREST, TRUNCATED = 2.0**-BF16.digits, 2.0 ** (1 - BF16.digits)
"""The errors of a rounding to bf16; Triton's interpreter truncates."""

FINE = 2.0**-FP32.digits

OURS = {
    "aten": (lambda *given, **h: fast.torch.Muon(*given, ns_dtype="bf16", **h), NEAREST),
    "triton": (
        lambda *given, **h: fast.torch.Muon(*given, ns_dtype="bf16", provider="triton", **h),
        TRUNCATED,
    ),
    "torch": (torch.optim.Muon, NEAREST),
}

INPUTS: list[dict[str, Any]] = [
    {},
    {"lr": 0.01},
    {"lr": torch.tensor(0.001)},
    {"weight_decay": 0.2},
    {"momentum": 0.8},
    {"ns_steps": 6},
    {"ns_coefficients": (3.4, -4.7, 2.0)},
    {"lr": 0.5, "momentum": 0.6, "nesterov": False},
    {"lr": 0.25, "adjust_lr_fn": "match_rms_adamw"},
    {"lr": 0.25, "eps": 1.0},
]
"""Those of torch's own tests of it (optim_inputs_func_muon), and others that show more."""

Kind = Callable[..., torch.optim.Optimizer]


def lying(x: Tensor) -> Tensor:
    return x.t() if x.shape[0] > x.shape[1] else x


def turned(x: Tensor, by: tuple[float, float, float], unit: float) -> tuple[Tensor, Tensor]:
    """Return the exact turn of x, and how far the one that is rounded to bf16 may be off."""
    a, b, c = by
    rows, columns = x.shape
    long, short = (math.expm1(n * math.log1p(FINE)) for n in (columns, rows))
    size = x.abs()
    gram = x @ x.t()
    off = unit * gram.abs() + (1 + unit) * long * (size @ size.t())
    top = gram.abs() + off
    # The rounded gram, squared, is off by what either factor is.
    off_squared = top @ off + off @ gram.abs() + short * (top @ top)
    mixed = b * gram + c * (gram @ gram)
    off_mixed = abs(b) * off + abs(c) * off_squared + 4 * FINE * (abs(b) * top + abs(c) * top @ top)
    off_mixed = off_mixed + unit * (mixed.abs() + off_mixed)
    made = a * x + mixed @ x
    terms = abs(a) * size + (mixed.abs() + off_mixed) @ size
    off = off_mixed @ size + (short + 4 * FINE) * terms
    return made, off + unit * (made.abs() + off)


def began(direction: Tensor, eps: float, unit: float) -> tuple[Tensor, Tensor]:
    """Return the exact first X of a direction in fp32, and how far the rounded one may be off."""
    made = lying(direction) / max(direction.norm().item(), eps)
    # The direction is rounded, the length of it is, and so is the quotient of both.
    off = (1 + unit) ** 3 / (1 - unit) ** 2 - 1 + direction.numel() * FINE
    return made, off * made.abs()


def recorded(kind: Kind, buffer: Tensor, gradient: Tensor, hyper: dict[str, Any]) -> list[Tensor]:
    """Return what each turn leaves, from none to all, by updates of zeros with a rate of 1."""
    told = {n: v for n, v in hyper.items() if n not in ("lr", "weight_decay", "adjust_lr_fn")}
    rows, columns = gradient.shape
    found = []
    for turns in range(told.pop("ns_steps", 5) + 1):
        p = torch.zeros_like(gradient, requires_grad=True)
        optimizer = kind([p], lr=1.0, weight_decay=0.0, ns_steps=turns, **told)
        optimizer.state[p] = {"momentum_buffer": buffer.clone()}
        p.grad = gradient.clone()
        optimizer.step()
        x = -p.detach().double() / math.sqrt(max(1.0, rows / columns))
        assert torch.equal(x, x.bfloat16().double()), "a turn leaves numbers of bf16"
        found.append(lying(x))
    return found


def judge(turns: list[Tensor], direction: Tensor, hyper: dict[str, Any], unit: float) -> None:
    """Judge every turn by the exact one of what the turn before has left."""
    by = hyper.get("ns_coefficients", (3.4445, -4.775, 2.0315))
    pairs = [began(direction, hyper.get("eps", 1e-7), unit)]
    pairs += [turned(x, by, unit) for x in turns[:-1]]
    for number, (found, (exact, off)) in enumerate(zip(turns, pairs, strict=True)):
        assert ((found - exact).abs() <= off).all(), f"turn {number}"


def blended(buffer: Tensor, gradient: Tensor, hyper: dict[str, Any]) -> Tensor:
    """Return the direction of a step, in doubles."""
    momentum = hyper.get("momentum", 0.95)
    buffer = momentum * buffer.double() + (1 - momentum) * gradient.double()
    if not hyper.get("nesterov", True):
        return buffer
    return momentum * buffer + (1 - momentum) * gradient.double()


def drawn(shape: tuple[int, int], seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", OURS)
def test_every_turn_is_within_the_roundings_of_bf16(name: str, shape: tuple[int, int]) -> None:
    kind, unit = OURS[name]
    buffer, gradient = drawn(shape, 1), drawn(shape, 2)
    judge(recorded(kind, buffer, gradient, {}), blended(buffer, gradient, {}), {}, unit)


@pytest.mark.parametrize("coefficient", range(3))
def test_a_coefficient_that_is_off_by_a_fiftieth_is_seen(coefficient: int) -> None:
    by = [3.4445, -4.775, 2.0315]
    by[coefficient] *= 1.02
    buffer, gradient = drawn((4, 9), 1), drawn((4, 9), 2)
    hyper = {"ns_coefficients": tuple(by)}
    turns = recorded(OURS["aten"][0], buffer, gradient, hyper)
    with pytest.raises(AssertionError, match="turn"):
        judge(turns, blended(buffer, gradient, {}), {}, NEAREST)


@pytest.mark.parametrize("hyper", in_turns(INPUTS, 3), ids=str)
def test_twenty_steps_go_turn_by_turn_as_torchs_do(hyper: dict[str, Any]) -> None:
    kinds: list[Kind] = [OURS["aten"][0], OURS["torch"][0]]
    params = [[drawn(s, 3).requires_grad_() for s in SHAPES] for _ in kinds]
    optimizers = [kind(own, **hyper) for kind, own in zip(kinds, params, strict=True)]
    for step in range(20):
        # Each takes over the other's state in turn, and its parameters.
        giver, taker = step % 2, 1 - step % 2
        optimizers[taker].load_state_dict(deepcopy(optimizers[giver].state_dict()))
        gradients = [drawn(shape, 100 + step) for shape in SHAPES]
        before = [p.detach().clone() for p in params[giver]]
        buffers = [
            optimizers[giver].state[p].get("momentum_buffer", torch.zeros_like(p)).clone()
            for p in params[giver]
        ]
        for kind, optimizer, own in zip(kinds, optimizers, params, strict=True):
            for p, start, gradient in zip(own, before, gradients, strict=True):
                p.data.copy_(start)
                p.grad = gradient.clone()
            optimizer.step()
            for p, start, buffer, gradient in zip(own, before, buffers, gradients, strict=True):
                turns = recorded(kind, buffer, gradient, hyper)
                judge(turns, blended(buffer, gradient, hyper), hyper, NEAREST)
                judge_move(p.detach(), start, turns[-1], hyper)
    assert optimizers[0].param_groups[0]["ns_dtype"] == "bf16"


def judge_move(moved: Tensor, start: Tensor, x: Tensor, hyper: dict[str, Any]) -> None:
    """Judge a parameter by the last turn of its step."""
    rows, columns = start.shape
    rate = math.sqrt(max(1.0, rows / columns))
    if hyper.get("adjust_lr_fn") == "match_rms_adamw":
        rate = 0.2 * math.sqrt(max(rows, columns))
    lr = float(hyper.get("lr", 1e-3))
    kept = (1 - lr * hyper.get("weight_decay", 0.1)) * start.double()
    step = lr * rate * (x.t() if rows > columns else x)
    assert ((moved - (kept - step)).abs() <= 4 * FINE * (kept.abs() + step.abs())).all()


def test_a_state_keeps_the_dtype_of_its_optimizer() -> None:
    w, v = (torch.ones(2, 2, requires_grad=True) for _ in range(2))
    mine, theirs = fast.torch.Muon([w], ns_dtype="bf16"), torch.optim.Muon([v])
    w.grad, v.grad = torch.eye(2), torch.eye(2)
    mine.step()
    theirs.step()
    held = deepcopy(mine.state_dict())
    mine.load_state_dict(theirs.state_dict())
    assert mine.param_groups[0]["ns_dtype"] == "bf16"
    theirs.load_state_dict(held)
    theirs.step()
    plain = fast.torch.Muon([w])
    plain.load_state_dict(theirs.state_dict())
    assert plain.param_groups[0]["ns_dtype"] == "bf16"


@pytest.mark.parametrize("provider", ["aten", "triton"])
def test_a_group_of_a_session_iterates_in_bf16_where_it_is_told_to(provider: str) -> None:
    session = fast.Session(provider, "fp32", "cpu")
    start, gradient = drawn((3, 5), 1), drawn((3, 5), 2)
    w, v = (session.param(start, name=name) for name in "wv")
    sums = [session.sum(session.mul(session.use(p), session.const(gradient))) for p in (w, v)]
    grads = session.backward(session.add(*sums))
    session.muon_step(0.5, grads=grads, groups=[{"params": [v], "ns_dtype": "bf16"}])
    for p, told in ((w, {}), (v, {"ns_dtype": "bf16"})):
        alone = Muon([start], {"lr": 0.5, **told}, provider)
        alone.step([gradient])
        assert same(p.value(), alone.params()[0])
    assert not same(w.value(), v.value())


@pytest.mark.parametrize("compiled", [False, True])
def test_a_trainer_hands_the_dtype_on_and_another_one_from_step_to_step(compiled: bool) -> None:
    def loss(ops: Any, w: Any, x: Any) -> Any:
        return ops.sum(ops.mul(x, w))

    start, gradient = drawn((3, 5), 1), drawn((3, 5), 2)
    interpreter = "compiled" if compiled else "eager"
    trainer = scalar_trainer(loss, [start], interpreter=interpreter)
    alone = Muon([start], {"lr": 0.5})
    for told in ({}, {"ns_dtype": "bf16"}, {"ns_dtype": None}):
        trainer.muon_step([gradient], lr=0.5, **told)
        alone.set_hyper({"lr": 0.5, **told})
        alone.step([gradient])
        assert same(trainer.session.params[0].value(), alone.params()[0])


def test_a_session_hands_the_dtype_to_torch_and_takes_it_back() -> None:
    session = fast.Session("aten", "fp32", "cpu")
    w = session.param(drawn((2, 3), 1), name="w")
    session.muon_step(
        0.5, ns_dtype="bf16", grads=session.backward(session.sum(session.square(session.use(w))))
    )
    theirs = torch.optim.Muon([torch.ones(2, 3, requires_grad=True)])
    told = theirs.state_dict()
    theirs.load_state_dict(to_torch(session, "muon"))
    (back,) = from_torch(session, "muon", theirs.state_dict())
    assert back["ns_dtype"] == "bf16"
    (plain,) = from_torch(session, "muon", told)
    assert plain["ns_dtype"] is None


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("fp16", "muon C9: ns_dtype is one of None, 'bf16'; got 'fp16'"),
        (torch.bfloat16, "ns_dtype is a word or None"),
        (True, "ns_dtype is a word or None"),
    ],
)
def test_other_dtypes_are_refused_by_the_names_of_those_there_are(bad: Any, message: str) -> None:
    p = torch.ones(2, 2, requires_grad=True)
    with pytest.raises(Rejected, match=message):
        fast.torch.Muon([p], ns_dtype=bad)
    with pytest.raises(Rejected, match=message):
        Muon([p.detach()], {"ns_dtype": bad})
    session = fast.Session("aten", "fp32", "cpu")
    w = session.param([[1.0, 2.0]], name="w")
    grads = session.backward(session.sum(session.use(w)))
    with pytest.raises(Rejected, match=message):
        session.muon_step(grads=grads, ns_dtype=bad)
    assert w.value().tolist() == [[1.0, 2.0]] and w.version == 0
