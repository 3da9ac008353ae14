"""where, maximum, minimum, mean and mse_loss, both providers, where every result is exact."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fast import Rejected, Session, SessionError
from fast.binaries import ptx_rules
from fast.device import bridge
from fast.kernels.losses import paired
from fast.ops import OPS
from spec.session import Session as SpecSession
from spec.tensor import tensor
from tests.support import same

PROVIDERS = ("triton", "aten")
DTYPES = (torch.float32, torch.bfloat16)
NAN, INF = math.nan, math.inf


def integers(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape) + len(shape))
    return torch.randint(-4, 5, shape, generator=generator).to(dtype)


def layouts(x: Tensor) -> Iterator[Tensor]:
    """Yield the same numbers contiguous, transposed, strided and off every alignment."""
    yield x
    yield x.t().contiguous().t()
    yield torch.stack([x, torch.zeros_like(x)], -1)[..., 0]
    rows, columns = x.shape
    yield torch.cat([x[:, :1], x], 1).reshape(-1)[1:].as_strided((rows, columns), (columns + 1, 1))


def run(
    op: str, provider: str, *inputs: Any, **attributes: Any
) -> tuple[Tensor, Callable[..., tuple[Tensor | None, ...]]]:
    """Check and compute one op; return the output and a function from a cotangent to gradients."""
    page = OPS[op]
    page.check(*inputs, **attributes)
    value, vjp = page.hosts(provider)
    z, saved = value(*inputs, **attributes)
    needs = [k not in page.index_inputs for k in range(len(inputs))]
    return z, lambda g, needs=needs: vjp(saved, g, needs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_where_takes_and_gives_to_the_side_that_the_mask_names(
    provider: str, dtype: torch.dtype
) -> None:
    mask = integers(33, 34, seed=1) > 0
    x, y, g = (integers(33, 34, dtype=dtype, seed=k) for k in (2, 3, 4))
    for m, a, b, c in zip(layouts(mask), layouts(x), layouts(y), layouts(g), strict=True):
        z, back = run("where", provider, m, a, b)
        assert same(z, torch.where(mask, x, y))
        none, dx, dy = back(c)
        assert none is None
        assert same(dx, torch.where(mask, g, 0.0))
        assert same(dy, torch.where(mask, 0.0, g))
        assert [t is None for t in back(c, [False, False, True])] == [True, True, False]
        assert back(c, [False] * 3) == (None, None, None)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_side_that_is_not_chosen_sees_neither_nan_nor_infinity(provider: str) -> None:
    mask = torch.tensor([True, False, True, False])
    bad = torch.tensor([NAN, NAN, -INF, INF])
    z, back = run("where", provider, mask, bad, torch.ones(4))
    assert same(z, torch.tensor([NAN, 1.0, -INF, 1.0]))
    _, dx, dy = back(bad)
    assert same(dx, torch.tensor([NAN, 0.0, -INF, 0.0]))
    assert same(dy, torch.tensor([0.0, NAN, 0.0, INF]))
    assert not any(t[t == 0].signbit().any() for t in (dx, dy) if t is not None)


def test_where_refuses_bytes_as_a_mask() -> None:
    mask = torch.tensor([1, 0], dtype=torch.uint8)
    with pytest.raises(Rejected, match=r"^where C2: .* got"):
        OPS["where"].check(mask, torch.ones(2), torch.ones(2))


MASKS: tuple[Any, ...] = (
    torch.tensor([[True, False], [False, False]]),
    torch.tensor([[True, False], [False, False]]).t().contiguous().t(),
    np.array([[True, False], [False, False]]),
    np.array([[True, False], [False, False]]).T,
    [[True, False], [False, False]],
    [[np.True_, np.False_], [np.False_, np.False_]],
)


@pytest.mark.parametrize("given", MASKS, ids=lambda mask: type(mask).__name__)
def test_booleans_of_every_kind_reach_the_device_as_a_copy(given: Any) -> None:
    given, wanted = deepcopy(given), [[True, False], [False, False]]
    found = bridge.to_mask(given, torch.device("cpu"))
    assert found.dtype is torch.bool
    assert found.is_contiguous()
    assert found.tolist() == wanted
    if not isinstance(given, list):
        given[0, 0] = not given[0, 0]
        assert found.tolist() == wanted


@pytest.mark.parametrize(
    "given",
    [[1, 0], [1.0, 0.0], [True, 0], torch.tensor([1, 0]), np.array([1, 0]), np.ones(2), "tf", None],
    ids=repr,
)
def test_what_is_not_boolean_is_no_mask(given: Any) -> None:
    with pytest.raises(Rejected, match=r"^mask: .*bool.* got"):
        bridge.to_mask(given, torch.device("cpu"))
    session = Session(provider="aten", device="cpu")
    x = session.input([1.0, 2.0], requires_grad=True)
    with pytest.raises(Rejected):
        session.where(given, x, x)
    assert session.value(session.square(x)).tolist() == [1.0, 4.0]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_session_takes_a_mask_beside_its_refs(provider: str) -> None:
    session = Session(provider=provider, device="cpu")
    x = session.input([1.0, 2.0], requires_grad=True)
    y = session.input([5.0, 6.0], requires_grad=True)
    mask = np.array([False, True])
    z = session.where(mask, x, y)
    mask[:] = True
    assert session.value(z).tolist() == [5.0, 2.0]
    grads = session.backward(session.sum(session.mul(z, z)))
    assert session.grad(grads, x).tolist() == [0.0, 4.0]
    assert session.grad(grads, y).tolist() == [10.0, 0.0]
    with pytest.raises(Rejected, match=r"^where C2: the mask is boolean .* got torch.float32"):
        session.where(x, x, y)
    with pytest.raises(Rejected, match=r"^where C2: the mask is boolean"):
        session.where(session.nat_vec([1, 0]), x, y)
    with pytest.raises(SessionError, match="another session"):
        session.where(Session(device="cpu").input([1.0]), x, y)


def test_the_reference_takes_the_same_mask() -> None:
    session = SpecSession()
    x, y = (session.input(tensor(v), requires_grad=True) for v in ([1.0, 2.0], [5.0, 6.0]))
    z = session.where(tensor([False, True]), x, y)
    assert session.value(z) == tensor([5.0, 2.0])
    grads = session.backward(session.sum(z * z))
    assert session.grad(grads, x) == tensor([0.0, 4.0])
    assert session.grad(grads, y) == tensor([10.0, 0.0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_the_extremes_and_their_ties(op: str, provider: str, dtype: torch.dtype) -> None:
    peer = {"maximum": torch.maximum, "minimum": torch.minimum}[op]
    x, y, g = (integers(33, 34, dtype=dtype, seed=k) for k in (2, 3, 4))
    left, right = (t.double().requires_grad_() for t in (x, y))
    assert (x == y).any()
    truth = peer(left, right)
    wanted = torch.autograd.grad(truth, (left, right), g.double())
    for a, b, c in zip(layouts(x), layouts(y), layouts(g), strict=True):
        z, back = run(op, provider, a, b)
        assert same(z, truth.detach().to(dtype))
        assert all(same(d, w.to(dtype)) for d, w in zip(back(c), wanted, strict=True))
        assert [d is None for d in back(c, [False, True])] == [True, False]
        assert same(back(c, [False, True])[1], wanted[1].to(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_nan_propagates_from_either_side(op: str, provider: str, dtype: torch.dtype) -> None:
    x = torch.tensor([NAN, 1.0, NAN, NAN, -INF], dtype=dtype)
    y = torch.tensor([1.0, NAN, NAN, INF, NAN], dtype=dtype)
    z, back = run(op, provider, x, y)
    assert z.isnan().all()
    g = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=dtype)
    assert all(same(d, g) for d in back(g))


def test_an_extreme_that_loses_nan_is_a_fault() -> None:
    wide = "ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [ %rd1 + 0 ];"
    for page, instruction in (("maximum", "max"), ("minimum", "min")):
        chosen = getattr(__import__(f"fast.ops.{page}", fromlist=["_"]), f"_{page}")
        for ptx, faults in ((f"{instruction}.f32", 1), (f"{instruction}.NaN.f32", 0)):
            text = f"{wide} {ptx} %f1, %f2, %f3;"
            found = [*ptx_rules.violations(text, "_flat_kernel", {"FN": chosen}, False, ())]
            assert found == ["takes a maximum that loses NaN"] * faults


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_mean_divides_by_what_it_added(provider: str, dtype: torch.dtype) -> None:
    x = integers(16, 32, dtype=dtype)
    for a in layouts(x):
        for axes, number in (((0,), 16), ((1,), 32), ((-1, 0), 512), (None, 512), ((), 1)):
            for keepdims in (False, True):
                z, back = run("mean", provider, a, axes=axes, keepdims=keepdims)
                whole = (0, 1) if axes is None else axes
                exact = x.double().sum(whole, keepdim=keepdims) if whole else x.double()
                assert same(z, (exact / number).to(dtype))
                g = integers(*z.shape, dtype=dtype, seed=5)
                (dx,) = back(g)
                shape = [1 if k in {w % 2 for w in whole} else n for k, n in enumerate(x.shape)]
                assert same(dx, (g / number).reshape(shape).expand(16, 32))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_mean_rounds_once(provider: str) -> None:
    x = torch.ones(1, 257, dtype=torch.bfloat16)
    z, back = run("mean", provider, x, axes=(1,))
    assert z.tolist() == [1.0]
    assert run("mean", provider, 49 * torch.ones(49))[0].item() == 49.0
    (dx,) = back(torch.tensor([257.0], dtype=torch.bfloat16))
    assert dx is not None
    assert dx.float().unique().tolist() == [(torch.tensor(256.0) / 257).bfloat16().item()]


def test_a_mean_in_chunks_is_divided_once() -> None:
    x = integers(2, 3 * 4096 + 4096)
    assert same(OPS["mean"].value(x, axes=(1,))[0], x.sum(1) / 16384)
    assert same(OPS["mean"].value(x)[0], x.sum() / 32768)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_mse_loss_on_every_layout(reduction: str, provider: str, dtype: torch.dtype) -> None:
    x, y = integers(32, 64, dtype=dtype, seed=1), integers(32, 64, dtype=dtype, seed=2)
    number = 2048 if reduction == "mean" else 1
    losses = (x.double() - y.double()) ** 2
    exact = losses if reduction == "none" else losses.sum() / number
    for a, b in zip(layouts(x), reversed(list(layouts(y))), strict=True):
        z, back = run("mse_loss", provider, a, b, reduction=reduction)
        assert same(z, exact.to(dtype))
        several = layouts(integers(32, 64, dtype=dtype))
        for g in several if reduction == "none" else (torch.tensor(3.0, dtype=dtype),):
            slope = (2 * (x.double() - y.double()) * g.double() / number).to(dtype)
            dx, dy = back(g)
            assert same(dx, slope)
            assert same(dy, -slope)
            assert [t is None for t in back(g, [False, True])] == [True, False]
            assert same(back(g, [False, True])[1], -slope)
            assert same(back(g, [True, False])[0], slope)
            assert back(g, [False, False]) == (None, None)


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_mse_loss_cuts_long_inputs_into_parts(extra: int) -> None:
    n = 3 * paired.PART + extra
    x, y = integers(n, seed=1), integers(n, seed=2)
    exact = ((x.double() - y.double()) ** 2).sum()
    z, back = run("mse_loss", "triton", x, y, reduction="sum")
    assert z.item() == exact.item()
    assert same(back(torch.ones(()))[0], 2 * (x - y))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_mse_loss_of_nothing(provider: str) -> None:
    nothing = torch.empty(0, 3)
    z, back = run("mse_loss", provider, nothing, nothing, reduction="sum")
    assert z.item() == 0.0
    assert [t.shape for t in back(torch.ones(())) if t is not None] == [(0, 3)] * 2
    assert run("mse_loss", provider, nothing, nothing, reduction="none")[0].shape == (0, 3)
    assert run("mean", provider, nothing, axes=(1,))[0].shape == (0,)
