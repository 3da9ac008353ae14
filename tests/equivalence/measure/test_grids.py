"""Launches of interpreted kernels are read with all their arguments, as Triton hands them on."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from equivalence.backends import Capabilities, declared
from equivalence.cases.call import CaseSpec
from equivalence.measure.grids import Launch, arguments, launches, recording
from equivalence.measure.sizes import grown_to


def kernel(x: object, n: int, BLOCK: int = 128, WIDE: bool = False) -> None:
    """Stand for a kernel with constants that have defaults."""


class Interpreted:
    """Stands for Triton's `InterpretedFunction`: a kernel that is launched over a grid."""

    def __init__(self, fn: Any) -> None:
        self.fn = fn

    def run(self, *args: Any, grid: Any, warmup: bool, **meta: Any) -> None:
        """Run the kernel."""
        raise AssertionError("no kernel is run where launches are read")


@pytest.fixture(autouse=True)
def interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stand-in where launches are looked for."""
    module: Any = ModuleType("triton.runtime.interpreter")
    module.InterpretedFunction = Interpreted
    monkeypatch.setitem(sys.modules, "triton.runtime.interpreter", module)


def by_default(meta: Mapping[str, Any]) -> tuple[int]:
    """Return a grid that reads a constant which the launch leaves to its default."""
    return (-(-meta["n"] // meta["BLOCK"]),)


def test_a_grid_function_reads_defaults_and_positional_arguments() -> None:
    found: list[Launch] = []
    with recording(found):
        Interpreted(kernel).run("x", 300, grid=by_default, warmup=False)
        Interpreted(kernel).run("x", n=300, BLOCK=64, num_warps=4, grid=by_default, warmup=False)
        Interpreted(kernel).run("x", 300, grid=(7, 2), warmup=False)
        Interpreted(kernel).run("x", 300, grid=by_default, warmup=True)
    assert found == [Launch(3, (128,)), Launch(5, (64,)), Launch(14, (128,))]


def test_what_is_no_parameter_comes_with_the_others() -> None:
    found = arguments(kernel, ("x",), {"n": 3, "num_warps": 4})
    assert found == {"x": "x", "n": 3, "BLOCK": 128, "WIDE": False, "num_warps": 4}


class Squares:
    """A backend that launches, and then raises over what no kernel has written."""

    name = "squares"

    def capabilities(self) -> Capabilities:
        """Offer one op."""
        return Capabilities({"square": ("fp32",)}, declared("torch"), ring="interpreted")

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        """Launch, and look at the result."""
        made = torch.empty(inputs[0].shape)
        Interpreted(kernel).run(made, made.numel(), grid=by_default, warmup=False)
        raise ValueError("a result that nobody wrote")


def test_what_a_host_says_of_unwritten_results_is_no_matter() -> None:
    case = grown_to("square", "value", "fp32", 0, 300)
    assert isinstance(case.case, CaseSpec)
    assert launches(Squares(), case) and launches(Squares(), case)[0].blocks == (128,)
