"""Guard arenas: nobody reads or writes outside a tensor unnoticed."""

from __future__ import annotations

import math

import pytest
import torch

from equivalence.cases.guard import BAND, LAYOUTS, Trespass, controlled, core_shape, guard, place

SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (5,), (0,), (3, 4), (2, 0), (2, 3, 4), (1, 1))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_a_layout_changes_the_memory_and_not_the_numbers(
    layout: str, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    stored = core_shape(shape, layout)
    values = list(range(math.prod(stored)))
    item = guard(values, shape, dtype, layout)
    expected = torch.tensor(values, dtype=dtype).reshape(stored).expand(shape)
    assert torch.equal(item.view, expected)
    assert item.numbers() == values
    item.check("input 0")


def test_layouts_are_what_their_names_say() -> None:
    assert place((3, 4), "contiguous").strides == (4, 1)
    assert place((3, 4), "offset") == place((3, 4), "offset")
    assert place((3, 4), "offset").offset % 4 != 0
    assert place((3, 4), "padded").strides[0] > 4
    assert place((3, 4), "strided").strides == (8, 2)
    assert place((3, 4), "transposed").strides == (1, 3)
    assert place((3, 4), "expanded").strides[0] == 0
    assert place((3, 4), "broadcast").strides[1] == 0
    with pytest.raises(ValueError, match="unknown layout 'diagonal'"):
        place((3, 4), "diagonal")


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [
        (torch.float32, torch.int32),
        (torch.bfloat16, torch.int16),
        (torch.float16, torch.int16),
        (torch.float64, torch.int64),
    ],
)
def test_not_every_nan_has_the_same_bits(dtype: torch.dtype, bits: torch.dtype) -> None:
    values = [math.nan, 1.0, math.nan, math.nan, -math.inf, math.nan, math.nan]
    item = guard(values, (7,), dtype, "strided")
    nans = [k for k, x in enumerate(values) if math.isnan(x)]
    assert item.view.isnan().nonzero().reshape(-1).tolist() == nans
    held = item.view.contiguous().view(bits)[nans].tolist()
    most = torch.iinfo(bits).max
    assert (held[1], held[3]) == (most, -1)
    assert held[0] == held[2] == held[4] and held[0] not in (most, -1)
    item.check("input 0")


def test_bands_and_gaps_hold_nan() -> None:
    item = guard([1.0, 2.0], (2,), torch.float32, "strided")
    assert item.base.isnan().sum() == item.base.numel() - 2
    assert item.base.numel() >= 2 * BAND + 3
    indices = guard([1, 2], (2,), torch.int64, "strided")
    assert int((indices.base > 2**60).sum()) == indices.base.numel() - 2


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (BAND + 4, "2 elements overwritten, the first one 2 past the tensor's end"),
        (BAND - 1, "2 elements overwritten, the first one 1 before the tensor"),
        (BAND + 1, "2 elements of its own memory overwritten, the first at offset 1"),
    ],
)
def test_a_write_is_found_and_located(where: int, said: str) -> None:
    item = guard([1.0, 2.0, 3.0], (3,), torch.float32, "contiguous")
    item.base[where : where + 2] = 7.0
    with pytest.raises(Trespass, match=said):
        item.check("input 0")


def test_a_write_of_another_nan_is_found() -> None:
    item = guard([1.0], (1,), torch.float32, "contiguous")
    item.base[:1] = -item.base[:1]
    with pytest.raises(Trespass, match="before the tensor"):
        item.check("input 0")


def test_fresh_memory_is_poisoned_inside_the_block_only() -> None:
    before = torch.are_deterministic_algorithms_enabled()
    with controlled():
        assert torch.empty(100).isnan().all()
        assert torch.empty_like(torch.ones(3, 4, dtype=torch.bfloat16)).isnan().all()
        assert int(torch.empty(1, dtype=torch.int64)) == torch.iinfo(torch.int64).max
    assert torch.are_deterministic_algorithms_enabled() == before
