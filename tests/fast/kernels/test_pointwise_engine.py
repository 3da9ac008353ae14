"""The pointwise engine, interpreted: layouts, sizes, slabs and offsets, on exact small integers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import fast
from fast.device import launch
from fast.device.mode import tl, triton
from fast.kernels.elementwise import pointwise
from fast.kernels.rows import reduce


@triton.jit
def _affine(x, y, c):
    return tl.where(x > 0, x * y, x + y) + c


@triton.jit
def _both(x, y, g):
    return y * g, (x + y) * g


def integers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    return torch.randint(-4, 5, shape, generator=generator).to(dtype)


def layouts(*shape: int, dtype: torch.dtype) -> Iterator[Tensor]:
    """Yield one shape contiguous, transposed, offset and strided, and with stride 0."""
    yield integers(*shape, dtype=dtype)
    yield integers(*reversed(shape), dtype=dtype).permute(*reversed(range(len(shape))))
    bigger = integers(*(2 * n + 1 for n in shape), dtype=dtype)
    yield bigger[tuple(slice(1, None, 2) for _ in shape)]
    yield integers(*(1 for _ in shape), dtype=dtype).expand(shape)


@pytest.mark.holds("Sizes and strides of broadcast operands and of reductions")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1,), (0,), (3, 0), (5,), (33, 32), (2, 3, 4)])
def test_value_and_vjp_on_every_layout(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    second = list(layouts(*shape, dtype=dtype))
    for k, x in enumerate(layouts(*shape, dtype=dtype)):
        y, g = second[-1 - k], second[k - 2]
        z = pointwise.value(_affine, x, y, scalars=(2.0,))
        assert z.is_contiguous()
        assert z.dtype is dtype
        assert torch.equal(z, torch.where(x > 0, x * y, x + y) + 2)
        dx, dy = pointwise.vjp(_both, (x, y), g, (True, True))
        assert dx is not None
        assert dy is not None
        assert torch.equal(dx, y * g)
        assert torch.equal(dy, (x + y) * g)


def test_only_the_gradients_that_are_needed_are_written() -> None:
    x, y = integers(40), integers(40) + 1
    none, dy = pointwise.vjp(_both, (x, y), y, (False, True))
    assert none is None
    assert dy is not None
    assert torch.equal(dy, (x + y) * y)
    dx, none = pointwise.vjp(_both, (x, y), y, (True, False))
    assert none is None
    assert dx is not None
    assert torch.equal(dx, y * y)
    assert pointwise.vjp(_both, (x, y), y, (False, False)) == (None, None)


@pytest.mark.parametrize("n", [1023, 1024, 1025])
def test_the_last_tile_of_the_flat_kernel_is_masked(n: int) -> None:
    room = torch.full((n + 8,), 9.0)
    z = room[:n]
    pointwise.run(pointwise._identity, (integers(n),), (z,))
    assert torch.equal(z, integers(n))
    assert torch.equal(room[n:], torch.full((8,), 9.0))


def test_a_scalar_and_an_unaligned_offset() -> None:
    assert torch.equal(pointwise.copy(torch.tensor(3.0)), torch.tensor(3.0))
    x = integers(100)[1:]
    assert x.data_ptr() % 16
    assert torch.equal(pointwise.copy(x), x)


def test_more_axes_than_merge_are_copied_first() -> None:
    x = integers(2, 3, 2, 3, 2, 3).permute(5, 3, 1, 0, 2, 4)
    assert len(pointwise.merged(x.shape, (x.stride(),))[0]) > pointwise.MAX_RANK
    assert torch.equal(pointwise.copy(x), x)


def test_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    launches: list[int] = []
    real = launch.launch

    def counted(kernel: object, grid: tuple[int, ...], *args: object, **meta: object) -> None:
        launches.append(1)
        real(kernel, grid, *args, **meta)

    monkeypatch.setattr(pointwise, "launch", counted)
    monkeypatch.setattr(pointwise, "SLAB", 20)
    x = integers(5, 16).T
    assert torch.equal(pointwise.copy(x), x)
    assert len(launches) == 4


def test_offsets_beyond_32_bits() -> None:
    far = torch.empty(2**31 + 64, dtype=torch.bfloat16)
    x = far.as_strided((2, 8), (2**31, 1))
    x.copy_(integers(2, 8))
    assert torch.equal(pointwise.copy(x), integers(2, 8).bfloat16())
    assert torch.equal(reduce.reduce("sum", x, (0,)), integers(2, 8).sum(0).bfloat16())
    assert torch.equal(reduce.reduce("max", x.T, (1,)), integers(2, 8).amax(0).bfloat16())


def test_doubles_are_refused_before_a_launch() -> None:
    with pytest.raises(
        fast.Unavailable, match=r"take float32, bfloat16 or float16, got torch\.float64"
    ):
        pointwise.copy(torch.ones(3, dtype=torch.float64))


@pytest.mark.holds("Sizes and strides of broadcast operands and of reductions")
def test_merging() -> None:
    assert pointwise.merged((2, 3, 4), ((12, 4, 1),)) == ((24,), ((1,),))
    assert pointwise.merged((2, 1, 4), ((1, 7, 2),)) == ((2, 4), ((1, 2),))
    assert pointwise.merged((2, 3), ((3, 1), (0, 0))) == ((6,), ((1,), (0,)))
    assert pointwise.merged((2, 3), ((3, 1), (1, 2))) == ((2, 3), ((3, 1), (1, 2)))
    assert pointwise.merged((2, 3), ((0, 0),)) == ((6,), ((0,),))
    assert pointwise.merged((), ((),)) == ((), ((),))


def test_an_empty_grid_starts_nothing() -> None:
    launch.launch(None, (0, 3))
