"""Matrix products of small integers, where every sum is exact in any order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from fast.errors import Rejected, Unavailable
from fast.kernels import product
from fast.ops import OPS

pytestmark = pytest.mark.usefixtures("one_is_enough")

PROVIDERS = ("triton", "aten")
DTYPES = (torch.float32, torch.bfloat16)
SIZES = [
    (1, 1, 1), (0, 3, 2), (2, 3, 0), (2, 0, 3), (0, 0, 0), (3, 5, 7), (1, 130, 1),
    (65, 33, 63), (64, 64, 64), (16, 72, 40), (128, 64, 128), (136, 72, 144), (129, 65, 130),
]  # fmt: skip


def signs(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw from -1, 0 and 1: sums of up to 256 products are exact in bf16, too."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-1, 2, shape, generator=generator).to(dtype)


def layouts(x: Tensor) -> Iterator[Tensor]:
    """Yield one matrix as it is, transposed in memory, and spread over every other column."""
    yield x
    yield x.t().contiguous().t()
    wide = torch.full((x.shape[0], 2 * x.shape[1] + 1), float("nan"), dtype=x.dtype)
    wide[:, 1::2] = x
    yield wide[:, 1::2]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("size", SIZES)
def test_matmul_and_its_vjp(size: tuple[int, int, int], provider: str, dtype: torch.dtype) -> None:
    m, k, n = size
    value, vjp = OPS["matmul"].hosts(provider)
    x, y, g = signs(m, k, dtype=dtype), signs(k, n, dtype=dtype), signs(m, n, dtype=dtype)
    truth = x.double() @ y.double(), g.double() @ y.double().t(), x.double().t() @ g.double()
    for xs, ys, gs in zip(layouts(x), [*layouts(y)][::-1], layouts(g), strict=True):
        OPS["matmul"].check(xs, ys)
        z, saved = value(xs, ys)
        for found, wanted in zip((z, *vjp(saved, gs, (True, True))), truth, strict=True):
            assert found.dtype is dtype
            assert torch.equal(found.double(), wanted)
    assert vjp(saved, g, (False, False)) == (None, None)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_repeated_cotangent_is_read_by_its_strides(provider: str) -> None:
    value, vjp = OPS["matmul"].hosts(provider)
    x, y = signs(130, 70), signs(70, 128)
    _, saved = value(x, y)
    dx, dy = vjp(saved, torch.tensor(2.0).expand(130, 128), (True, True))
    assert torch.equal(dx, 2 * y.sum(1).expand(130, 70))
    assert torch.equal(dy, 2 * x.sum(0)[:, None].expand(70, 128))


def test_strides_have_64_bits() -> None:
    x = torch.ones(5).as_strided((1, 5), (2**40, 1))
    y = torch.ones(5).as_strided((5, 1), (1, 2**40))
    z, _ = OPS["matmul"].value(x, y)
    assert z.item() == 5


@pytest.mark.parametrize("provider", PROVIDERS)
def test_sums_of_bf16_are_fp32(provider: str) -> None:
    x = torch.ones(1, 257, dtype=torch.bfloat16)
    x[0, 0] = 256
    z, _ = OPS["matmul"].hosts(provider)[0](x, torch.ones(257, 1, dtype=torch.bfloat16))
    assert z.item() == 512


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("lead", [(), (1,), (5,), (2, 3, 4), (2, 0), (130,)])
def test_linear_and_its_vjp(lead: tuple[int, ...], provider: str, dtype: torch.dtype) -> None:
    value, vjp = OPS["linear"].hosts(provider)
    x, w, b = signs(*lead, 9, dtype=dtype), signs(7, 9, dtype=dtype), signs(7, dtype=dtype)
    g = signs(*lead, 7, dtype=dtype)
    inputs = [t.double().requires_grad_() for t in (x, w, b)]
    truth = torch.nn.functional.linear(*inputs)
    gradients = torch.autograd.grad(truth, inputs, g.double())
    OPS["linear"].check(x, w, b)
    z, saved = value(x, w.t().contiguous().t(), b)
    assert torch.equal(z.double(), truth.detach())
    for found, wanted in zip(vjp(saved, g, (True, True, True)), gradients, strict=True):
        assert found.dtype is dtype
        assert torch.equal(found.double(), wanted)
    assert vjp(saved, g, (False, False, False)) == (None, None, None)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_linear_of_no_inputs_is_its_bias(provider: str) -> None:
    b = signs(3)
    z, saved = OPS["linear"].hosts(provider)[0](torch.empty(2, 0), torch.empty(3, 0), b)
    assert torch.equal(z, b.expand(2, 3))
    dx, dw, db = OPS["linear"].hosts(provider)[1](saved, torch.ones(2, 3), (True, True, True))
    assert dx.shape == (2, 0)
    assert dw.shape == (3, 0)
    assert torch.equal(db, torch.full((3,), 2.0))


@pytest.mark.parametrize("shape", [(1, 2, 1), (1, 2, 3), (5, 2, 1), (64, 64, 128), (3, 700, 5)])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_bias_is_added_last(shape: tuple[int, int, int], provider: str) -> None:
    m, k, n = shape
    b = torch.full((n,), 2.0**24)
    z, _ = OPS["linear"].hosts(provider)[0](torch.ones(m, k), torch.ones(n, k), b)
    assert torch.equal(z, torch.full((m, n), 2.0**24 + k))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_bias_may_lie_anyhow(dtype: torch.dtype) -> None:
    x, w, numbers = signs(3, 16, dtype=dtype), signs(8, 16, dtype=dtype), signs(17, dtype=dtype)
    for b in (numbers[:8], numbers[1:9], numbers[:16:2], numbers[1::2], numbers[:1].expand(8)):
        z, _ = OPS["linear"].value(x, w, b)
        assert torch.equal(z.double(), x.double() @ w.double().t() + b.double())
        inside = product._in_steps(b)
        assert inside.is_contiguous() and inside.data_ptr() % 16 == 0
        assert torch.equal(inside, b)
    assert product._in_steps(numbers) is numbers


def test_the_session_may_allow_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def launch(kernel: Any, grid: Any, *args: Any, **meta: Any) -> None:
        asked.append(meta["PRECISION"])

    monkeypatch.setattr(product, "launch", launch)
    x = torch.ones(2, 2)
    token = product.TF32.set(True)
    _, saved = OPS["matmul"].value(x, x)
    OPS["matmul"].value(x.bfloat16(), x.bfloat16())
    product.TF32.reset(token)
    OPS["matmul"].vjp(saved, x, (True, False))
    OPS["matmul"].value(x, x)
    assert asked == ["tf32", "ieee", "tf32", "ieee"]


def laid(rows: int, columns: int, along: int) -> Tensor:
    """Draw a matrix whose entries lie one by one along an axis, and in steps of 48 else."""
    if along == 0:
        return laid(columns, rows, 1).t()
    whole = torch.full((rows, 48), float("nan"))
    whole[:, :columns] = signs(rows, columns)
    return whole[:, :columns]


@pytest.mark.parametrize(
    ("size", "along", "unit"),
    [
        ((45, 48, 48), (1, 1), 4), ((45, 48, 48), (1, 0), 4), ((45, 48, 48), (0, 1), 1),
        ((48, 45, 48), (0, 1), 4), ((48, 45, 48), (1, 1), 1), ((48, 45, 48), (0, 0), 1),
        ((48, 48, 45), (1, 0), 1), ((45, 45, 48), (1, 1), 1),
    ],
)  # fmt: skip
def test_only_extents_along_loads_and_stores_are_whole_steps(
    size: tuple[int, int, int], along: tuple[int, int], unit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[int] = []
    launch = product.launch

    def launched(kernel: Any, grid: Any, *args: Any, **meta: Any) -> None:
        met.append(meta["UNIT"])
        launch(kernel, grid, *args, **meta)

    monkeypatch.setattr(product, "launch", launched)
    (m, k, n), (x_along, y_along) = size, along
    x, y = laid(m, k, x_along), laid(k, n, y_along)
    z, _ = OPS["matmul"].value(x, y)
    assert met == [unit]
    assert torch.equal(z, x @ y)


def test_dtypes_are_refused() -> None:
    x, b = torch.ones(2, 3), torch.ones(2)
    with pytest.raises(Rejected, match="matmul: inputs have one dtype"):
        OPS["matmul"].check(x, x.t().double())
    with pytest.raises(Rejected, match="linear: inputs have one dtype"):
        OPS["linear"].check(x, x.bfloat16(), b)
    with pytest.raises(Rejected, match="linear: inputs are float32"):
        OPS["linear"].check(x.int(), x.int(), b.int())
    with pytest.raises(Unavailable, match="float64"):
        OPS["matmul"].value(x.double(), x.t().double())
