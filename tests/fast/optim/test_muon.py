"""Muon on a device: both providers beside doubles, and the promises of updates by matrices."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fast
import fast.torch
from fast.checkpoint.interchange import from_torch, to_torch
from fast.errors import Rejected
from fast.optim import Muon
from tests.support import same

PROVIDERS = ["aten", "triton"]
SHAPES = [(40, 70), (70, 33), (1, 9), (0, 4), (64, 64)]

STEEPEST = 3.4445**5
"""By how much five turns enlarge what is small."""


def drawn(seed: int, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=made, dtype=torch.float64).to(dtype) for shape in SHAPES]


@pytest.mark.parametrize("hyper", [{}, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw"}])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_matrices_beyond_a_tile_move_as_in_doubles(provider: str, hyper: dict[str, Any]) -> None:
    narrow = [p.float() for p in drawn(0)]
    one = Muon(narrow, {"lr": 0.5, **hyper}, provider)
    exact = Muon([p.double() for p in narrow], {"lr": 0.5, **hyper}, "aten")
    for seed in (1, 2):
        gradients = [g.float() for g in drawn(seed)]
        one.step(gradients)
        exact.step([g.double() for g in gradients])
    for mine, due in zip(one.params(), exact.params(), strict=True):
        # No turn enlarges a change of X by more than its slope at 0, which is ns_a.
        most = STEEPEST * torch.finfo(torch.float32).eps * max(mine.shape)
        assert not mine.numel() or (mine.double() - due).abs().max().item() <= most


def test_a_step_is_torchs_but_for_its_bfloat16() -> None:
    start, gradients = drawn(3, torch.float32), drawn(4, torch.float32)
    kept = [k for k, shape in enumerate(SHAPES) if shape[0]]
    theirs = [start[k].clone().requires_grad_() for k in kept]
    mine = Muon([start[k] for k in kept], {"lr": 0.5})
    for p, k in zip(theirs, kept, strict=True):
        p.grad = gradients[k]
    torch.optim.Muon(theirs, lr=0.5).step()
    mine.step([gradients[k] for k in kept])
    for p, q in zip(theirs, mine.params(), strict=True):
        far = (p.detach() - q).abs().max()
        assert far <= 0.5 * STEEPEST * torch.finfo(torch.bfloat16).eps


class Machine:
    """A session with a wide and a tall matrix, a frozen one, and a bias."""

    def __init__(self, provider: str = "aten", precision: str = "fp32") -> None:
        self.session = s = fast.Session(provider, precision, "cpu")
        self.w = s.param([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]], name="w")
        self.v = s.param([[1.0, 2.0], [-1.0, 0.5], [4.0, -3.0]], name="v")
        self.f = s.param([[1.0]], name="f", requires_grad=False)
        self.b = s.param([1.0, 2.0], name="b")

    def grads(self, *params: Any) -> Any:
        s = self.session
        s.reset_tape()
        total = s.sum(s.square(s.use(params[0])))
        for p in params[1:]:
            total = s.add(total, s.sum(s.square(s.use(p))))
        return s.backward(total)

    def everything(self) -> list[Any]:
        s = self.session
        found: list[Any] = []
        for p in s.params:
            found += [
                p.value().tolist(),
                p.version,
                str(s.optimizer_state("muon", p)),
                s.optimizer_hyper("muon", p),
            ]
        return found


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_is_no_matrix_is_refused_before_anything_changes(provider: str) -> None:
    m = Machine(provider)
    m.session.muon_step(grads=m.grads(m.w, m.v))
    before = m.everything()
    for more in ({}, {"max_norm": 1.0}, {"max_value": 1.0}):
        with pytest.raises(Rejected, match=r"^muon C8: a parameter is a matrix, 'b' has the shape"):
            m.session.muon_step(grads=m.grads(m.w, m.b), **more)
    with pytest.raises(Rejected, match="muon C8"):
        Muon([torch.ones(2, 2), torch.ones(2)])
    with pytest.raises(Rejected, match="muon C8"):
        fast.torch.Muon([torch.ones(2, requires_grad=True)])
    assert m.everything() == before


@pytest.mark.parametrize("provider", PROVIDERS)
def test_frozen_unreached_and_grouped_matrices(provider: str) -> None:
    m, alone = Machine(provider), Machine(provider)
    groups = [{"params": [m.v], "lr": 0.5, "ns_steps": 2}]
    m.session.muon_step(0.25, grads=m.grads(m.w, m.v, m.f), groups=groups)
    assert m.f.value().tolist() == [[1.0]] and m.f.version == 0
    alone.session.muon_step(0.25, grads=alone.grads(alone.w))
    alone.session.muon_step(0.5, ns_steps=2, grads=alone.grads(alone.v))
    assert same(m.w.value(), alone.w.value()) and same(m.v.value(), alone.v.value())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_while_the_flag_is_set_nothing_is_written(provider: str) -> None:
    one = Muon([torch.ones(3, 2), torch.ones(2, 3)], {"lr": 0.5}, provider)
    one.step([torch.ones(3, 2), torch.ones(2, 3)])
    (flat,) = one._flat.values()
    held = [flat.masters.flat, *(arena.flat for arena in flat._states), flat._steps]
    before = [t.clone() for t in held]
    flat.flag.fill_(1)
    one.step([torch.ones(3, 2), torch.ones(2, 3)])
    held = [flat.masters.flat, *(arena.flat for arena in flat._states), flat._steps]
    assert all(map(torch.equal, held, before))
    flat.flag.zero_()
    one.step([torch.ones(3, 2), torch.ones(2, 3)])
    assert not torch.equal(flat.masters.flat, before[0])


def test_the_aten_twin_stops_where_a_device_says_so() -> None:
    start = torch.ones(3, 2)
    one = Muon([start], {"lr": 0.5})
    (flat,) = one._flat.values()
    gradient = torch.full((3, 2), float("nan"))
    for view in one._gradients.values():
        view.views[0].copy_(gradient)
    (arena,) = one._gradients.values()
    flat._prepare(b"\1", one._hypers, None)
    flat._call(arena, one._hypers, torch.ones(()), None)
    assert torch.equal(flat.masters.views[0], start)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_padding_stays_zero(provider: str) -> None:
    one = Muon([torch.ones(7, 10), torch.ones(1, 3)], {"lr": 0.5}, provider)
    one.step([torch.full((7, 10), float("nan")), torch.ones(1, 3)])
    (flat,) = one._flat.values()
    for arena in (flat.masters, *flat._states):
        assert arena.flat[70:128].eq(0.0).all() and arena.flat[131:].eq(0.0).all()


def test_a_state_goes_to_torch_and_back() -> None:
    session = fast.Session("aten", "fp32", "cpu")
    w = session.param([[1.0, -2.0], [3.0, 0.5]], name="w")
    hyper = {"ns_a": 2.0, "ns_b": -1.5, "ns_c": 0.5, "ns_steps": 3, "adjust_lr_fn": "original"}
    for _ in range(2):
        session.reset_tape()
        session.muon_step(0.5, grads=session.backward(session.sum(session.use(w))), **hyper)
    found = to_torch(session, "muon")
    (group,) = found["param_groups"]
    assert group["ns_coefficients"] == (2.0, -1.5, 0.5) and "ns_a" not in group
    theirs = torch.optim.Muon([torch.ones(2, 2, requires_grad=True)])
    theirs.load_state_dict(found)
    (back,) = from_torch(session, "muon", theirs.state_dict())
    assert {name: back[name] for name in hyper} == hyper
    state = session.optimizer_state("muon", w)["momentum_buffer"]
    assert same(state, found["state"][0]["momentum_buffer"])
    mine = fast.torch.Muon([torch.ones(2, 2, requires_grad=True)])
    mine.load_state_dict(theirs.state_dict())
    assert mine.param_groups[0]["ns_steps"] == 3


def test_a_trainer_takes_muons_steps() -> None:
    from fast.train import scalar_trainer

    def loss(ops: Any, w: Any, x: Any) -> Any:
        return ops.sum(ops.square(ops.matmul(x, w)))

    x, start = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5], [4.0]])
    trainer = scalar_trainer(loss, [start])
    first = trainer.muon_step([x], with_loss=True, lr=lambda step: 0.5 / (step + 1))
    second = trainer.muon_step([x], with_loss=True, lr=0.25)
    assert first is not None and second is not None and second < first


def test_counts_and_words_are_read_as_such() -> None:
    m = Machine()
    for bad, message in (
        ({"ns_steps": 2.5}, "ns_steps is an int"),
        ({"ns_steps": True}, "ns_steps is an int"),
        ({"ns_steps": 100}, "muon C5"),
        ({"adjust_lr_fn": 1}, "adjust_lr_fn is a word or None"),
        ({"adjust_lr_fn": "adamw"}, "muon C7"),
        ({"ns_a": float("inf")}, "muon C3"),
    ):
        with pytest.raises(Rejected, match=message):
            m.session.muon_step(grads=m.grads(m.w), **bad)  # type: ignore[arg-type]
