"""The product of both sessions, and that of fast.torch, at every rank against torch's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

import fast
import fast.kernels.product as products
import fast.torch
import spec.refusals
from spec.session import Session
from spec.tensor import Tensor as Exact

Shape = tuple[int, ...]

LEADS: tuple[Shape, ...] = ((), (1,), (2,), (1, 2), (3, 1), (3, 2))
"""The axes in front of a matrix: none, of one entry, and of more."""

SENTENCES = (spec.refusals.Rejected, fast.Rejected)


def shapes() -> Iterator[tuple[Shape, Shape]]:
    """Yield the shapes of two operands of every rank up to four that multiply."""
    left: list[Shape] = [(4,), *((*lead, 3, 4) for lead in LEADS)]
    right: list[Shape] = [(4,), *((*lead, 4, 2) for lead in LEADS)]
    yield from product(left, right)
    yield from [((2, 0, 4), (2, 4, 3)), ((0, 2, 4), (4,)), ((2, 3, 0), (2, 0, 4)), ((0,), (0,))]
    yield from [
        ((0, 2, 3), (1, 3, 2)),
        ((1, 2, 3), (0, 3, 2)),
        ((2, 3), (2, 3, 0)),
        ((2,), (0, 2, 1)),
    ]


def small(shape: Shape, seed: int) -> Tensor:
    """Draw integers, whose products and sums are exact in any order."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-4, 5, shape, generator=generator).double()


def truth(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return torch's product, a cotangent, and torch's gradients."""
    x, y = x.clone().requires_grad_(), y.clone().requires_grad_()
    z = torch.matmul(x, y)
    g = small(tuple(z.shape), 7)
    return z.detach(), g, *torch.autograd.grad(z, (x, y), g)


def read(found: Any) -> Tensor:
    """Return a result of either side as torch's."""
    if isinstance(found, Tensor):
        return found.double()
    return torch.tensor(found.data, dtype=torch.float64).reshape(found.shape)


def written(x: Tensor) -> Any:
    """Return a tensor of the reference."""
    return Exact(tuple(x.shape), tuple(x.flatten().tolist()))


def by_session(session: Any, made: Callable[[Tensor], Any], x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the product of `@` and its gradients for the cotangent of `truth`."""
    a = session.input(made(x), requires_grad=True)
    b = session.input(made(y), requires_grad=True)
    z = a @ b
    grads = session.backward(z, made(small(tuple(z.shape), 7)))
    found = [session.value(z), session.grad(grads, a), session.grad(grads, b)]
    return [read(one) for one in found]


@pytest.mark.parametrize(("left", "right"), [*shapes()])
def test_a_product_of_any_ranks_is_torchs(left: Shape, right: Shape) -> None:
    x, y = small(left, 1), small(right, 2)
    z, g, dx, dy = truth(x, y)
    sides = (Session(), written), (fast.Session(provider="aten", precision="fp64"), torch.clone)
    for session, made in sides:
        for found, wanted in zip(by_session(session, made, x, y), (z, dx, dy), strict=True):
            assert found.shape == wanted.shape
            assert torch.equal(found, wanted)
    a, b = x.clone().requires_grad_(), y.clone().requires_grad_()
    ours = fast.torch.matmul(a, b)
    for found, wanted in zip(
        (ours, *torch.autograd.grad(ours, (a, b), g)), (z, dx, dy), strict=True
    ):
        assert found.shape == wanted.shape
        assert torch.equal(found, wanted)


REFUSED: dict[str, tuple[Shape, Shape, str]] = {
    "a single number": ((), (2,), "has an axis at least"),
    "a number behind a batch": ((2, 3, 4), (), "has an axis at least"),
    "inner extents": ((2, 3, 4), (3, 4), "matmul C2: the inner extents are equal"),
    "inner extents of a vector": ((3,), (2, 4, 2), "matmul C2: the inner extents are equal"),
    "batches": ((2, 3, 4), (3, 4, 2), "matmul: the shapes broadcast to a common one"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_multiply_is_refused_and_leaves_no_trace(name: str) -> None:
    left, right, sentence = REFUSED[name]
    x, y = small(left, 1), small(right, 2)
    sides = (Session(), written), (fast.Session(provider="aten", precision="fp64"), torch.clone)
    for session, made in sides:
        a, b = session.input(made(x)), session.input(made(y))
        with pytest.raises(SENTENCES, match=sentence):
            a @ b
        after = session.sum(session.input(made(small((2,), 3))))
        assert after.id == 3
    with pytest.raises(fast.Rejected, match=sentence):
        fast.torch.matmul(x, y)


def test_dtypes_are_refused_before_anything_is_recorded() -> None:
    session = fast.Session(provider="aten")
    x = session.input(torch.ones(2, 3, 4))
    y = session.cast(session.input(torch.ones(2, 4, 2)), to="bf16")
    with pytest.raises(fast.Rejected, match="matmul: inputs have one dtype"):
        x @ y
    assert session.input(torch.ones(1)).id == 3
    with pytest.raises(fast.Rejected, match="bmm: inputs have one dtype"):
        fast.torch.matmul(torch.ones(2, 3, 4), torch.ones(2, 4, 2, dtype=torch.bfloat16))


@pytest.mark.parametrize("shape", [(3, 4), (1, 3, 4), (4,)])
def test_a_shared_operand_is_read_where_it_lies(
    shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Tensor] = []
    own = products.aten_batched_product

    def noted(x: Tensor, y: Tensor, tf32: bool = False) -> Tensor:
        seen.append(x)
        return own(x, y, tf32)

    monkeypatch.setattr("fast.ops.bmm.aten_batched_product", noted)
    x = small(shape, 1)
    z = fast.torch.matmul(x, small((5, 6, 4, 2), 2))
    assert torch.equal(z, torch.matmul(x, small((5, 6, 4, 2), 2)))
    (given,) = seen
    assert given.shape[0] == 30 and given.stride(0) == 0
    assert given.data_ptr() == x.data_ptr()


def test_torchs_check_of_custom_ops_takes_a_shared_operand() -> None:
    x = torch.ones(3, 4).expand(5, 3, 4).requires_grad_()
    y = torch.ones(5, 4, 2, requires_grad=True)
    for provider in ("aten", "triton"):
        found = torch.library.opcheck(torch.ops.twingrad.bmm.default, (x, y, provider))
        assert set(found.values()) == {"SUCCESS"}


def test_a_backward_pass_forms_the_gradients_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    formed: list[int] = []
    own = products.aten_batched_product

    def counted(x: Tensor, y: Tensor, tf32: bool = False) -> Tensor:
        formed.append(x.shape[0])
        return own(x, y, tf32)

    monkeypatch.setattr("fast.ops.bmm.aten_batched_product", counted)
    x, y = small((2, 3, 4), 1).requires_grad_(), small((2, 4, 2), 2).requires_grad_()
    fast.torch.matmul(x, y).sum().backward()  # type: ignore[no-untyped-call]
    assert len(formed) == 3
