"""Second derivatives: Hessian-vector products of `fast`, judged by the reference's dual numbers.

No contract says how torch's forward mode rounds: it forms second derivatives by formulas of its
own, with a few roundings more or less than the pages on dual numbers. So the budget is that of the
pages in a coarser format, each of whose roundings is thousands of times larger than the backend's.
Where the pages are exact in it, so is the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import fast.autodiff
import spec.autodiff
from equivalence.budgets.violation import check_equal
from equivalence.cases.call import TORCH
from equivalence.sessions.judge import Judge
from equivalence.sessions.pair import Listed
from equivalence.worlds.contract import FP64, TF32, Contract, Format
from spec.op import AnyTensor
from spec.tensor import Tensor as SpecTensor

Program = Callable[..., Any]
"""f(ops, *refs) -> ref of a scalar, which both sides run."""

COARSER: Mapping[str, Format] = {
    "fp64": replace(FP64, name="40 bits", precision=40),
    "fp32": TF32,
}
"""By precision: a format of the same range, whose unit is 2^13 times larger, and no more.

A constant of torch's that is held in single precision is wrong in the eighth digit, where 40 bits
are twelve.
"""


class Curvature(Judge):
    """A scalar program at one point, whose second derivatives are taken by both sides."""

    def __init__(self, f: Program, inputs: Sequence[Tensor], precision: str) -> None:
        """Take a program and its inputs, rounded to the precision; integers stay as they are."""
        self.f = f
        self.precision, self.dtype = precision, TORCH[precision]
        self.inputs = [x.to(self.dtype) if x.is_floating_point() else x for x in inputs]
        coarser = COARSER[precision]
        super().__init__(Contract(f"coarser than {precision}", coarser, coarser))

    def judge_hvp(self, label: str, vectors: Sequence[Tensor | None]) -> None:
        """Judge the Hessian times a vector, None where it is zero, by every input."""
        given = [None if v is None else v.to(self.dtype) for v in vectors]
        along = [None if v is None else self.lift(v) for v in given]
        due = spec.autodiff.hvp(self.f, self._lifted(), along)
        for k, (got, exact) in enumerate(zip(self._hvp(given), due, strict=True)):
            self._judge(f"{label}: by input {k}", got, exact)

    def judge_hessian(self, label: str) -> None:
        """Judge the Hessian, whose columns are its products with the unit vectors."""
        chosen = [k for k, x in enumerate(self.inputs) if x.is_floating_point()]
        blocks = spec.autodiff.hessian(self.f, tuple(chosen))(*self._lifted())
        for column, j in enumerate(chosen):
            size = math.prod(self.inputs[j].shape)
            for entry in range(size):
                unit = torch.zeros(size, dtype=self.dtype)
                unit[entry] = 1.0
                vectors: list[Tensor | None] = [None] * len(self.inputs)
                vectors[j] = unit.reshape(self.inputs[j].shape)
                found = self._hvp(vectors)
                for row, k in enumerate(chosen):
                    block = blocks[row][column]
                    exact = SpecTensor(tuple(self.inputs[k].shape), block.data[entry::size])
                    self._judge(f"{label}: column {entry} of block {k}, {j}", found[k], exact)

    def _hvp(self, vectors: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
        def ours(ops: Any, *refs: Any) -> Any:
            return self.f(Listed(ops), *refs)

        return fast.autodiff.hvp(
            ours, self.inputs, vectors, provider="aten", precision=self.precision, device="cpu"
        )

    def _judge(self, label: str, got: Tensor | None, exact: AnyTensor | None) -> None:
        if got is not None and exact is not None:
            self.judge(label, got, exact, self.dtype)
        else:
            check_equal(f"{label}: has none", got is None, exact is None)

    def _lifted(self) -> list[AnyTensor]:
        return [self.lift(x) for x in self.inputs]
