"""What torch's Inductor computes wrong: tests that fail if nothing is replaced."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from fast.compiled import inductor
from fast.compiled.replaced import mended

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("inductor")]


def normalized(*given: Tensor) -> list[Tensor]:
    """Normalize what passes in each row: what is kept for the row is read again behind its sum."""
    pairs = zip(given[::2], given[1::2], strict=True)
    return [
        torch.softmax(x.masked_fill(~mask, -torch.inf), -1).masked_fill(~mask, 0)
        for x, mask in pairs
    ]


def test_what_is_kept_for_a_row_is_not_lost_to_the_rows_of_the_same_tile() -> None:
    """One entry passes in each row, so that it has the whole share; rows side by side differ."""
    draw, given, due = torch.Generator().manual_seed(3), list[Tensor](), []
    for rows, columns in (2, 31), (9, 8):
        x = torch.randint(-3, 4, (rows, columns), generator=draw).float()
        passing = torch.arange(rows) * 3 % columns
        mask = (torch.arange(columns)[:, None] == passing).t()
        wide = torch.empty(rows, 2 * columns, dtype=torch.bool)[:, ::2].copy_(mask)
        given += [x, mask, x.clone(), wide]
        due += [mask.float()] * 2
    package = inductor.built(inductor.traced(normalized, given), given, brief=True)
    for ours, exact in zip(inductor.loaded(package)(given), due, strict=True):
        assert torch.equal(ours, exact)


def test_expm1_keeps_the_digits_and_the_sign_of_a_small_number() -> None:
    """Of 32 bits and fewer it is x there, of 64 SLEEF may miss by an ulp; in vectors and beside."""
    small, kinds = 2.0**-24, (torch.float32, torch.bfloat16, torch.float16)
    given = [torch.full((35,), x, dtype=kind) for kind in kinds for x in (small, -0.0)]
    given += [torch.full((19,), small, dtype=torch.float64)]
    graph = inductor.traced(lambda *xs: [torch.expm1(x) for x in xs], given)
    *shorter, finer = inductor.loaded(inductor.built(graph, given, brief=True))(given)
    for ours, x in zip(shorter, given, strict=False):
        assert torch.equal(ours, x) and torch.equal(ours.signbit(), x.signbit())
    exact = math.expm1(small)
    assert exact != small and all(abs(y - exact) <= math.ulp(exact) for y in finer.tolist())


def replaced() -> dict[str, Any]:
    """Return what torch has where something is replaced."""
    from torch._inductor.codegen import cpp

    return {owner: vars(getattr(cpp, owner))[name] for owner, name in mended.REPLACED}


def test_torch_has_its_own_functions_back_even_after_an_error() -> None:
    usual = replaced()
    with pytest.raises(ValueError, match="broken off"), mended.mended():
        assert all(replaced()[owner] is not own for owner, own in usual.items())
        raise ValueError("broken off")
    assert replaced() == usual


@pytest.mark.parametrize(("owner", "name"), mended.REPLACED)
def test_a_torch_without_what_is_replaced_is_refused(
    owner: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._inductor.codegen import cpp

    assert mended.lacking() is None
    monkeypatch.delattr(getattr(cpp, owner), name)
    assert f"{owner}.{name}" in (inductor.uncompiling() or "")
