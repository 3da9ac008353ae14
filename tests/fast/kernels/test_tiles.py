"""Which tile a product takes, by how its operands lie: wide loads wherever addresses allow them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from fast.binaries import driving, ptx_rules
from fast.kernels import product, tiles
from fast.ops import OPS

Calls = Counter[str]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Count the specializations of the product by their tiles, and launch nothing."""
    counts: Calls = Counter()
    chosen = tiles.chosen

    def counted(*given: Any) -> Any:
        found = chosen(*given)
        counts[found[0]] += 1
        return found

    monkeypatch.setattr(tiles, "chosen", counted)
    monkeypatch.setattr(product, "launch", lambda *_, **__: None)
    return counts


def matrix(rows: int, columns: int, layout: str) -> Tensor:
    """Make a matrix of bf16 that lies as it is said."""
    x = torch.zeros(rows, columns, dtype=torch.bfloat16)
    if layout == "transposed":
        return torch.zeros(columns, rows, dtype=torch.bfloat16).t()
    if layout == "padded to 8":
        return torch.zeros(rows, -(-columns // 8) * 8 + 8, dtype=x.dtype)[:, :columns]
    if layout == "padded by 2":
        return torch.zeros(rows, columns + 2, dtype=x.dtype)[:, :columns]
    if layout == "padded by 1":
        return torch.zeros(rows, columns + 1, dtype=x.dtype)[:, :columns]
    if layout == "from the second":
        return torch.zeros(rows * columns + 8, dtype=x.dtype)[2:][: rows * columns].view(x.shape)
    if layout == "from the first":
        return torch.zeros(rows * columns + 8, dtype=x.dtype)[1:][: rows * columns].view(x.shape)
    if layout == "every other":
        return torch.zeros(rows, 2 * columns, dtype=x.dtype)[:, ::2]
    if layout == "repeated":
        return torch.zeros(1, columns, dtype=x.dtype).expand(rows, columns)
    return x


SAMPLE = [
    # The extents of x @ y, how x lies, and the tiles of the value and of the two gradients.
    ((64, 64, 64), "rows", {"small": 3}),
    ((64, 64, 64), "transposed", {"small": 3}),
    ((64, 64, 64), "padded to 8", {"small": 3}),
    ((256, 128, 256), "rows", {"small": 3}),
    ((1536, 64, 1536), "rows", {"large": 1, "small": 2}),
    ((1536, 1536, 1536), "rows", {"large": 3}),
    ((1536, 1536, 1536), "transposed", {"large": 3}),
    ((1408, 1408, 1408), "rows", {"small": 3}),
    ((1408, 1408, 1536), "rows", {"small": 1, "large": 2}),
    ((64, 64, 64), "padded by 2", {"pairs": 2, "small": 1}),
    ((64, 64, 64), "from the second", {"pairs": 2, "small": 1}),
    ((64, 64, 64), "padded by 1", {"single": 2, "small": 1}),
    ((64, 64, 64), "from the first", {"single": 2, "small": 1}),
    ((64, 64, 64), "every other", {"strided": 2, "small": 1}),
    ((64, 64, 64), "repeated", {"strided": 2, "small": 1}),
    ((50, 62, 50), "rows", {"pairs": 3}),
    ((50, 62, 50), "transposed", {"pairs": 3}),
    # An odd number of rows is nothing along which an operand by rows is loaded.
    ((45, 64, 64), "rows", {"small": 3}),
    ((45, 64, 64), "transposed", {"single": 2, "small": 1}),
    ((64, 45, 64), "rows", {"single": 3}),
    ((45, 45, 45), "rows", {"single": 3}),
]


@pytest.mark.parametrize(("extents", "layout", "wanted"), SAMPLE)
def test_a_call_takes_the_widest_loads_that_its_layout_allows(
    extents: tuple[int, int, int], layout: str, wanted: dict[str, int], taken: Calls
) -> None:
    m, k, n = extents
    x, y = matrix(m, k, layout), matrix(k, n, "rows")
    z, saved = OPS["matmul"].value(x, y)
    OPS["matmul"].vjp(saved, z, (True, True))
    assert taken == wanted


def test_a_linear_of_whole_steps_never_loads_single_elements(taken: Calls) -> None:
    x = torch.zeros(4, 16, 64, dtype=torch.bfloat16)
    w, b = torch.zeros(32, 64, dtype=x.dtype), torch.zeros(32, dtype=x.dtype)
    z, saved = OPS["linear"].value(x, w, b)
    OPS["linear"].vjp(saved, z, (True, True, False))
    assert taken == {"small": 3}


def test_the_tiles_of_all_places_of_a_batch_are_counted(taken: Calls) -> None:
    for batch in (127, 128):
        one = torch.zeros(1, 128, 128, dtype=torch.bfloat16)
        OPS["bmm"].value(one.expand(batch, 128, 128), torch.zeros(batch, 128, 128, dtype=one.dtype))
    assert taken == {"small_in_batch": 1, "large": 1}


def test_examples_take_large_tiles_and_leave_no_other_call_to_take_them() -> None:
    before = tiles.ENOUGH
    met = {tiles.ENOUGH for _ in driving.examples("relu")}
    assert met == {1} and before > 1
    assert before == tiles.ENOUGH
    for _ in driving.examples("relu"):
        break
    assert before == tiles.ENOUGH


def test_a_batch_that_is_spread_by_odd_strides_is_read_one_by_one(taken: Calls) -> None:
    batch = torch.zeros(2, 48, 48, dtype=torch.bfloat16)
    odd = torch.zeros(2, 48 * 48 + 1, dtype=batch.dtype)[:, :-1].view(2, 48, 48)
    for x in (batch, odd):
        OPS["bmm"].value(x, batch)
    assert taken == {"small_in_batch": 1, "single": 1}


def allowed(x: Tensor, y: Tensor) -> int:
    """Say how many bytes each load and store may move at once, from all addresses of a product."""
    return next(
        bytes_
        for bytes_ in (16, 4, x.element_size())
        if all(start % bytes_ == 0 for start in addresses(x, y))
    )


def addresses(x: Tensor, y: Tensor) -> Iterator[int]:
    """Yield where each line of the operands and of a fresh result begins and ends, in bytes."""
    size = x.element_size()
    result = torch.empty(x.shape[0], y.shape[1], dtype=x.dtype)
    for operand in (x, y, result):
        lines = operand if operand.stride(1) == 1 else operand.t()
        for line in lines:
            yield from (line.data_ptr(), line.data_ptr() + len(line) * size)


LAYOUTS = ("rows", "transposed", "padded to 8", "padded by 2", "padded by 1", "from the second")


@pytest.mark.parametrize("extents", [*itertools.product((6, 8, 9), (8, 10, 11), (8, 12, 13))])
def test_nothing_narrower_is_taken_than_the_addresses_forbid(
    extents: tuple[int, int, int],
) -> None:
    m, k, n = extents
    for x_layout, y_layout in itertools.product(LAYOUTS, LAYOUTS):
        x, y = matrix(m, k, x_layout), matrix(k, n, y_layout)
        assert tiles.unit_of(x, y) * x.element_size() == allowed(x, y), (x_layout, y_layout)


def test_far_and_long_operands_are_read_by_64_bit_strides() -> None:
    one = torch.zeros(1, 1)
    assert tiles.unit_of(one, one) == 1
    for strides in ((tiles.WIDEST + 1, 1), (1, tiles.WIDEST + 1), (0, 1), (2, 2)):
        assert tiles.unit_of(one.as_strided((1, 1), strides), one) == 0
    for length, unit in ((tiles.WIDEST, 1), (tiles.WIDEST + 1, 0)):
        assert tiles.unit_of(one.to("meta"), torch.empty(1, length, device="meta")) == unit


def test_there_are_tiles_for_every_target_and_dtype() -> None:
    dtypes = ("fp32", "tf32", "bf16", "fp16")
    assert set(tiles.TABLE) == set(itertools.product(ptx_rules.SHARED, dtypes))
    for (_, dtype), there in tiles.TABLE.items():
        assert (there.pairs is None) == (dtype in ("fp32", "tf32"))


def test_no_sum_has_another_order_on_another_target() -> None:
    for dtype in ("fp32", "tf32", "bf16", "fp16"):
        steps = {
            tuple(tile and tile.inner for tile in tiles.TABLE[target, dtype])
            for target in ptx_rules.SHARED
        }
        assert len(steps) == 1, dtype


@pytest.mark.parametrize(
    ("capability", "wanted"),
    [
        ((7, 5), "sm_80"),
        ((8, 0), "sm_80"),
        ((8, 9), "sm_80"),
        ((9, 0), "sm_90"),
        ((12, 0), "sm_90"),
    ],
)
def test_a_gpu_takes_the_tiles_of_the_newest_target_that_is_not_newer(
    capability: tuple[int, int], wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tiles.target() == tiles.NEWEST, "the interpreter's"
    monkeypatch.setattr(tiles, "ring", lambda: "device")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert tiles.target.__wrapped__() == wanted


def lying(rows: int, columns: int, along: int) -> Tensor:
    """Make a matrix of small whole numbers that lies along one of its axes."""
    numbers = (torch.arange(rows * columns) * 7 % 11 - 5).float()
    return numbers.view(rows, columns) if along else numbers.view(columns, rows).t()


TURNED = [
    # Whether tf32 is asked for; the extents of x @ y; how x and y lie; which of them is copied.
    (False, (256, 64, 128), (1, 1), (False, False)),
    (False, (256, 64, 128), (1, 0), (False, True)),
    (False, (256, 64, 128), (0, 0), (False, True)),
    (False, (128, 64, 128), (1, 0), (False, True)),
    (False, (127, 64, 128), (1, 0), (False, False)),
    (False, (256, 32, 128), (1, 0), (False, False)),
    (True, (512, 64, 128), (1, 1), (False, True)),
    (True, (512, 64, 128), (0, 0), (False, False)),
    (True, (128, 64, 512), (0, 0), (True, False)),
    (True, (512, 64, 512), (0, 1), (True, True)),
]


@pytest.mark.parametrize(("tf32", "extents", "along", "wanted"), TURNED)
def test_operands_that_a_gpu_reads_slowly_are_turned_and_stay_the_same_numbers(
    tf32: bool, extents: tuple[int, int, int], along: tuple[int, int], wanted: tuple[bool, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    m, k, n = extents
    x, y = lying(m, k, along[0]), lying(k, n, along[1])
    assert tiles.turns(x, y, tf32) == wanted
    seen: list[tuple[Tensor, Tensor]] = []
    monkeypatch.setattr(product, "launch", lambda _, __, z, x, y, *___, **____: seen.append((x, y)))
    product.product(x, y, tf32)
    product.batched_product(x[None].expand(2, m, k), torch.stack([y.mT, y.mT]).mT, tf32)
    ((left, right), (lefts, rights)) = seen
    assert torch.equal(left, x) and torch.equal(right, y)
    assert torch.equal(lefts[1], x) and torch.equal(rights[1], y)
    assert lefts.stride(0) == 0, "one matrix for all is copied once"
    for operand, given, turned in ((left, x, wanted[0]), (right, y, wanted[1])):
        assert (operand.data_ptr() != given.data_ptr()) == turned
        assert tiles.turns(left, right, tf32) == (False, False)
