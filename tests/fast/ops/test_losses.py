"""nll_loss and cross_entropy, both providers, on inputs for which every step is exact.

One logit of a row leads by a thousand, so that log-probabilities are plain differences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from fast.device import flags
from fast.errors import Rejected
from fast.ops import OPS
from fast.session import Session
from tests.support import same_where_it_fits
from tests.turns import in_turns

pytestmark = pytest.mark.slow

PROVIDERS = ("triton", "aten")
DTYPES = (torch.float32, torch.bfloat16)
REDUCTIONS = ("mean", "sum", "none")
IGNORED = -100


@pytest.fixture(autouse=True)
def no_flag() -> Iterator[None]:
    flags.clear(torch.device("cpu"))
    yield
    flags.clear(torch.device("cpu"))


def case(rows: int, classes: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return leading logits 0 with -1000 elsewhere, labels that often lead, and integers."""
    generator = torch.Generator().manual_seed(rows + classes)
    leader = torch.randint(0, classes, (rows,), generator=generator)
    other = torch.randint(0, classes, (rows,), generator=generator)
    labels = torch.where(torch.arange(rows) % 3 == 0, other, leader)
    labels[1::4] = IGNORED
    x = torch.full((rows, classes), -1000.0)
    x[torch.arange(rows), leader] = 0
    return x.to(dtype), labels, torch.randint(-2, 3, (rows,), generator=generator).to(dtype)


def layouts(x: Tensor) -> Iterator[Tensor]:
    yield x
    yield x.t().contiguous().t()
    yield torch.stack([x, torch.full_like(x, math.nan)], -1)[..., 0]


def run(op: str, provider: str, *inputs: Tensor, **attributes: Any) -> Any:
    OPS[op].check(*inputs, **attributes)
    return OPS[op].hosts(provider)[0](*inputs, **attributes)


def nearest(numerator: float, denominator: int, dtype: torch.dtype) -> Tensor:
    """Round an exact quotient to fp32 as a correct division does, then to storage."""
    return (torch.tensor(numerator) / torch.tensor(float(denominator))).to(dtype)


SHAPES = ((4, 5), (9, 1), (300, 3), (5, 257), (70, 1024))
CALLS = product(SHAPES, PROVIDERS, DTYPES, REDUCTIONS)


@pytest.mark.parametrize(("shape", "provider", "dtype", "reduction"), in_turns(CALLS, 5))
def test_values_and_gradients(
    shape: tuple[int, int], provider: str, dtype: torch.dtype, reduction: str
) -> None:
    rows, classes = shape
    x, labels, g = case(rows, classes, dtype)
    live = labels != IGNORED
    count = int(live.sum())
    picked = -x.double().gather(1, labels.clamp(min=0)[:, None])[:, 0] * live
    loss = {"mean": nearest(float(picked.sum()), count, dtype), "sum": picked.sum().to(dtype),
            "none": picked.to(dtype)}[reduction]  # fmt: skip
    seed = g if reduction == "none" else torch.tensor(3.0, dtype=dtype)
    share = nearest(3.0, count, torch.float32) if reduction == "mean" else seed.float()
    hot = torch.zeros(rows, classes).scatter_(1, labels.clamp(min=0)[:, None], 1.0)
    share = (share * live)[:, None]
    for op, gradient in (("nll_loss", -hot), ("cross_entropy", (x == 0).float() - hot)):
        for xs in layouts(x) if rows < 10 else [x]:
            z, saved = run(op, provider, xs, labels, reduction=reduction)
            assert z.dtype is dtype
            assert torch.equal(z, loss)
            dx, nothing = OPS[op].hosts(provider)[1](saved, seed, (True, False))
            assert nothing is None
            assert dx.dtype is dtype
            assert same_where_it_fits(dx, gradient * share)
    assert OPS[op].hosts(provider)[1](saved, seed, (False, False)) == (None, None)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("op", ["nll_loss", "cross_entropy"])
def test_the_mean_is_a_correctly_rounded_quotient(op: str, provider: str) -> None:
    for count in (3, 5, 7, 49, 100):
        x = torch.zeros(count + 2, 2)
        x[:, 1] = -1000
        labels = torch.zeros(count + 2, dtype=torch.int64)
        labels[0] = 1
        labels[-2:] = IGNORED
        z, saved = run(op, provider, x, labels)
        assert z == nearest(1000.0, count, torch.float32)
        (dx, _) = OPS[op].hosts(provider)[1](saved, torch.tensor(1.0), (True, False))
        share = Fraction(float(nearest(1.0, count, torch.float32)))
        assert Fraction(float(dx[0, 1])) == -share
        assert not dx[-2:].any()


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("op", ["nll_loss", "cross_entropy"])
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_nothing_counted_is_no_loss(rows: int, op: str, provider: str) -> None:
    for reduction in REDUCTIONS:
        for smoothing in ({}, {"label_smoothing": 0.5}) if op == "cross_entropy" else ({},):
            x, labels = torch.randn(rows, 4), torch.full((rows,), IGNORED)
            z, saved = run(op, provider, x, labels, reduction=reduction, **smoothing)
            assert torch.equal(z, torch.zeros(rows if reduction == "none" else ()))
            g = torch.full(z.shape, 3.0)
            dx, _ = OPS[op].hosts(provider)[1](saved, g, (True, False))
            assert torch.equal(dx, torch.zeros(rows, 4))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("classes", [4, 256, 1024])
def test_equal_logits_learn_exactly(classes: int, provider: str) -> None:
    x, labels = torch.full((8, classes), 2.5), torch.arange(8) % 4
    g = torch.tensor([1.0, -2.0, 0.0, 4.0]).repeat(2)
    z, saved = run("cross_entropy", provider, x, labels, reduction="none")
    assert torch.equal(z, z[0].expand(8))
    hot = torch.zeros(8, classes).scatter_(1, labels[:, None], 1.0)
    dx, _ = OPS["cross_entropy"].hosts(provider)[1](saved, g, (True, False))
    assert torch.equal(dx, (1 / classes - hot) * g[:, None])


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_repeated_cotangent_is_read_by_its_stride(provider: str) -> None:
    x, labels, _ = case(5, 7, torch.float32)
    for op in ("nll_loss", "cross_entropy"):
        value, vjp = OPS[op].hosts(provider)
        _, saved = value(x, labels, reduction="none")
        repeated, _ = vjp(saved, torch.tensor(2.0).expand(5), (True, False))
        assert torch.equal(repeated, vjp(saved, torch.full((5,), 2.0), (True, False))[0])
        spread = torch.arange(10.0)[::2]
        assert torch.equal(
            vjp(saved, spread, (True, False))[0], vjp(saved, spread.clone(), (True, False))[0]
        )


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("classes", [2, 20, 600])
def test_impossible_classes_cost_nothing(classes: int, provider: str) -> None:
    x = torch.full((2, classes), -math.inf)
    x[:, -1] = 3.0
    labels = torch.tensor([classes - 1, classes - 1])
    z, saved = run("cross_entropy", provider, x, labels)
    assert z == 0
    dx, _ = OPS["cross_entropy"].hosts(provider)[1](saved, torch.tensor(1.0), (True, False))
    assert torch.equal(dx, torch.zeros(2, classes))
    z, saved = run("cross_entropy", provider, x, labels - 1)
    assert z == math.inf
    z, saved = run("cross_entropy", provider, x, labels, label_smoothing=0.5)
    assert z == math.inf


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("classes", [4, 16, 512])
@pytest.mark.parametrize("smoothing", [0.5, 1.0])
def test_smoothing(smoothing: float, classes: int, provider: str, dtype: torch.dtype) -> None:
    x = torch.full((4, classes), -1024.0)
    x[:, 1] = 0
    labels = torch.tensor([1, 0, IGNORED, 2])
    live = labels != IGNORED
    spread = smoothing / classes
    losses = spread * 1024 * (classes - 1) + (1 - smoothing) * 1024 * (labels != 1)
    losses = losses * live
    hot = torch.zeros(4, classes).scatter_(1, labels.clamp(min=0)[:, None], 1.0)
    gradient = ((x == 0).float() - (1 - smoothing) * hot - spread) * live[:, None]
    for reduction, loss in (("none", losses), ("sum", losses.sum()), ("mean", losses.sum() / 3)):
        attributes = {"label_smoothing": smoothing, "reduction": reduction}
        z, saved = run("cross_entropy", provider, x.to(dtype), labels, **attributes)
        assert torch.equal(z, loss.to(dtype))
        if reduction != "mean":
            g = torch.ones(z.shape, dtype=dtype)
            dx, _ = OPS["cross_entropy"].hosts(provider)[1](saved, g, (True, False))
            assert same_where_it_fits(dx, gradient)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_one_class_is_certain_and_learns_nothing(smoothing: float, provider: str) -> None:
    x, labels = torch.randn(6, 1) * 100, torch.zeros(6, dtype=torch.int64)
    z, saved = run("cross_entropy", provider, x, labels, label_smoothing=smoothing)
    assert z == 0
    dx, _ = OPS["cross_entropy"].hosts(provider)[1](saved, torch.tensor(0.3), (True, False))
    assert torch.equal(dx, torch.zeros(6, 1))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_labels_of_any_integer_type_and_stride(provider: str) -> None:
    x = torch.arange(12.0).reshape(4, 3)
    for dtype in (torch.int64, torch.int32, torch.int16, torch.uint8):
        labels = torch.tensor([[2, 9], [0, 9], [1, 9], [2, 9]], dtype=dtype)[:, 0]
        z, _ = run("nll_loss", provider, x, labels, reduction="none")
        assert torch.equal(z, torch.tensor([-2.0, -3.0, -7.0, -11.0]))
    z, _ = run("nll_loss", provider, x, labels.long(), reduction="none", ignore_index=2)
    assert torch.equal(z, torch.tensor([0.0, -3.0, -7.0, 0.0]))


@pytest.mark.parametrize("op", ["nll_loss", "cross_entropy"])
def test_a_kernel_flags_what_the_host_did_not_see(op: str) -> None:
    x, labels, _ = case(6, 5, torch.float32)
    for bad in (5, -1, 2**33):
        labels[2] = bad
        kept = labels.clone()
        kept[2] = IGNORED
        z, saved = OPS[op].value(x, labels, reduction="none")
        assert torch.equal(z, OPS[op].value(x, kept, reduction="none")[0])
        with pytest.raises(Rejected, match=f"{op} C3: a kernel met the index {bad},"):
            flags.raise_if_set(x.device)
        flags.clear(x.device)
        dx, _ = OPS[op].vjp(saved, torch.ones(6), (True, False))
        assert not dx[2].any()


def test_integers_are_no_logits() -> None:
    for op in ("nll_loss", "cross_entropy"):
        with pytest.raises(Rejected, match=f"{op}: inputs are float32"):
            OPS[op].check(torch.zeros(2, 3).int(), torch.tensor([0, 2]))


def test_weights_of_classes_may_be_a_tensor_which_stays_the_callers() -> None:
    """Torch warns who copies a tensor by torch.tensor; here nothing of it is heard."""
    session = Session(provider="aten")
    z, weight = session.input([[1.0, 2.0]], requires_grad=True), torch.tensor([1.0, 3.0])
    loss = session.cross_entropy(z, [1], weight=weight, reduction="sum")
    plain = session.cross_entropy(z, [1], weight=(1.0, 3.0), reduction="sum")
    weight.fill_(7.0)
    assert session.value(loss) == session.value(plain)
    found = [session.grad(session.backward(one), z) for one in (loss, plain)]
    assert torch.equal(*found)
