"""What Inductor does for nothing is left out, where torch has the form that is known."""

from __future__ import annotations

import importlib

import pytest
import torch
from torch import Tensor

from fast.compiled import inductor
from fast.compiled.replaced import quicker
from fast.compiled.shown import sources

COMPARED = (torch.float32, torch.float64, torch.int64, torch.int32, torch.bfloat16, torch.float16)
"""Dtypes whose masks have lanes of their own."""


def test_an_artifact_that_runs_a_few_times_compares_no_arguments() -> None:
    """Where torch builds that comparison by other means, it stays."""
    from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu as Writer

    usual = vars(Writer)[quicker.CHECKING]
    with quicker.quicker():
        assert vars(Writer)[quicker.CHECKING] is usual
    with quicker.quicker(checked=False):
        assert vars(Writer)[quicker.CHECKING] is not usual
    assert vars(Writer)[quicker.CHECKING] is usual
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(Writer, quicker.CHECKING)
        with quicker.quicker(checked=False):
            assert quicker.CHECKING not in vars(Writer)


def test_an_artifact_has_no_code_for_regular_expressions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where torch reads the names of devices by other means, its own header stays."""
    from torch._inductor import codecache

    usual = vars(codecache)[quicker.HEADER]
    with quicker.quicker():
        header = vars(codecache)[quicker.HEADER]
        assert header("cpu", True) == str(quicker.WITHOUT_REGEX)
        for other in ("cpu", False), ("cuda", True):
            assert header(*other) == usual(*other)
    monkeypatch.setattr(quicker, "REGEX", (*quicker.REGEX, "what no torch has"))
    with quicker.quicker():
        assert vars(codecache)[quicker.HEADER] is usual


def masks(mask: Tensor, *given: Tensor) -> list[Tensor]:
    """Compare, lay masks side by side, and choose by one that is given."""
    chosen = [torch.where(mask, x, -x).nan_to_num(9) for x in given]
    below, above = ([compare(x, 2) for x in given] for compare in (torch.lt, torch.gt))
    apart = [x != x for x in given]
    return [*chosen, *below, torch.stack([*below, *above, *apart], 1), mask ^ above[1]]


@pytest.mark.slow
@pytest.mark.xdist_group("inductor")
@pytest.mark.parametrize("bits", [None, 256, 1], ids=["widest", "AVX2", "without vectors"])
def test_masks_are_stored_and_read_in_quicker_ways_as_the_same_bytes(bits: int | None) -> None:
    from torch._inductor import config

    numbers = torch.arange(67).remainder(7)
    given = [(numbers % 3 == 1), *(numbers.to(dtype) for dtype in COMPARED)]
    for x in given:
        if x.is_floating_point():
            x[::5] = torch.nan
    with config.patch({"cpp.simdlen": bits}):
        package = inductor.built(inductor.traced(masks, given), given, brief=True)
    assert str(quicker.MASKS) in sources.written(package, ".kernel.cpp")
    for stored, due in zip(inductor.loaded(package)(given), masks(*given), strict=True):
        assert torch.equal(stored.view(torch.uint8), due.view(torch.uint8))


@pytest.mark.parametrize("other", ["what no torch has", "struct VecMask"])
def test_a_torch_with_other_ways_for_masks_keeps_them(
    other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it lacks one, has several, or writes loops elsewhere."""
    from torch._inductor.codegen.cpp import KernelGroup

    usual = vars(KernelGroup)[quicker.WRITING]
    with quicker.quicker():
        assert vars(KernelGroup)[quicker.WRITING] is not usual
    monkeypatch.setattr(quicker, "WAYS", (*quicker.WAYS, other))
    with quicker.quicker():
        assert vars(KernelGroup)[quicker.WRITING] is usual
    monkeypatch.undo()
    monkeypatch.delattr(KernelGroup, quicker.WRITING)
    with quicker.quicker():
        assert quicker.WRITING not in vars(KernelGroup)


@pytest.mark.parametrize(
    ("place", "settings"),
    [
        ("torch.fx.interpreter", "torch.fx.config"),
        ("torch._inductor.async_compile", "torch._inductor.config"),
    ],
)
def test_a_bar_that_is_not_shown_is_not_made(
    place: str, settings: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of tqdm leaves a semaphore of the system behind in a worker that is ended."""
    module, config = map(importlib.import_module, (place, settings))
    usual = vars(module)[quicker.BAR]
    with quicker.quicker():
        bar = vars(module)[quicker.BAR](total=3, desc="nodes", disable=True, delay=0)
        bar.update(1)
        assert not hasattr(bar, "get_lock")
    assert vars(module)[quicker.BAR] is usual and hasattr(usual, "get_lock")
    monkeypatch.setattr(config, quicker.HIDDEN, False)
    with quicker.quicker():
        assert vars(module)[quicker.BAR] is usual


def test_the_table_of_dtypes_is_filled_once_and_answers_as_before() -> None:
    from torch._inductor import lowering
    from torch._inductor.dtype_propagation import DtypePropagationOpsHandler as Rules

    assert lowering is not None
    with quicker.quicker():
        filled = vars(Rules())
        before = dict(filled)
        assert vars(Rules()) is filled
        assert all(filled[name] is rule for name, rule in before.items())
    assert vars(Rules())["add"] is not before["add"]


def test_a_plain_index_has_the_stride_that_torch_finds_in_it() -> None:
    """And one with a quotient or a remainder is made simpler by torch itself."""
    from sympy import Integer, Symbol
    from torch._inductor import sizevars
    from torch.utils._sympy.functions import FloorDiv, ModularIndexing

    x, y = (Symbol(name, integer=True, nonnegative=True) for name in "xy")
    plain = [x, 3 * x + y, x * (y + 2) + 5, y, Integer(4), 8 * (x + 2 * y) - x]
    other = [FloorDiv(x, 16), ModularIndexing(x, 1, 16) + y, 32 * FloorDiv(x, 8) + x]
    usual = {
        (index, size): sizevars.stride_at_vec_range.__wrapped__(index, x, size)
        for index in (*plain, *other)
        for size in (None, 8, 16)
    }
    theirs = vars(sizevars)[quicker.SIMPLIFYING]
    with quicker.quicker():
        ours = vars(sizevars)[quicker.SIMPLIFYING]
        assert ours is not theirs
        assert all(ours(index, x, 16) is index for index in plain)
        for (index, size), stride in usual.items():
            assert sizevars.stride_at_vec_range.__wrapped__(index, x, size) == stride
    assert vars(sizevars)[quicker.SIMPLIFYING] is theirs
