"""Products whose inner axis is walked in parts: what is added, in which order, and where."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from fast.kernels import product, split_k, tiles
from fast.ops import OPS

DTYPES = (torch.float32, torch.float16)
"""The interpreter does not round to the nearest bf16."""


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an inner axis be cut from 65 on, into parts of 64."""
    monkeypatch.setattr(split_k, "PARTS", dict.fromkeys(split_k.PARTS, 1))


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Keep the sums of parts that a call writes."""
    kept: list[Tensor] = []
    made = split_k.scratch

    def scratch(z: Tensor, parts: int) -> Tensor:
        kept.append(made(z, parts).fill_(float("nan")))
        return kept[-1]

    monkeypatch.setattr(product, "scratch", scratch)
    return kept


def signs(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw from -1, 0 and 1: sums of up to 256 products are exact in bf16, too."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-1, 2, shape, generator=generator).to(dtype)


def reals(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw numbers whose sums depend on their order."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def added(sums: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Add parts from left to right in fp32, then a bias, and round once."""
    total = torch.zeros_like(sums.select(-3, 0))
    for part in sums.unbind(-3):
        total = total + part
    return (total if bias is None else total + bias.float()).to(dtype)


def layouts(x: Tensor) -> Iterator[Tensor]:
    """Yield matrices as they are, transposed in memory, and spread over every other column."""
    yield x
    yield x.mT.contiguous().mT
    wide = torch.full((*x.shape[:-1], 2 * x.shape[-1] + 1), float("nan"), dtype=x.dtype)
    wide[..., 1::2] = x
    yield wide[..., 1::2]


@pytest.mark.parametrize("dtype", split_k.PARTS)
@pytest.mark.parametrize("batch", [1, 3, 64, 128])
@pytest.mark.parametrize("m", [0, 1, 64, 65, 1000])
@pytest.mark.parametrize("k", [0, 1, 255, 256, 1023, 1024, 2049, 5000, 65536, 2**23 + 1])
def test_an_axis_is_cut_by_shapes_and_constants(batch: int, m: int, k: int, dtype: str) -> None:
    parts, length = split_k.cut(batch, m, 70, k, dtype)
    squares, least = batch * -(-m // 64) * 2, split_k.PARTS[dtype]
    if parts == 1:
        assert length == k
        assert k < 2 * least or not 0 < squares <= 128
        return
    assert k >= 2 * least
    assert length % split_k.STEP == 0
    assert length >= least
    assert (parts - 1) * length < k <= parts * length
    assert parts * squares <= split_k.PROGRAMS


def test_few_tiles_of_a_long_axis_fill_a_gpu() -> None:
    assert split_k.cut(1, 64, 64, 65536, "bf16") == (128, 512)
    assert split_k.cut(1, 64, 64, 65536, "fp32") == (256, 256)
    assert split_k.cut(1, 128, 1024, 1024, "fp32") == (8, 128)
    assert split_k.cut(1, 512, 1024, 65536, "fp32") == (2, 32768)
    assert split_k.cut(1, 512, 1088, 65536, "fp32") == (1, 65536)


def test_every_tile_walks_whole_steps() -> None:
    for there in tiles.TABLE.values():
        assert all(split_k.STEP % tile.inner == 0 for tile in there if tile is not None)


def agrees(op: str, x: Tensor, y: Tensor, g: Tensor) -> None:
    """Compare a product and its gradients with those of fp64, in which integers are exact."""
    z, saved = OPS[op].value(x, y)
    wide = x.double(), y.double(), g.double()
    truth = wide[0] @ wide[1], wide[2] @ wide[1].mT, wide[0].mT @ wide[2]
    for found, wanted in zip((z, *OPS[op].vjp(saved, g, (True, True))), truth, strict=True):
        assert found.dtype is x.dtype
        assert torch.equal(found.double(), wanted)


@pytest.mark.parametrize("size", [(3, 130, 5), (16, 136, 40), (45, 66, 70)])
def test_matmul_in_parts_and_its_vjp(
    size: tuple[int, int, int], short: None, sums: list[Tensor]
) -> None:
    m, k, n = size
    x, y, g = signs(m, k), signs(k, n), signs(m, n)
    for xs, ys, gs in zip(layouts(x), [*layouts(y)][::-1], layouts(g), strict=True):
        agrees("matmul", xs, ys, gs)
    assert [one.shape[0] for one in sums] == [-(-c // 64) for c in (k, n, m) if c > 64] * 3


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_a_result_of_several_tiles_walks_parts(
    dtype: torch.dtype, short: None, sums: list[Tensor]
) -> None:
    agrees("matmul", *(signs(*s, dtype=dtype) for s in ((128, 192), (192, 128), (128, 128))))
    assert [one.shape[0] for one in sums] == [3, 2, 2]


def test_what_takes_the_large_tile_has_no_parts() -> None:
    """So that no kernel is made for parts of it: as many tiles are more squares than are cut."""
    for (_, dtype), there in tiles.TABLE.items():
        for rows in range(1, tiles.ENOUGH + 1):
            columns = -(-tiles.ENOUGH // rows)
            # The fewest squares of so many tiles: the last row and column of them hold one entry.
            m, n = (
                max(tiles.FULL, (count - 1) * size + 1)
                for count, size in ((rows, there.large.rows), (columns, there.large.columns))
            )
            assert split_k.cut(1, m, n, split_k.LONG, dtype)[0] == 1


@pytest.mark.parametrize("size", [(5, 130, 7), (16, 72, 24)])
def test_bmm_in_parts_and_its_vjp(
    size: tuple[int, int, int], short: None, sums: list[Tensor]
) -> None:
    m, k, n = size
    x, y, g = (signs(3, *s) for s in ((m, k), (k, n), (m, n)))
    for xs, ys, gs in zip(layouts(x), [*layouts(y)][::-1], layouts(g), strict=True):
        agrees("bmm", xs, ys, gs)
    assert [one.shape[:2] for one in sums] == [(3, -(-k // 64))] * 3


@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_in_parts_and_its_vjp(dtype: torch.dtype, short: None, sums: list[Tensor]) -> None:
    op = OPS["linear"]
    x, w, b = signs(2, 35, 130, dtype=dtype), signs(7, 130, dtype=dtype), signs(14, dtype=dtype)
    g = signs(2, 35, 7, dtype=dtype)
    inputs = [t.double().requires_grad_() for t in (x, w, b[::2])]
    truth = torch.nn.functional.linear(*inputs)
    z, saved = op.value(x, w, b[::2])
    assert torch.equal(z.double(), truth.detach())
    gradients = torch.autograd.grad(truth, inputs, g.double())
    for found, wanted in zip(op.vjp(saved, g, (True, True, True)), gradients, strict=True):
        assert torch.equal(found.double(), wanted)
    assert [one.shape[0] for one in sums] == [3, 2]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n"), [(5, 7), (16, 24)])
def test_parts_are_added_from_left_to_right(
    m: int, n: int, dtype: torch.dtype, short: None, sums: list[Tensor]
) -> None:
    k, b = 64 * 11 + 8, reals(n, dtype=dtype)
    x, w = reals(m, k, dtype=dtype), reals(n, k, dtype=dtype)
    z, _ = OPS["linear"].value(x, w, b)
    (kept,) = sums
    assert kept.shape == (12, m, n)
    assert torch.equal(z, added(kept, b, dtype))
    assert not torch.equal(added(kept, b, torch.float32), added(kept.flip(0), b, torch.float32))
    y, _ = OPS["bmm"].value(x.expand(2, m, k), w.t().expand(2, k, n))
    assert torch.equal(y, added(sums[1], None, dtype))


@pytest.mark.parametrize(("m", "n"), [(5, 7), (16, 24)])
def test_a_part_is_the_product_of_its_terms(
    m: int, n: int, short: None, sums: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = reals(m, 200), reals(200, n)
    product.product(x, y)
    (kept,) = sums
    monkeypatch.undo()
    for part, (begin, end) in zip(kept, pairwise((0, 64, 128, 192, 200)), strict=True):
        assert torch.equal(part, product.product(x[:, begin:end], y[begin:end]))


@pytest.mark.parametrize("name", ["matmul", "bmm"])
def test_a_sum_is_tall_from_two_parts_on(name: str, sums: list[Tensor]) -> None:
    for k, parts in ((255, 1), (256, 2), (400, 3)):
        x, y = signs(2, k), signs(k, 3)
        given = (x, y) if name == "matmul" else (x[None], y[None])
        z, _ = OPS[name].value(*given)
        assert torch.equal(z.reshape(2, 3), x @ y)
        assert (sums.pop().shape[-3] if sums else 1) == parts


def test_infinities_and_nan_of_a_part_arrive(short: None) -> None:
    x, y = torch.ones(2, 200), torch.ones(200, 3)
    x[0, 150] = float("inf")
    x[1, 3], x[1, 199] = float("inf"), float("-inf")
    z, _ = OPS["matmul"].value(x, y)
    assert torch.equal(z[0], torch.full((3,), float("inf")))
    assert z[1].isnan().all()
