"""What ops of a run return that is not in the session's dtype: integers, and casts."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import pytest
import torch

from equivalence.budgets.violation import Violation
from equivalence.sessions.numbers import quarters
from equivalence.sessions.stateful.operands import Offer, operands
from equivalence.sessions.stateful.rules import SHAPES
from equivalence.sessions.stateful.run import Run
from fast import session
from spec.op import Type, refuse
from spec.ops import OPS

pytestmark = pytest.mark.slow

KINDS = (("aten", "fp32"), ("aten", "bf16"), ("triton", "fp32"), ("triton", "bf16"))


@pytest.mark.parametrize("name", OPS)
def test_every_op_finds_operands(name: str) -> None:
    small = {k: quarters(k, shape) / 8 for k, shape in enumerate(SHAPES)}
    batch = quarters(11, (2, 2, 2))
    offer = Offer({**small, 10: small[0].abs() + 1, 11: batch}, [], "aten", "fp32")
    every = product(range(len(small) + 2), repeat=3)
    lone = OPS[name].results is None
    assert any(operands(name, offer, picks) for picks in every) is lone, "those of one result"


@pytest.mark.parametrize(("provider", "precision"), KINDS)
def test_integers_of_an_op_are_indices_of_others(provider: str, precision: str) -> None:
    run = Run(provider, precision)
    run.param((3, 3), 1)
    run.use(0)
    run.op("argmax", (0,), axis=1)
    run.op("argmin", (0,), axis=0, keepdims=True)
    run.op("argmax", (0,), axis=None)
    run.op("reshape", (0,), shape=(9,))
    for name, inputs, attributes in (
        ("take", (0, 1), {"axis": 0}),
        ("take", (4, 3), {"axis": 0}),
        ("gather", (0, 2), {"axis": 0}),
        ("embedding", (1, 0), {}),
        ("one_hot", (1,), {"classes": 3}),
        ("cross_entropy", (0, 1), {"reduction": "mean"}),
    ):
        run.op(name, inputs, **attributes)
        if name != "one_hot":
            run.backward(len(run.refs) - 1, 2)
            run.backward_dense(len(run.refs) - 1, 3)
    run.value(1)
    run.op("argmax", (0,), axis=None)
    run.bad("ops")
    run.bad("backwards")
    run.step("adam", 0, lr=0.5)
    for grads in [*run.grads]:
        run.release(grads)
    run.reset_tape()
    run.end()


@pytest.mark.parametrize(
    ("precision", "wide", "narrow"), [("fp32", "fp64", "bf16"), ("bf16", "fp32", "fp16")]
)
def test_casts_lead_there_and_back(precision: str, wide: str, narrow: str) -> None:
    run = Run("aten", precision)
    run.param((2, 2), 1)
    run.use(0)
    run.op("mul", (0, 0))
    run.op("cast", (1,), to=wide)
    run.op("cast", (2,), to=precision)
    run.op("add", (3, 0))
    run.op("sum", (4,), axes=None, keepdims=False)
    run.op("cast", (5,), to=narrow)
    for entry in (6, 5, 2):
        run.backward(entry, 3)
        run.backward_dense(entry, 4, "buffer")
    run.backward(6)
    run.backward_dense(6)
    run.ask(1, 6)
    run.step("sgd", 0, lr=0.5)
    for grads in [*run.grads]:
        run.release(grads)
    run.reset_tape()
    run.end()


def test_a_cotangent_of_another_dtype_than_its_entry_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pass from a scalar that was cast once began at the session's own 1."""
    plain = session.start_at

    def start_at(identity: int, value: torch.Tensor, seed: Any, one: torch.Tensor) -> torch.Tensor:
        return plain(identity, value, seed, one) if seed is not None else one

    run = Run("aten", "fp32")
    run.param((), 1)
    run.use(0)
    run.op("cast", (0,), to="bf16")
    monkeypatch.setattr(session, "start_at", start_at)
    with pytest.raises(Violation, match=r"cotangent of entry 1: dtype: torch\.float32"):
        run.backward_dense(1)


def test_numbers_that_are_narrow_are_an_end() -> None:
    entries = {0: quarters(0, (2,)), 1: quarters(1, (2,)).bfloat16(), 2: quarters(2, (2,)).double()}
    offer = Offer(entries, [], "aten", "fp32")
    found = {offer.cast(pick) for pick in range(40)}
    assert {here for here, _ in filter(None, found)} == {0, 2}
    assert {to for here, to in filter(None, found) if here == 2} == {"fp32"}
    assert {to for here, to in filter(None, found) if here == 0} == {"fp64", "fp32", "bf16", "fp16"}
    kernels = Offer(entries, [], "triton", "fp32")
    assert "fp64" not in {to for _, to in filter(None, map(kernels.cast, range(40)))}
    assert offer.entry(0, lambda shape: True) == 0


def test_integers_are_offered_where_they_fit() -> None:
    entries = {0: torch.tensor([[0, 2]]), 1: torch.tensor([1, 1]), 2: torch.tensor(5)}
    offer = Offer(entries, [[0, 1]], "aten", "fp32")
    assert [offer.indices(pick, 3) for pick in (1, 5, 9)] == ["n0", 0, 1]
    assert [offer.labels(pick, 2, 3) for pick in (1, 5)] == ["n0", 1]
    assert offer.positions(1, (7, 2), 3) == 0
    assert isinstance(offer.positions(1, (7, 2), 2), list)


def test_no_indices_are_written_for_what_has_no_entries() -> None:
    """A list keeps no extent behind one of 0, so that it would have another shape."""
    offer = Offer({0: quarters(0, (2, 0, 2))}, [], "aten", "fp32")
    assert operands("gather", offer, (0, 0, 0)) is None
    assert operands("where", offer, (0, 0, 0)) is None


def test_what_a_page_refuses_is_no_operand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page may want more of an entry than its family does: here, that it has several numbers."""
    mean = OPS["mean"]

    def of_several(x: Type, **attributes: Any) -> Type:
        if prod(x.shape) < 2:
            raise refuse("planted C4", "there are several entries", x)
        return mean.type_rule(x, **attributes)

    planted = replace(mean, name="planted", type_rule=of_several)
    monkeypatch.setitem(OPS, planted.name, planted)
    few, several = torch.ones(1), torch.ones(2, 3)
    assert operands("mean", Offer({0: few}, [], "aten", "fp32"), (0, 0, 0)) is not None
    for pick in range(4):
        assert operands("planted", Offer({0: few}, [], "aten", "fp32"), (pick, 0, 0)) is None
        assert operands("planted", Offer({0: several}, [], "aten", "fp32"), (pick, 0, 0))


def test_gradients_of_masters_are_sums_that_nobody_has_rounded() -> None:
    """Contributions are exact in bf16, and their sum is in fp32, where a parameter has its own.

    A later pass that does not reach the parameter leaves the sum as it is.
    """
    run = Run("aten", "bf16")
    for number in (1, 2):
        run.param((8,), number)
    run.use(0)
    run.use(1)
    run.backward(0, 5)
    for _ in range(300):
        run.backward(0, 5, "torch", 0)
    held = run.grads[0].arena.views[0]
    assert held.dtype is torch.float32 and not torch.equal(held, held.bfloat16().float())
    run.backward(1, 6, "torch", 0)


def test_a_wrong_sum_of_masters_gradients_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run("aten", "bf16")
    run.param((8,), 1)
    run.use(0)
    run.backward(0, 5)
    run.grads[0].arena.views[0][3] *= 1 + 2**-6
    with pytest.raises(Violation, match="gradient of 0: element 3"):
        run.backward(0, 6, "torch", 0)
