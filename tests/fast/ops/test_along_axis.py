"""scatter_add, slice and concat, both providers, on small integers, where every result is exact."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from fast import Rejected, Session, SessionError
from fast.device import flags
from fast.kernels.page import REQUIRED
from fast.ops import OPS, scatter_add

PROVIDERS = ("triton", "aten")
DTYPES = (torch.float32, torch.bfloat16)
CPU = torch.device("cpu")


def integers(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape) + len(shape))
    return torch.randint(-4, 5, shape, generator=generator).to(dtype)


def layouts(x: Tensor) -> Iterator[Tensor]:
    """Yield the same numbers contiguous, transposed, strided and off every alignment."""
    back = tuple(range(x.dim()))[::-1]
    yield x
    yield x.permute(back).contiguous().permute(back)
    yield torch.stack([x, torch.zeros_like(x)], -1)[..., 0]
    yield torch.cat([x.new_zeros(1), x.reshape(-1)])[1:].reshape(x.shape)


class Call:
    """One checked call of a page's hosts, with what its VJP returns."""

    def __init__(self, op: str, provider: str, *inputs: Tensor, **attributes: Any) -> None:
        page = OPS[op]
        page.check(*inputs, **attributes)
        value, self._vjp = page.hosts(provider)
        self.inputs = inputs
        self.needs = [k not in page.index_inputs for k in range(len(inputs))]
        self.z, self.saved = value(*inputs, **attributes)
        assert all(x.numel() == 0 or not shared(x, self.z) for x in inputs)

    def back(self, cotangent: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients, whose forms are checked, and that none comes unasked."""
        nothing = self._vjp(self.saved, cotangent, [False] * len(self.inputs))
        assert nothing == (None,) * len(self.inputs)
        found = self._vjp(self.saved, cotangent, self.needs)
        for dx, x, need in zip(found, self.inputs, self.needs, strict=True):
            assert (dx is not None) == need
            assert dx is None or (dx.shape == x.shape and dx.dtype is x.dtype)
        return tuple(found)


def shared(x: Tensor, y: Tensor) -> bool:
    return x.untyped_storage()._cdata == y.untyped_storage()._cdata


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_slice_cuts_and_its_gradient_pads(provider: str, dtype: torch.dtype) -> None:
    for k, x in enumerate((*layouts(integers(3, 4, 5, dtype=dtype)), integers(0, 2, 3).to(dtype))):
        for axis in (0, 1, -1):
            extent = x.shape[axis]
            for start, length in ((0, extent), (extent // 2, extent - extent // 2), (extent, 0)):
                call = Call("slice", provider, x, axis=axis, start=start, length=length)
                assert torch.equal(call.z, x.narrow(axis, start, length))
                g = list(layouts(integers(*call.z.shape, dtype=dtype, seed=1)))[-1 - k % 4]
                wanted = torch.zeros(x.shape, dtype=dtype)
                wanted.narrow(axis, start, length).copy_(g)
                (dx,) = call.back(g)
                assert dx is not None
                assert torch.equal(dx, wanted)
                assert g.numel() == 0 or not shared(dx, g)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_long_and_narrow_tiles_end_where_they_should(provider: str) -> None:
    for shape, axis, start, length in (
        ((2, 3000), 1, 1, 2999),
        ((1025,), 0, 1, 1024),
        ((300, 9), 1, 8, 1),
        ((5, 7, 257), 1, 2, 4),
    ):
        for x in (integers(*shape), integers(*shape[::-1]).permute(*range(len(shape))[::-1])):
            call = Call("slice", provider, x, axis=axis, start=start, length=length)
            assert torch.equal(call.z, x.narrow(axis, start, length))
            wanted = torch.zeros(shape)
            wanted.narrow(axis, start, length).copy_(call.z)
            assert torch.equal(call.back(call.z)[0], wanted)
            joined = Call("concat", provider, x, call.z, axis=axis)
            assert torch.equal(joined.z, torch.cat([x, call.z], axis))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_padding_is_zero_beside_an_infinity(provider: str) -> None:
    call = Call("slice", provider, torch.ones(4), axis=0, start=1, length=2)
    (dx,) = call.back(torch.tensor([math.inf, math.nan]))
    assert dx is not None
    assert dx.nan_to_num(7.0, 8.0).tolist() == [0.0, 8.0, 7.0, 0.0]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_concat_joins_and_its_gradients_are_parts(provider: str, dtype: torch.dtype) -> None:
    for x in layouts(integers(3, 4, 5, dtype=dtype)):
        for axis in (0, 1, -1):
            others = (x.narrow(axis, 0, 1), x.narrow(axis, 1, 0), x.narrow(axis, 1, 2))
            for xs in ((x,), (x, others[0]), (others[1], x, others[2], x)):
                call = Call("concat", provider, *xs, axis=axis)
                assert torch.equal(call.z, torch.cat(xs, axis))
                for g in layouts(call.z):
                    parts = call.back(g)
                    assert all(torch.equal(p, x) for p, x in zip(parts, xs, strict=True))
    nothing = torch.empty(2, 0, dtype=dtype)
    assert Call("concat", provider, nothing, nothing, axis=1).z.shape == (2, 0)
    assert Call("concat", provider, nothing, nothing, axis=0).z.shape == (4, 0)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_scatter_add(provider: str, dtype: torch.dtype) -> None:
    matrix = torch.tensor([[2, 0, 1], [2, 2, 0]])
    several = (matrix, matrix.T, matrix.int()[0], matrix.reshape(-1)[::2], matrix[:0], matrix[0, 0])
    several += (matrix[0].to(torch.int8), matrix[0, :1].expand(4))
    for k, x in enumerate(layouts(integers(3, 4, 3, dtype=dtype))):
        for axis in (0, -1):
            at = axis % 3
            for indices in several[k % 2 :: 2]:
                flat = (*x.shape[:at], indices.numel(), *x.shape[at + 1 :])
                full = (*x.shape[:at], *indices.shape, *x.shape[at + 1 :])
                source = list(layouts(integers(*full, dtype=dtype, seed=k)))[-1 - k]
                call = Call(scatter_add.op.name, provider, x, indices, source, axis=axis)
                rows = indices.reshape(-1).long()
                wanted = x.float().index_add(at, rows, source.reshape(flat).float())
                assert torch.equal(call.z, wanted.to(dtype))
                g = list(layouts(integers(3, 4, 3, dtype=dtype, seed=5)))[k]
                dx, _, ds = call.back(g)
                assert dx is g
                assert torch.equal(ds, g.index_select(at, rows).reshape(full))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_scatter_add_over_wide_rows_and_nothing(provider: str) -> None:
    x, indices = integers(5, 300), torch.tensor([4, 0, 4])
    call = Call(scatter_add.op.name, provider, x, indices, integers(3, 300, seed=2), axis=0)
    assert torch.equal(call.z, x.index_add(0, indices, integers(3, 300, seed=2)))
    for shape, rows in (((0, 3), 0), ((3, 0), 2)):
        positions = torch.zeros(rows, dtype=torch.int64)
        source = torch.ones(rows, *shape[1:])
        assert Call(
            scatter_add.op.name, provider, torch.ones(shape), positions, source, axis=0
        ).z.shape


@pytest.mark.parametrize("provider", PROVIDERS)
def test_scatter_add_adds_in_index_order_onto_x(provider: str) -> None:
    big = 2.0**24
    for x, source, wanted in (
        (0.0, (big, 1.0, 1.0, -big), 0.0),
        (0.0, (1.0, 1.0, big, -big), 2.0),
        (big, (1.0, 1.0, 1.0, -big), 0.0),
        (-0.0, (), -0.0),
    ):
        indices = torch.ones(len(source), dtype=torch.int64)
        given = torch.tensor([7.0, x])
        call = Call(scatter_add.op.name, provider, given, indices, torch.tensor(source), axis=0)
        assert call.z.tolist() == [7.0, wanted]
        assert math.copysign(1.0, call.z[1].item()) == math.copysign(1.0, wanted)


@pytest.mark.parametrize(("bad", "kept"), [(-5, 0), (3, 1)])
def test_an_index_that_only_a_kernel_sees_sets_the_flag(bad: int, kept: int) -> None:
    x, source = integers(3, 2), integers(2, 2, seed=3)
    indices = torch.tensor([kept, bad])
    value, vjp = scatter_add.op.hosts("triton")
    flags.raise_if_set(CPU)
    try:
        z, saved = value(x, indices, source, axis=0)
        with pytest.raises(Rejected, match=rf"scatter_add C3: a kernel met the index {bad},"):
            flags.raise_if_set(CPU)
        assert torch.equal(z, x.index_add(0, indices[:1], source[:1]))
        flags.clear(CPU)
        _, _, ds = vjp(saved, x, [True, False, True])
        assert torch.equal(ds, torch.stack([x[kept], torch.zeros(2)]))
        with pytest.raises(Rejected, match=r"scatter_add C3"):
            flags.raise_if_set(CPU)
    finally:
        flags.clear(CPU)


def test_mixed_dtypes_are_refused() -> None:
    x = torch.ones(2)
    for op, inputs in (
        ("concat", (x, x, x.bfloat16())),
        (scatter_add.op.name, (x, torch.tensor([0, 1]), x.double())),
    ):
        with pytest.raises(Rejected, match=rf"{op}: inputs have one dtype, got torch\.float32 and"):
            OPS[op].check(*inputs, axis=0)


def test_binding_any_number_of_inputs() -> None:
    x, op = torch.ones(2), OPS["concat"]
    assert op.attributes == {"axis": REQUIRED}
    for count in (0, 1, 3):
        assert op.bind((x,) * count, {"axis": 0}) == ((x,) * count, {"axis": 0})
    with pytest.raises(Rejected, match=r"concat: got an unexpected 'xs'; it takes \(\*xs, axis\)"):
        op.bind((), {"xs": x, "axis": 0})
    with pytest.raises(Rejected, match=r"takes \(\*xs, axis\), got 2 inputs and no axis"):
        op.bind((x, x), {})


def session(provider: str) -> Session:
    return Session(provider=provider, device="cpu")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_parts_of_one_cotangent_add_up_and_stay_apart(provider: str) -> None:
    """The gradients of concat are views; neither a leaf's sum nor another node's writes to them."""
    s = session(provider)
    a, b = s.param([1.0, 2.0], "a"), s.param([3.0], "b")
    x, y = s.use(a), s.use(b)
    z = s.concat(x, y, x, s.square(x), axis=0)
    out = s.add(s.concat(z, axis=0), z)
    seed = torch.arange(1.0, 8.0)
    for _ in range(2):
        grads = s.backward(out, seed)
        assert s.grad(grads, x).tolist() == [2 * (1 + 4 + 2 * 6), 2 * (2 + 5 + 4 * 7)]
        assert s.grad(grads, y).tolist() == [6.0]
    assert seed.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    dense = s.backward_dense(out, seed)
    assert s.grad(dense, z).tolist() == [2.0 * n for n in range(1, 8)]
    assert s.grad(dense, x).tolist() == s.grad(grads, x).tolist()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_session_cuts_joins_and_adds(provider: str) -> None:
    s = session(provider)
    w = s.use(s.param([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "w"))
    left = s.slice(w, axis=1, start=0, length=2)
    right = s.slice(w, axis=-1, start=2, length=1)
    assert s.value(s.concat(right, left, axis=1)).tolist() == [[3.0, 1.0, 2.0], [6.0, 4.0, 5.0]]
    rows = s.nat_vec([1, 1])
    total = s.scatter_add(left, rows, s.square(left), axis=0)
    assert s.value(total).tolist() == [[1.0, 2.0], [4 + 1 + 16, 5 + 4 + 25]]
    grads = s.backward(total, [[1.0, 10.0], [100.0, 1000.0]])
    wanted = [[1.0 + 200, 10.0 + 4000, 0.0], [100.0 + 800, 1000.0 + 10000, 0.0]]
    assert s.grad(grads, w).tolist() == wanted


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_refused_call_leaves_the_tape_as_it_was(provider: str) -> None:
    s, other = session(provider), session(provider)
    x, y = s.input([1.0, 2.0], requires_grad=True), s.input([[1.0, 2.0]])
    number: Any = 1.0
    before = len(s._tape)
    for message, run in (
        ("concat C1: there is at least one input, got none", lambda: s.concat(axis=0)),
        ("concat C3", lambda: s.concat(x, y, axis=0)),
        (r"concat: xs\[1\] is a ref of this session", lambda: s.concat(x, number, axis=0)),
        ("slice C2", lambda: s.slice(x, axis=0, start=2, length=1)),
        ("scatter_add C2", lambda: s.scatter_add(x, x, x, axis=0)),
        ("scatter_add C3", lambda: s.scatter_add(x, [0, 2], x, axis=0)),
        ("scatter_add C4", lambda: s.scatter_add(x, [0], x, axis=0)),
    ):
        with pytest.raises(Rejected, match=message):
            run()
    with pytest.raises(SessionError, match=r"concat: xs\[2\]: this ref belongs to another"):
        s.concat(x, x, other.input([1.0]), axis=0)
    assert len(s._tape) == before
    assert s.value(s.concat(x, x, axis=0)).tolist() == [1.0, 2.0, 1.0, 2.0]
