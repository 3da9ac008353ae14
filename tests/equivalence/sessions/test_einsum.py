"""Einstein's sums in both sessions and fast.torch, beside torch's on integers, all exact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import fast
import fast.torch
from fast.errors import Unsupported
from spec.op import Rejected
from spec.session import Session
from spec.tensor import Tensor as SpecTensor

DOTS = (2, 3)
"""The extents that an ellipsis stands for."""

EQUATIONS = (
    *("ij,jk->ik", "bij,bjk->bik", "i,j->ij", "ii->", "ij->ji", "ij->", "i,i->", "ij,ij->ij"),
    *("bij,bjk,bk->bi", "iij->ij", "iiij->ij", "abc,cd,bd->a", "ij,kl->ijkl", "ij,j->i", "i->"),
    *("aii,ibb->ab", "i,ij,j->", "ijk->kji", "b i , b i j , b j -> b", "ij,ij,ij->j", "ab,cb->ac"),
    *("...ij,jk->...ik", "...i,...i->...", "...i->...i", "i...,...->i...", "...->..."),
    *("i...i->...", "...ik,...j->ij", "i...->i"),
)


def shapes_of(equation: str, extents: Sequence[int]) -> list[tuple[int, ...]]:
    """Return a shape for each term, letters having extents in the order in which they come."""
    left = equation.replace(" ", "").split("->")[0].replace("...", ".")
    letters = dict(zip(dict.fromkeys(c for c in left if c.isalpha()), extents, strict=False))
    return [
        tuple(n for c in term for n in (DOTS if c == "." else (letters[c],)))
        for term in left.split(",")
    ]


def integers(shapes: Sequence[tuple[int, ...]], seed: int = 0) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randint(-3, 4, shape, generator=draw).float() for shape in shapes]


def read(found: Any) -> Tensor:
    """Return a tensor of either side as torch's."""
    if isinstance(found, Tensor):
        return found
    return torch.tensor(list(found.data), dtype=torch.float32).reshape(tuple(found.shape))


def in_spec(equation: str, inputs: Sequence[Tensor], seed: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return a value and gradients by the reference."""
    session = Session()

    def taken(x: Tensor) -> SpecTensor[Any]:
        return SpecTensor(tuple(x.shape), x.flatten().tolist())

    refs = [session.input(taken(x), requires_grad=True) for x in inputs]
    z = session.einsum(equation, *refs)
    grads = session.backward(z, taken(seed))
    return read(session.value(z)), [read(session.grad(grads, ref)) for ref in refs]


def in_fast(equation: str, inputs: Sequence[Tensor], seed: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return a value and gradients by the device tape, on the host."""
    session = fast.Session(provider="aten")
    refs = [session.input(x, requires_grad=True) for x in inputs]
    z = session.einsum(equation, refs)
    grads = session.backward(z, seed)
    return session.value(z), [session.grad(grads, ref) for ref in refs]


def in_torch(equation: str, inputs: Sequence[Tensor], seed: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return a value and gradients by the function for torch."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    z = fast.torch.einsum(equation, *leaves)
    return z.detach(), [*torch.autograd.grad(z, leaves, seed)]


def check(equation: str, inputs: Sequence[Tensor]) -> None:
    """Compare both sessions and fast.torch with torch, bit by bit: values and gradients."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    want = torch.einsum(equation, *leaves)
    (seed,) = integers([tuple(want.shape)], 1)
    due = torch.autograd.grad(want, leaves, seed, allow_unused=True)
    for run in (in_spec, in_fast, in_torch):
        value, gradients = run(equation, inputs, seed)
        assert torch.equal(value, want.detach()), run.__name__
        for got, g in zip(gradients, due, strict=True):
            assert g is not None and torch.equal(got, g), run.__name__


@pytest.mark.parametrize("equation", EQUATIONS)
@pytest.mark.parametrize("extents", [(2, 3, 4, 2), (1, 2, 1, 3), (3, 0, 2, 2)])
def test_all_sum_as_torch_does(equation: str, extents: tuple[int, ...]) -> None:
    check(equation, integers(shapes_of(equation, extents)))


def test_all_sum_the_samples_of_torchs_own_tests() -> None:
    fast.Session(provider="aten")  # It chooses triton's mode, before torch's tests load triton.
    methods = pytest.importorskip(
        "torch.testing._internal.common_methods_invocations",
        reason="this build of torch comes without the samples of its own tests",
        exc_type=ImportError,
    )
    (info,) = (info for info in methods.op_db if info.name == "einsum")
    samples = [
        (sample.args[0], [tuple(x.shape) for x in sample.input])
        for sample in info.sample_inputs("cpu", torch.float64)
    ]
    assert len(samples) > 9
    for equation, shapes in samples:
        check(equation, integers(shapes))


TERMS = st.lists(st.lists(st.sampled_from("abcd"), max_size=4).map("".join), min_size=1, max_size=3)


@settings(max_examples=60)
@given(TERMS, st.permutations("abcd"), st.lists(st.integers(1, 3), min_size=5, max_size=5))
def test_drawn_equations_sum_as_torch_does(
    terms: list[str], order: list[str], extents: list[int]
) -> None:
    """The last number says how many labels stay, in some order."""
    labels = [label for label in order if label in "".join(terms)]
    equation = f"{','.join(terms)}->{''.join(labels[: extents[-1]])}"
    sizes = dict(zip("abcd", extents, strict=False))
    check(equation, integers([tuple(sizes[c] for c in term) for term in terms]))


WRONG: tuple[tuple[Any, list[tuple[int, ...]], str], ...] = (
    ("ij,jk", [(2, 3), (3, 4)], "einsum E1: an equation names the axes"),
    (3, [(2,)], "einsum E1: an equation names the axes"),
    ("i1->i", [(2, 2)], "einsum E1: a term has letters"),
    ("...i...->i", [(2, 2)], "einsum E1: a term has letters"),
    ("ij->ij", [(2, 2), (2, 2)], "einsum E2: there is a term for each operand"),
    ("ij->i", [(2,)], "einsum E2: a term has a label for each axis"),
    ("i->i", [(2, 2)], "einsum E2: a term has a label for each axis"),
    ("->", [], "einsum E2: there is an operand at least"),
    ("ij->ik", [(2, 2)], "einsum E3: an axis of the result"),
    ("ij->ii", [(2, 2)], "einsum E3: an axis of the result"),
    ("ij,jk->ik", [(2, 3), (4, 5)], "einsum E4: axes of one label have one extent"),
    ("ij,jk->ik", [(2, 1), (4, 5)], "einsum E4: axes of one label have one extent"),
    ("ii->i", [(2, 3)], "einsum E4: axes of one label have one extent"),
)


@pytest.mark.parametrize(("equation", "shapes", "says"), WRONG)
def test_all_refuse_alike_and_sessions_record_nothing(
    equation: Any, shapes: list[tuple[int, ...]], says: str
) -> None:
    reference, session = Session(), fast.Session(provider="aten")
    ours = [session.input(torch.ones(shape)) for shape in shapes]
    theirs = [reference.input(SpecTensor(s, [1.0] * math.prod(s))) for s in shapes]
    with pytest.raises(fast.Rejected) as mine:
        session.einsum(equation, *ours)
    with pytest.raises(Rejected) as its:
        reference.einsum(equation, *theirs)
    with pytest.raises(fast.Rejected) as also:
        fast.torch.einsum(equation, *(torch.ones(shape) for shape in shapes))
    assert str(mine.value) == str(its.value) == str(also.value)
    assert str(mine.value).startswith(says)
    assert session.input(torch.ones(())).id == len(shapes)
    assert reference.input(SpecTensor((), [1.0])).id == len(shapes)


def test_two_dtypes_are_refused_before_anything_is_recorded() -> None:
    session = fast.Session(provider="aten")
    x = session.input(torch.ones(2, 2))
    y = session.cast(x, to="bf16")
    with pytest.raises(fast.Rejected, match="einsum E5: operands have one dtype"):
        session.einsum("ij,jk->ik", x, y)
    assert session.input(torch.ones(())).id == 2


def test_a_foreign_ref_is_refused() -> None:
    session, other = fast.Session(provider="aten"), fast.Session(provider="aten")
    x, y = session.input(torch.ones(2)), other.input(torch.ones(2))
    with pytest.raises(fast.SessionError, match="belongs to another session"):
        session.einsum("i,i->", x, y)
    with pytest.raises(Unsupported, match="einsum: the argument is a ref"):
        session.einsum("i,i->", x, torch.ones(2))
