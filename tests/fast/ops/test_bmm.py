"""Products of batches of small integers, where every sum is exact in any order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from fast.errors import Rejected
from fast.kernels import product
from fast.ops import OPS

pytestmark = pytest.mark.usefixtures("one_is_enough")

PROVIDERS = ("triton", "aten")
DTYPES = (torch.float32, torch.bfloat16)
SIZES = [
    (1, 1, 1, 1), (0, 2, 3, 4), (3, 0, 3, 2), (3, 2, 3, 0), (2, 2, 0, 3), (5, 3, 5, 7),
    (3, 65, 33, 63), (2, 16, 72, 40), (2, 129, 65, 66), (2, 128, 64, 132),
]  # fmt: skip


def signs(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw from -1, 0 and 1: sums of up to 256 products are exact in bf16, too."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-1, 2, shape, generator=generator).to(dtype)


def layouts(x: Tensor) -> Iterator[Tensor]:
    """Yield a batch as it is, its matrices transposed, its batch innermost, and one for all."""
    yield x
    yield x.transpose(1, 2).contiguous().transpose(1, 2)
    yield x.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    yield x[:1].expand_as(x) if x.shape[0] else x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("size", SIZES)
def test_bmm_and_its_vjp(
    size: tuple[int, int, int, int], provider: str, dtype: torch.dtype
) -> None:
    batch, m, k, n = size
    value, vjp = OPS["bmm"].hosts(provider)
    x, y = signs(batch, m, k, dtype=dtype), signs(batch, k, n, dtype=dtype)
    g = signs(batch, m, n, dtype=dtype)
    for xs, ys, gs in zip(layouts(x), [*layouts(y)][::-1], layouts(g), strict=True):
        OPS["bmm"].check(xs, ys)
        z, saved = value(xs, ys)
        wide = xs.double(), ys.double(), gs.double()
        truth = wide[0] @ wide[1], wide[2] @ wide[1].mT, wide[0].mT @ wide[2]
        for found, wanted in zip((z, *vjp(saved, gs, (True, True))), truth, strict=True):
            assert found.dtype is dtype
            assert torch.equal(found.double(), wanted)
    assert vjp(saved, g, (False, False)) == (None, None)


def test_a_batch_that_is_repeated_is_widened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    widened: list[int] = []

    def wide(x: Tensor) -> Tensor:
        widened.append(x.numel())
        return x.float()

    monkeypatch.setattr(product, "wide", wide)
    x = signs(1, 3, 4, dtype=torch.bfloat16).expand(7, 3, 4)
    y = signs(7, 4, 2, dtype=torch.bfloat16)
    z, _ = OPS["bmm"].aten_value(x, y)
    assert widened == [12, 56]
    assert torch.equal(z.double(), x.double() @ y.double())


def test_strides_of_a_batch_have_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(product, "launch", lambda kernel, grid, *args, **meta: given.append(args))
    x = torch.ones(5).as_strided((1, 2, 2), (2**40, 1, 2))
    OPS["bmm"].value(x, signs(1, 2, 3))
    assert given[0][7] == 2**40


@pytest.mark.parametrize(
    ("step", "unit"), [(48 * 48, 4), (48 * 48 + 4, 4), (48 * 48 + 1, 1), (0, 4)]
)
def test_a_batch_is_aligned_where_its_stride_is(
    step: int, unit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[int] = []
    monkeypatch.setattr(product, "launch", lambda *args, **meta: met.append(meta["UNIT"]))
    x = torch.ones(3 * 48 * 50).as_strided((3, 48, 48), (step, 48, 1))
    OPS["bmm"].value(x, torch.ones(3, 48, 48))
    assert met == [unit]


def test_what_does_not_fit_is_refused() -> None:
    for x, y, rule in (
        (torch.ones(2, 3), torch.ones(3, 2), "bmm C1"),
        (torch.ones(2, 3, 4), torch.ones(1, 4, 2), "bmm C2"),
        (torch.ones(2, 3, 4), torch.ones(2, 3, 4), "bmm C3"),
        (torch.ones(2, 3, 4), torch.ones(2, 4, 2).double(), "bmm: inputs have one dtype"),
    ):
        with pytest.raises(Rejected, match=rule):
            OPS["bmm"].check(x, y)
