"""A session of one precision in which a cast makes refs of another."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from fast import CompiledSession, Rejected, Session, Unavailable
from fast.autodiff import hvp
from fast.device.bridge import round_number
from fast.ref import Ref

KINDS = (Session, CompiledSession)
X = torch.tensor([[0.5, -1.25, 3.0], [2.0, 0.75, -0.5]])


def program(ops: Any, w: Ref, x: Ref, labels: Any) -> Ref:
    """Score in 16 bits, and take the loss in 32."""
    return ops.cross_entropy(ops.cast(ops.matmul(x, w), to="fp32"), labels) * 0.1  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_of_32_bits_trains_weights_of_16(kind: Any) -> None:
    """Each part gives to the bit what it gives in a session of its own precision."""
    s = kind(provider="aten", precision="bf16")
    weight = torch.linspace(-1.0, 1.0, 12).reshape(3, 4)
    w, labels = s.param(weight), torch.tensor([3, 0])
    loss = s.run(program, [w], [X, labels])
    narrow, wide = Session("aten", "bf16"), Session("aten", "fp32")
    leaf = narrow.use(narrow.param(weight))
    scores = narrow.matmul(narrow.input(X), leaf)
    above = wide.input(narrow.value(scores), requires_grad=True)
    expected = wide.cross_entropy(above, labels) * 0.1
    assert s.value(loss).dtype is torch.float32
    assert torch.equal(s.value(loss), wide.value(expected))
    seed = wide.grad(wide.backward(expected), above).bfloat16()
    due = narrow.grad(narrow.backward(scores, seed=seed), leaf)
    assert torch.equal(s.grad(s.backward(loss), w), due)


def test_a_number_beside_a_ref_has_its_dtype() -> None:
    s = Session(provider="aten", precision="bf16")
    wide = s.cast(s.input([1.0, 2.0]), to="fp32")
    assert s.value(wide * 0.1).tolist() == (torch.tensor([1.0, 2.0]) * 0.1).tolist()
    assert s.value(1.0 / wide).dtype is torch.float32


def test_refs_of_two_dtypes_do_not_mix() -> None:
    s = Session(provider="aten", precision="bf16")
    x = s.input(X)
    wide = s.cast(x, to="fp32")
    for mixed in (lambda: x + wide, lambda: s.mul(wide, x), lambda: s.concat(x, wide, axis=0)):
        with pytest.raises(Rejected, match=r"inputs have one dtype"):
            mixed()
    assert s.value(s.cast(wide, to="bf16") + x).dtype is torch.bfloat16


def test_what_a_format_cannot_hold() -> None:
    s = Session(provider="aten", precision="fp32")
    x = s.input([1e6, 1e-9, math.nan, -0.0, 1.0 + 2.0**-12])
    found = s.value(s.cast(x, to="fp16")).tolist()
    assert found[:2] == [math.inf, 0.0] and math.isnan(found[2])
    assert math.copysign(1.0, found[3]) == -1.0 and found[4] == 1.0
    assert s.value(s.cast(x, to="fp64")).dtype is torch.float64


def test_what_is_no_format_is_refused() -> None:
    s = Session(provider="aten", precision="fp32")
    for wrong in ("float32", None, torch.float16, ["fp32"]):
        with pytest.raises(Rejected, match=r"^cast C1: `to` is one of fp32, bf16, fp16, fp64, got"):
            s.cast(s.input(X), to=wrong)


def test_the_kernels_write_no_64_bits() -> None:
    s = Session(provider="triton", precision="fp32", device="cpu")
    with pytest.raises(Unavailable, match=r"^cast: no Triton kernel writes fp64"):
        s.cast(s.input(X), to="fp64")
    assert s.value(s.cast(s.input(X), to="fp16")).tolist() == X.tolist()


@pytest.mark.parametrize("narrow", ["bf16", "fp16"])
def test_a_pass_starts_at_a_one_of_the_results_dtype(narrow: str) -> None:
    """The session's own one is of another dtype, and would stay so up to the cast."""
    s = Session("aten", "fp32")
    h = s.cast(s.input([1.0, 2.0, 3.0], requires_grad=True), to=narrow)
    loss = s.sum(h)
    with s.backward_dense(loss) as grads:
        for ref in (loss, h):
            assert grads[ref].tensor.dtype is ref.dtype
            assert grads[ref].tensor.tolist() == torch.ones(ref.shape).tolist()


def test_a_second_derivative_starts_at_a_one_of_the_results_dtype() -> None:
    """It is, to the bit, that of a session whose numbers all have the dtype of the cast."""
    x, v = [[1.1, 0.3, -2.7]], [[0.7, -1.3, 0.9]]

    def cubes(ops: Any, x: Ref) -> Any:
        narrow = ops.cast(x, to="fp16")
        return ops.sum(narrow * narrow * narrow)

    found, due = (hvp(cubes, x, v, precision=precision)[0] for precision in ("fp32", "fp16"))
    assert torch.equal(found, due.to(torch.float32))


BESIDE_TIES = [1.0 + 2.0**-8 + 2.0**-40, 1.0 + 2.0**-11 + 2.0**-40, 1.0 + 3 * 2.0**-8 - 2.0**-40]
"""Numbers of fp64 that a first rounding to fp32 makes ties of bf16, or of fp16."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("to", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_what_is_64_bits_wide_is_rounded_once(kind: Any, to: str, dtype: torch.dtype) -> None:
    s = kind(provider="aten", precision="fp64")

    def narrowed(ops: Any, x: Ref) -> Ref:
        return ops.cast(x, to=to)  # type: ignore[no-any-return]

    found = s.value(s.run(narrowed, [], [torch.tensor(BESIDE_TIES, dtype=torch.float64)]))
    assert found.tolist() == [round_number(x, dtype) for x in BESIDE_TIES]


@pytest.mark.parametrize(
    ("precision", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)]
)
def test_a_cotangent_of_64_bits_is_rounded_once(precision: str, dtype: torch.dtype) -> None:
    s = Session(provider="aten", precision=precision)
    x = s.input([1.0, 2.0, 3.0], requires_grad=True)
    seed = torch.tensor(BESIDE_TIES, dtype=torch.float64)
    found = s.grad(s.backward(s.cast(x, to="fp64"), seed=seed), x)
    assert found.tolist() == [round_number(one, dtype) for one in BESIDE_TIES]


def test_a_tangent_passes_a_cast_of_64_bits() -> None:
    def cubes(ops: Any, x: Ref) -> Any:
        narrow = ops.cast(x, to="bf16")
        return ops.sum(narrow * narrow * narrow)

    x, v = [[1.0, 0.5, -2.0]], [[1.0, -1.0, 0.5]]
    (found,) = hvp(cubes, x, v, precision="fp64")
    assert found.tolist() == [6.0, -3.0, -6.0]
