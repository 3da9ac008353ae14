"""Clipping by global norm: what counts, what is scaled, and that nothing else changes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from fast import Session
from fast.device.arena import Arena, Layout
from fast.optim import OPTIMIZERS, Adam, AdamW, Sgd
from fast.optim._chunks import CHUNK, chunk_table
from fast.optim._flat import FlatOptimizer
from fast.optim.adam import RULE as ADAM
from fast.optim.adamw import RULE as ADAMW
from fast.optim.clip import GUARD, aten_coefficient, coefficient, scale, squares
from fast.optim.sgd import RULE as SGD

PROVIDERS = ["aten", "triton"]
KINDS = [Sgd, Adam, AdamW]
HYPER = {"lr": 0.5, "weight_decay": 0.25}
GUARDED = (torch.tensor(5.0) + GUARD).item()
"""The norm of (3, 4) in fp32, with what is added to it: a bound of half of it gives exactly 1/2."""


def sgd_of(gradients: list[Any], provider: str, max_norm: float | None, **more: Any) -> Any:
    """Take one step of plain SGD from 0 at rate 1, which leaves what was used, negated."""
    grads = [None if g is None else torch.tensor(g) for g in gradients]
    params = [torch.zeros(2 if g is None else len(g)) for g in gradients]
    optimizer = Sgd(params, {"lr": 1.0}, provider, max_norm=max_norm, **more)
    optimizer.step(grads)
    return [(-p).tolist() for p in optimizer.params()]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_norm_is_that_of_all_gradients_together(provider: str) -> None:
    assert sgd_of([[3.0], [4.0]], provider, GUARDED / 2) == [[1.5], [2.0]]
    found = sgd_of([[3.0, 0.0], None, [4.0]], provider, GUARDED / 2)
    assert found == [[1.5, 0.0], [0.0, 0.0], [2.0]]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_groups_share_one_norm(provider: str) -> None:
    groups = [{"params": [1], "lr": 2.0}]
    assert sgd_of([[3.0], [4.0]], provider, GUARDED / 2, groups=groups) == [[1.5], [4.0]]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_gradients_are_never_made_larger(provider: str) -> None:
    for max_norm in (GUARDED, 6.0, 1e30, 1e300):
        assert sgd_of([[3.0], [4.0]], provider, max_norm) == [[3.0], [4.0]]
    assert sgd_of([[0.0], [0.0]], provider, 1e-3) == [[0.0], [0.0]]
    assert sgd_of([[], [3.0, 4.0]], provider, GUARDED / 2) == [[], [1.5, 2.0]]
    assert sgd_of([[]], provider, 1.0) == [[]]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_norm_within_bounds_changes_no_bit(provider: str, kind: Any) -> None:
    torch.manual_seed(0)
    start = [torch.randn(70, 30), torch.randn(5)]
    bounded, free = (kind(start, HYPER, provider, max_norm=bound) for bound in (1e6, None))
    for _ in range(3):
        gradients = [torch.randn_like(value) for value in start]
        bounded.step(gradients)
        free.step(gradients)
    assert all(map(torch.equal, bounded.params(), free.params()))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_clipping_is_scaling_by_the_coefficient(provider: str, kind: Any) -> None:
    torch.manual_seed(1)
    start = [torch.randn(40, 30), torch.randn(7)]
    clipped, free = (kind(start, HYPER, provider, max_norm=bound) for bound in (0.5, None))
    for _ in range(3):
        gradients = [torch.randn_like(value) for value in start]
        layout = Layout([tuple(gradient.shape) for gradient in gradients])
        arena = Arena(layout, torch.float32, torch.device("cpu"))
        for view, gradient in zip(arena.views, gradients, strict=True):
            view.copy_(gradient)
        optimizer = FlatOptimizer(SGD, arena, provider, torch.zeros(1, dtype=torch.int64))
        sums = optimizer.squares(arena, b"\1\1", (SGD.read({"lr": 1.0}),))
        number = scale(provider, sums, 0.5)
        assert 0.0 < number.item() < 0.5
        clipped.step(gradients)
        free.step([gradient * number for gradient in gradients])
    assert all(map(torch.equal, clipped.params(), free.params()))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("rule", [SGD, ADAM, ADAMW])
def test_what_other_slots_still_hold_does_not_count(provider: str, rule: Any) -> None:
    layout = Layout([(3,), (CHUNK + 1,), (2,)])
    masters, gradients = (Arena(layout, torch.float32, torch.device("cpu")) for _ in range(2))
    gradients.views[0].copy_(torch.tensor([3.0, 0.0, 4.0]))
    for left_over in gradients.views[1:]:
        left_over.fill_(math.nan)
    optimizer = FlatOptimizer(rule, masters, provider, torch.zeros(1, dtype=torch.int64))
    sums = optimizer.squares(gradients, b"\1\0\0", (rule.read({"lr": 0.5}),))
    assert sums.sum().item() == 25.0


def test_partial_sums_cover_every_chunk() -> None:
    # 64^2 entries of 2 have the norm 128, to which the guard adds nothing in fp32.
    first = 64**2 - CHUNK - 3
    layout = Layout([(first,)] + [(1,)] * (CHUNK + 3))
    every = b"\1" * len(layout.segments)
    table = chunk_table(layout, every, [0] * len(every), torch.device("cpu"))
    gradients = Arena(layout, torch.float32, torch.device("cpu"))
    for view in gradients.views:
        view.fill_(2.0)
    sums = squares(gradients.flat, table)
    whole, rest = divmod(first, CHUNK)
    assert sums.tolist() == [4.0 * CHUNK] * whole + [4.0 * rest] + [4.0] * (CHUNK + 3)
    assert coefficient(sums, 64.0).item() == aten_coefficient(sums, 64.0).item() == 0.5
    assert coefficient(sums[:-1], 64.0).item() > 0.5


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_a_norm_that_is_not_finite_does_what_torchs_does(
    provider: str, kind: Any, bad: float
) -> None:
    start = [torch.tensor([1.0, 2.0]), torch.tensor([3.0])]
    gradients = [torch.tensor([bad, 1.0]), torch.tensor([2.0])]
    optimizer = kind(start, HYPER, provider, max_norm=1.0)
    optimizer.step(gradients)
    reference = [value.clone().requires_grad_() for value in start]
    made = {Sgd: torch.optim.SGD, Adam: torch.optim.Adam, AdamW: torch.optim.AdamW}[kind]
    for value, gradient in zip(reference, gradients, strict=True):
        value.grad = gradient.clone()
    torch.nn.utils.clip_grad_norm_(reference, 1.0)
    made(reference, **HYPER).step()
    for found, expected in zip(optimizer.params(), reference, strict=True):
        assert found.isnan().tolist() == expected.isnan().tolist()
    if math.isinf(bad):
        # What is finite is scaled to 0, and is updated as by a gradient of 0.
        still = kind(start, HYPER, provider)
        still.step([torch.tensor([0.0, 0.0]), torch.tensor([0.0])])
        assert optimizer.params()[0][1:].tolist() == still.params()[0][1:].tolist()
        assert torch.equal(optimizer.params()[1], still.params()[1])
    else:
        assert all(p.isnan().all() for p in optimizer.params())


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_dtypes_share_one_norm(provider: str, kind: Any) -> None:
    values = [torch.tensor([3.0]), torch.tensor([4.0], dtype=torch.bfloat16)]
    halves = [torch.tensor([1.5]), torch.tensor([2.0], dtype=torch.bfloat16)]
    start = [torch.ones(1), torch.ones(1, dtype=torch.bfloat16)]
    clipped = kind(start, {"lr": 0.5}, provider, max_norm=GUARDED / 2)
    free = kind(start, {"lr": 0.5}, provider)
    clipped.step(values)
    free.step(halves)
    assert all(map(torch.equal, clipped.params(), free.params()))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_session_leaves_the_gradients_as_they_are(provider: str, name: str) -> None:
    s = Session(provider=provider, device="cpu")
    w, b = s.param([[3.0]]), s.param([[4.0, 0.0]])
    loss = s.add(s.sum(s.square(s.use(w))), s.sum(s.square(s.use(b))))
    grads = s.backward(loss)
    getattr(s, f"{name}_step")(0.25, grads=grads, max_norm=1.0)
    assert grads[w].tensor.tolist() == [[6.0]]
    assert grads[b].tensor.tolist() == [[8.0, 0.0]]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_parameter_used_twice_counts_with_its_sum(provider: str) -> None:
    s = Session(provider=provider, device="cpu")
    w = s.param([8.0])
    loss = s.sum(s.add(s.use(w), s.mul(s.use(w), s.input([2.0]))))
    # The two leaves have the gradients 1 and 2, and the parameter 3.
    bound = (torch.tensor(3.0) + GUARD).item()
    s.sgd_step(1.0, s.backward(loss), max_norm=bound / 2)
    assert w.value().tolist() == [6.5]


@pytest.mark.holds("What crosses between host and device")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_nothing_is_read_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    s = Session(provider="aten", device="cpu")
    w = s.param([[3.0, 4.0]])
    step = getattr(s, f"{name}_step")
    step(0.5, grads=s.backward(s.sum(s.use(w))), max_norm=1.0)
    s.reset_tape()
    grads = s.backward(s.sum(s.use(w)))
    read: list[str] = []
    for method in ("item", "tolist", "cpu", "numpy", "__bool__", "__float__"):
        original = getattr(torch.Tensor, method)

        def spy(self: torch.Tensor, *args: Any, _m: str = method, _o: Any = original) -> Any:
            read.append(_m)
            return _o(self, *args)

        monkeypatch.setattr(torch.Tensor, method, spy)
    step(0.5, grads=grads, max_norm=1.0)
    # On a CPU the sticky flag is looked at by the host; a GPU's kernels look at it themselves.
    assert read == ["item"]
