"""The simple pages, both providers, on small integers, where every result is exact."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from fast.device import flags
from fast.errors import Rejected
from fast.kernels.page import REQUIRED
from fast.kernels.rows import reduce
from fast.ops import OPS, tanh

PROVIDERS = ("triton", "aten")
DTYPES = [torch.float32, torch.bfloat16]
SHAPES = [(), (0,), (1,), (7,), (3, 5), (2, 0, 3), (2, 3, 4)]


def integers(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    return torch.randint(-4, 5, shape, generator=generator).to(dtype)


def layouts(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Iterator[Tensor]:
    yield integers(shape, dtype)
    if shape:
        bigger = integers(tuple(2 * n + 1 for n in shape[::-1]), dtype)
        yield bigger.permute(*reversed(range(len(shape))))[tuple(slice(1, None, 2) for _ in shape)]
        yield integers((1,) * len(shape), dtype).expand(shape)


def both_ways(op: str, *inputs: Tensor, **attributes: Any) -> Iterator[tuple[Tensor, Callable]]:
    """Yield, per provider, the output and a function from a cotangent to the gradients."""
    page = OPS[op]
    page.check(*inputs, **attributes)
    needs = [k not in page.index_inputs for k in range(len(inputs))]
    before = [x.clone() for x in inputs]
    for provider in PROVIDERS:
        value, vjp = page.hosts(provider)
        z, saved = value(*inputs, **attributes)

        def back(g: Tensor, vjp: Any = vjp, saved: Any = saved) -> tuple[Tensor | None, ...]:
            gradients = vjp(saved, g, needs)
            assert all(dx is None for dx in vjp(saved, g, [False] * len(needs)))
            for dx, x, need in zip(gradients, inputs, needs, strict=True):
                assert (dx is not None) == need
                assert dx is None or (dx.shape == x.shape and dx.dtype is x.dtype)
            return tuple(gradients)

        yield z, back
        assert all(torch.equal(x, kept) for x, kept in zip(inputs, before, strict=True))
        assert all(x.numel() == 0 or x.data_ptr() != z.data_ptr() for x in inputs)


def agree(op: str, inputs: tuple[Tensor, ...], expected: Callable, **attributes: Any) -> None:
    """Compare both providers with autograd in double precision, exactly."""
    doubles = [x.double().requires_grad_() if x.is_floating_point() else x for x in inputs]
    truth = expected(*doubles)
    for z, back in both_ways(op, *inputs, **attributes):
        assert torch.equal(z.double(), truth.detach()), op
        assert z.shape == truth.shape
        assert z.dtype is inputs[0].dtype
        for g in layouts(tuple(truth.shape), inputs[0].dtype):
            floating = [x for x in doubles if x.requires_grad]
            wanted = iter(torch.autograd.grad(truth, floating, g.double(), retain_graph=True))
            for x, dx in zip(doubles, back(g), strict=True):
                if x.requires_grad:
                    assert torch.equal(dx.double(), next(wanted)), (op, g.stride())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_pointwise(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    for k, x in enumerate(layouts(shape, dtype)):
        y = list(layouts(shape, dtype))[-1 - k]
        agree("add", (x, y), torch.add)
        agree("sub", (x, y), torch.sub)
        agree("mul", (x, y), torch.mul)
        agree("square", (x,), torch.square)
        agree("relu", (x,), torch.relu)
        agree("neg", (x,), torch.neg)
        agree("abs", (x,), torch.abs)
        powers = torch.where(y > 0, 2.0, -0.5).to(dtype)
        agree("reciprocal", (powers,), torch.reciprocal)
        agree("rsqrt", (powers * powers,), torch.rsqrt)
        agree("div", (x, powers), torch.div)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_zero_cotangent_is_absorbing(provider: str) -> None:
    zero, one = torch.zeros(2), torch.tensor([0.0, math.nan])
    poles = [(op, (one,)) for op in ("log", "reciprocal", "rsqrt")]
    for op, inputs in (("div", (one, zero)), *poles):
        value, vjp = OPS[op].hosts(provider)
        _, saved = value(*inputs)
        for dx in vjp(saved, torch.tensor([0.0, -0.0]), [True] * len(inputs)):
            assert torch.equal(dx, zero)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_special_values(provider: str) -> None:
    inf, nan = math.inf, math.nan
    for op, came, wanted in (
        ("relu", (nan, -inf, inf, -1.0), (nan, 0.0, inf, 0.0)),
        (tanh.op.name, (nan, -inf, inf, 0.0), (nan, -1.0, 1.0, 0.0)),
        ("exp", (nan, -inf, inf, 0.0), (nan, 0.0, inf, 1.0)),
        ("log", (nan, 0.0, inf, 1.0), (nan, -inf, inf, 0.0)),
        ("abs", (nan, -inf, -0.0, -1.0), (nan, inf, 0.0, 1.0)),
        ("reciprocal", (nan, -inf, inf, 0.0), (nan, 0.0, 0.0, inf)),
        ("rsqrt", (nan, -1.0, inf, 0.0), (nan, nan, 0.0, inf)),
        ("sigmoid", (nan, -inf, inf, 0.0), (nan, 0.0, 1.0, 0.5)),
    ):
        z, saved = OPS[op].hosts(provider)[0](torch.tensor(came))
        assert torch.equal(z.nan_to_num(7.0), torch.tensor(wanted).nan_to_num(7.0)), op
        if op == "relu":
            (dx,) = OPS[op].hosts(provider)[1](saved, torch.ones(4), [True])
            assert torch.equal(dx, torch.tensor([1.0, 0.0, 1.0, 0.0]))
    zeros = torch.tensor([0.0, -0.0])
    assert torch.equal(tanh.op.hosts(provider)[0](zeros)[0].signbit(), zeros.signbit())


@pytest.mark.holds("Sizes and strides of broadcast operands and of reductions")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_sum_and_what_moves_data(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    rank = len(shape)
    for k, x in enumerate(layouts(shape, dtype)):
        axes = tuple(range(rank))[k % 2 :: 2]
        agree("sum", (x,), lambda x, a=axes: x.sum(a) if a else x + 0, axes=axes)
        agree("sum", (x,), lambda x: x.sum().reshape((1,) * rank), keepdims=True)
        agree("reshape", (x,), lambda x: x.reshape(-1), shape=(x.numel(),))
        back = tuple(range(rank))[::-1]
        agree("permute", (x,), lambda x, back=back: x.permute(back), axes=back)
        agree("broadcast_to", (x,), lambda x: x.expand(2, *shape), shape=(2, *shape))
        single = x.sum(0, keepdim=True).clamp(-4, 4) if rank else x
        agree("broadcast_to", (single,), lambda x: x.expand(shape), shape=shape)


@pytest.mark.holds("Let no gradient pass")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_detach_stops_everything_and_shares_nothing(provider: str) -> None:
    x = integers((3, 4)).T
    value, vjp = OPS["detach"].hosts(provider)
    z, saved = value(x)
    assert torch.equal(z, x)
    assert z.data_ptr() != x.data_ptr()
    (dx,) = vjp(saved, torch.full((4, 3), math.inf), [True])
    assert torch.equal(dx, torch.zeros(4, 3))


@pytest.mark.parametrize("shape", [(300,), (2, 257), (3, 4, 5), (2, 2, 3, 2)])
def test_max(shape: tuple[int, ...]) -> None:
    rank = len(shape)
    for k, x in enumerate(layouts(shape)):
        for axes in ((rank - 1,), tuple(range(rank))[k % 2 :: 2] or (0,)):
            ties = (x == x.amax(axes, keepdim=True)).sum(axes, keepdim=True)
            for z, back in both_ways("max", x, axes=axes):
                assert torch.equal(z, x.amax(axes))
                shared = ties.reshape(z.shape).float() * integers(tuple(z.shape))
                wide = shared.reshape(ties.shape)
                wanted = torch.where(x == x.amax(axes, keepdim=True), wide / ties, 0)
                assert torch.equal(back(shared)[0], wanted)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_max_of_nan_and_of_nothing(provider: str) -> None:
    value, vjp = OPS["max"].hosts(provider)
    x = integers((2, 600))
    x[1, 3] = x[1, 599] = math.nan
    z, saved = value(x, axes=(1,))
    assert z[0] == x[0].max()
    assert z[1].isnan()
    (dx,) = vjp(saved, torch.tensor([0.0, 8.0]), [True])
    assert torch.equal(dx[1].nonzero().flatten(), torch.tensor([3, 599]))
    assert torch.equal(dx[1, [3, 599]], torch.tensor([4.0, 4.0]))
    assert value(torch.full((3,), -math.inf))[0] == -math.inf
    assert value(torch.empty(0, 2), axes=(1,))[0].shape == (0,)
    assert torch.equal(value(x[:1], axes=())[0], x[:1])


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_subnormal_maximum_ties_with_itself(provider: str, dtype: torch.dtype) -> None:
    value, vjp = OPS["max"].hosts(provider)
    tiny = torch.tensor([-3.0, 3.0, 1.0], dtype=dtype) * torch.finfo(dtype).smallest_normal / 4
    _, saved = value(tiny.reshape(3, 1).expand(3, 2), axes=(1,))
    (dx,) = vjp(saved, torch.full((3,), 8.0, dtype=dtype), [True])
    assert dx.tolist() == [[4.0, 4.0]] * 3


@pytest.mark.holds("Sizes and strides of broadcast operands and of reductions")
def test_long_rows_are_cut_into_chunks_with_a_fixed_order() -> None:
    x = integers((2, 3 * reduce.CHUNK + 1))
    z, _ = OPS["sum"].value(x, axes=(1,))
    assert torch.equal(z, x.sum(1))
    assert torch.equal(OPS["max"].value(x.T, axes=(0,))[0], x.amax(1))
    noise = torch.randn(2, 3 * reduce.CHUNK + 1, generator=torch.Generator().manual_seed(0))
    assert torch.equal(OPS["sum"].value(noise)[0], OPS["sum"].value(noise)[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_take(dtype: torch.dtype) -> None:
    indices = torch.tensor([[2, 0, 1], [2, 2, 0]])
    # One axis that is strided or repeated stays a view when it is flattened.
    strided, repeated = indices.reshape(-1)[::2], indices[0, :1].expand(4)
    several = (indices.T, indices.int()[0], strided, indices[:0], indices[0, 0], repeated)
    for k, x in enumerate(layouts((3, 4, 3), dtype)):
        for axis in (0, 2, -1):
            for positions in several[k::3]:
                flat = positions.reshape(-1).long()

                def expected(x: Tensor, p: Tensor, flat: Any = flat, axis: Any = axis) -> Tensor:
                    at = axis % 3
                    taken = x.index_select(at, flat)
                    return taken.reshape(*x.shape[:at], *p.shape, *x.shape[at + 1 :])

                agree("take", (x, positions), expected, axis=axis)
    wide = integers((5, 70), dtype)
    agree("take", (wide, indices[0]), lambda x, p: x.index_select(0, p), axis=0)


def test_take_adds_in_index_order() -> None:
    g = torch.tensor([2.0**24, 1.0, 1.0, -(2.0**24)])
    for _, back in both_ways("take", torch.zeros(2), torch.tensor([1, 1, 1, 1]), axis=0):
        assert torch.equal(back(g)[0], torch.zeros(2))


def test_an_index_that_only_a_kernel_sees_sets_the_flag() -> None:
    x, indices = integers((3, 2)), torch.tensor([2, -5, 1, 3])
    value, vjp = OPS["take"].hosts("triton")
    cpu = torch.device("cpu")
    flags.raise_if_set(cpu)
    try:
        z, saved = value(x, indices[:2], axis=0)
        with pytest.raises(Rejected, match=r"take C3: a kernel met the index -5"):
            flags.raise_if_set(cpu)
        assert torch.equal(z, torch.stack([x[2], torch.zeros(2)]))
        (dx, _) = vjp(saved, torch.ones(2, 2), [True, False])
        assert torch.equal(dx, torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]))
    finally:
        flags.clear(cpu)
    flags.raise_if_set(cpu)


def test_dtypes_are_refused() -> None:
    with pytest.raises(Rejected, match=r"relu: inputs are float32, .* got torch\.int64"):
        OPS["relu"].check(torch.tensor([1]))
    with pytest.raises(Rejected, match=r"mul: inputs have one dtype, got"):
        OPS["mul"].check(torch.ones(1), torch.ones(1).bfloat16())


def test_binding_a_call() -> None:
    x = torch.ones(2)
    assert OPS["add"].bind((x, x), {}) == ((x, x), {})
    assert OPS["add"].bind((x,), {"y": x}) == ((x, x), {})
    assert OPS["sum"].bind((x,), {"axes": (0,)}) == ((x,), {"axes": (0,), "keepdims": False})
    assert OPS["take"].attributes == {"axis": REQUIRED}
    with pytest.raises(Rejected, match=r"sum: got an unexpected 'axis'; it takes \(x, \*, axes="):
        OPS["sum"].bind((x,), {"axis": 0})
    with pytest.raises(Rejected, match=r"take: takes .*, got 2 inputs and no axis"):
        OPS["take"].bind((x, x), {})
    with pytest.raises(Rejected, match=r"add: takes \(x, y\), got 3 inputs"):
        OPS["add"].bind((x, x, x), {})
    with pytest.raises(Rejected, match=r"unknown provider 'cuda'"):
        OPS["add"].hosts("cuda")


def test_the_gradient_of_the_largest_square_is_computed_in_fp32() -> None:
    x = torch.tensor([65504.0, -65504.0], dtype=torch.float16)
    for _, back in both_ways("square", x):
        (dx,) = back(torch.tensor([0.0, 0.25], dtype=torch.float16))
        assert dx.dtype is torch.float16
        assert dx.tolist() == [0.0, -32752.0]
