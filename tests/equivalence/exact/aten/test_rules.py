"""Each rule says what torch does: on numbers whose results fp64 holds, both give the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as functional
from torch import Tensor

from equivalence.exact.aten.mode import ExactFunctions
from equivalence.exact.aten.rules import rules_of_torch
from equivalence.exact.memory import Memory
from equivalence.exact.standins import stood_in
from spec.scalar import OpenFunction
from spec.worlds import EXACT_POINTS

Call = Callable[[Tensor, Tensor], Any]

NEW = torch.tensor([0, 2, 0, 1])


def at(function: OpenFunction, point: int, result: int, x: Tensor, y: Tensor) -> Tensor:
    """Call a function where the stand-in is the truth."""
    found: Tensor = getattr(torch, function.name)(x * 0 + point)
    return found


CALLS: dict[str, Call] = {
    "add": lambda x, y: torch.add(x, y, alpha=0.5),
    "sub": lambda x, y: x - 2 * y,
    "rsub": lambda x, y: torch.rsub(x, y, alpha=3),
    "mul": lambda x, y: x * y[0],
    "div": lambda x, y: x / y,
    "neg": lambda x, y: -x,
    "abs": lambda x, y: abs(x),
    "square": lambda x, y: x.square(),
    "reciprocal": lambda x, y: 1 / y,
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=-1),
    "addcdiv": lambda x, y: torch.addcdiv(x, x, y, value=2),
    "lerp": lambda x, y: torch.lerp(x, y, 0.25),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "relu": lambda x, y: x.relu(),
    "gelu_backward": lambda x, y: tuple(
        torch.ops.aten.gelu_backward(y, 0 * x, approximate=way) for way in ("none", "tanh")
    ),
    "threshold_backward": lambda x, y: torch.ops.aten.threshold_backward(y, x, 1.0),
    "clamp": lambda x, y: (x.clamp(-1, 2), x.clamp(max=0.5)),
    "clamp_min": lambda x, y: x.clamp_min(1),
    "clamp_max": lambda x, y: x.clamp_max(1),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "masked_fill": lambda x, y: x.masked_fill(y > 1, -7.0),
    "copy": lambda x, y: torch.empty_like(x).copy_(y[0]),
    "_to_copy": lambda x, y: (x.float() + x, x.to(torch.int64), (x == 0).double() * y),
    "fill": lambda x, y: x.fill_(0.5) + y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= 1,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= 1,
    "sign": lambda x, y: x.sign(),
    "sgn": lambda x, y: x.sgn(),
    "isnan": lambda x, y: torch.isnan(x / (x * 0)),
    "isinf": lambda x, y: torch.isinf(x / (x * 0)),
    "isfinite": lambda x, y: torch.isfinite(x / (x * 0)),
    "logical_not": lambda x, y: x.logical_not(),
    "sum": lambda x, y: (x.sum(), x.sum(0), x.sum((0, 1), keepdim=True), x[:0].sum(0)),
    "mean": lambda x, y: (x.mean(), x.mean(1, keepdim=True)),
    "var": lambda x, y: (y.var(1, unbiased=False), x[:2].var(0), y.var(1, False, True)),
    "var_mean": lambda x, y: torch.var_mean(y[:, :2], 1, keepdim=True),
    "std": lambda x, y: torch.stack((x, x), 2).std(2, unbiased=False),
    "amax": lambda x, y: (x.amax(), x.amax(1), x.amax((0, 1), keepdim=True)),
    "amin": lambda x, y: x.amin(0),
    "aminmax": lambda x, y: torch.aminmax(x, dim=1),
    "max": lambda x, y: (x.max(), x.max(1), x.max(0, keepdim=True)),
    "min": lambda x, y: (x.min(), x.min(1)),
    "argmax": lambda x, y: (x.argmax(), x.argmax(1, keepdim=True)),
    "argmin": lambda x, y: x.argmin(0),
    "prod": lambda x, y: (x.prod(), x.prod(1)),
    "cumsum": lambda x, y: x.cumsum(1),
    "cumprod": lambda x, y: x.cumprod(0),
    "mm": lambda x, y: (x @ y.T, x[:, :0] @ y[:, :0].T),
    "bmm": lambda x, y: x[None] @ y.T[None],
    "mv": lambda x, y: x @ y[0],
    "dot": lambda x, y: x[0] @ y[1],
    "addmm": lambda x, y: functional.linear(x, y, x[:, 0]),
    "baddbmm": lambda x, y: torch.baddbmm(x[None, :, :3], x[None], y.T[None], beta=2, alpha=3),
    "index_add": lambda x, y: torch.index_add(x, 1, NEW, y, alpha=2),
    "scatter": lambda x, y: x.scatter(1, NEW[None], 5.0).scatter(0, NEW[None] % 3, y),
    "scatter_add": lambda x, y: x.scatter_add(1, NEW.expand(3, 4), y),
    "index_put": lambda x, y: (
        torch.index_put(x, (NEW[:3],), y), torch.ops.aten.index_put(x, [None, NEW], y, True)
    ),
    "_unsafe_index_put": lambda x, y: torch.ops.aten._unsafe_index_put(x, [NEW[:3]], y),
    "_index_put_impl": lambda x, y: torch.ops.aten._index_put_impl_(x.clone(), [NEW[:3]], y),
    **{function.name: partial(at, function, *point) for function, point in EXACT_POINTS.items()},
    "expm1": lambda x, y: (x * 0).expm1(),
    "log1p": lambda x, y: (x * 0).log1p(),
    "sqrt": lambda x, y: (x * x).sqrt(),
    "rsqrt": lambda x, y: (y * y).rsqrt(),
    "pow": lambda x, y: (x**3, y**-2, (y * y) ** 0.5, (y * y) ** -1.5),
    "_softmax": lambda x, y: torch.softmax(x * 0, 1),
    "_log_softmax": lambda x, y: torch.log_softmax(x[:, :1], 1),
}  # fmt: skip

MORE: dict[str, Call] = {
    "taken apart": lambda x, y: (
        functional.mse_loss(x, y), functional.leaky_relu(x, 0.5), torch.linalg.vector_norm(x, 1),
        functional.l1_loss(x, y, reduction="sum"), functional.hardtanh(x),
    ),
    "moved": lambda x, y: (
        torch.cat((x, y.flip(0)), 1)[:, ::2].T, x.gather(1, NEW[None]), x[NEW[:2]].unfold(1, 2, 1)
    ),
    "in place": lambda x, y: x[:, 1:].mul_(y[:, 1:]).sub_(1).relu_(),
    "out": lambda x, y: torch.mul(x, y, out=torch.empty(4, 3, dtype=x.dtype).T),
    "told": lambda x, y: x * x.sum().item(),
}  # fmt: skip


def entries() -> tuple[Tensor, Tensor]:
    """Return integers, and powers of 2, by which quotients are exact; no two axes are alike."""
    x = torch.tensor([[3, -1, 0, 2], [1, 4, -2, 0], [-5, 1, 1, 6]], dtype=torch.float64)
    y = torch.tensor([[1, 2, -4, 8], [2, -1, 1, 4], [8, 4, 2, -2]], dtype=torch.float64)
    return x, y


def flat(found: Any) -> list[Tensor]:
    return [part for x in found for part in flat(x)] if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("name", [*CALLS, *MORE])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["fp64", "fp32"])
def test_a_rule_says_what_torch_does(name: str, dtype: torch.dtype) -> None:
    call = {**CALLS, **MORE}[name]
    wanted = flat(call(*(x.to(dtype) for x in entries())))
    memory = Memory()
    x, y = (x.to(dtype) for x in entries())
    with stood_in() as rules, ExactFunctions(memory, rules):
        found = flat(call(x, y))
    assert len(found) == len(wanted)
    for here, there in zip(found, wanted, strict=True):
        assert (here.dtype, here.shape, here.stride()) == (there.dtype, there.shape, there.stride())
        if here.is_floating_point():
            numbers = [float(x) for x in memory.read(here)]
            here = torch.tensor(numbers, dtype=dtype).reshape(there.shape)
        assert torch.equal(here, there), f"{here} is not {there}"


def test_every_rule_is_tried() -> None:
    with stood_in() as rules:
        assert set(CALLS) == set(rules_of_torch(rules))
