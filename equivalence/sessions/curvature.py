"""Second derivatives: Hessian-vector products of `fast`, judged by the reference's dual numbers.

No contract says how torch's forward mode rounds: it forms second derivatives by formulas of its
own, with a few roundings more or less than the pages on dual numbers. So the budget is that of the
pages in a coarser format, each of whose roundings is thousands of times larger than the backend's.
Where the pages are exact in it, so is the result.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import torch
from torch import Tensor

import fast.autodiff
import spec.autodiff
from equivalence.budgets.ledger import Ledger
from equivalence.budgets.violation import check_equal
from equivalence.cases.call import TORCH
from equivalence.cases.domains import domain
from equivalence.registry import OPS
from equivalence.sessions.judge import Judge
from equivalence.sessions.numbers import integers, normal
from equivalence.sessions.pair import Listed
from equivalence.sessions.texts import SQUARE, Step, run
from equivalence.worlds.contract import FP64, TF32, Contract, Format
from spec.op import AnyTensor, Op, Type
from spec.ops import OPS as BOOK
from spec.refusals import Rejected
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


LEAVES = 3
"""Two tensors that move, and one that is a constant of the vector: it has none."""


def curved(program: Sequence[Step]) -> Program:
    """A scalar that is curved in the result of a program, and weighs its entries differently."""

    def f(ops: Any, *leaves: Any) -> Any:
        z = run(program, ops, leaves)
        return ops.sum(ops.mul(ops.mul(z, z), ops.add(z, leaves[0])))

    return f


def leaves_of(seed: int, whole: bool) -> list[torch.Tensor]:
    """Draw the leaves: real numbers, or small integers, on which polynomials are exact."""
    if whole:
        return [(integers(seed + k, 5, *SQUARE) - 2).float() for k in range(LEAVES)]
    return [normal(seed + k, *SQUARE) / 2 for k in range(LEAVES)]


def classifier(ops: Any, w: Any, b: Any, x: Any, labels: Any) -> Any:
    """The loss of two layers that share their weights, by labels."""
    h = ops.tanh(ops.linear(x, w, b))
    return ops.cross_entropy(ops.linear(h, w, b), labels)


def squares(ops: Any, x: Any, y: Any, z: Any) -> Any:
    """A mean squared distance, curved once more."""
    return ops.square(ops.mse_loss(ops.mul(x, y), ops.mul(y, z)))


def product(program: Sequence[Step], seed: int, precision: str, whole: bool) -> Ledger:
    """Judge the Hessian of a program times a vector, on real numbers or on small integers."""
    curvature = Curvature(curved(program), leaves_of(seed, whole), precision)
    *vectors, _ = leaves_of(seed + 100, whole)
    curvature.judge_hvp("product", [*vectors, None])
    return curvature.ledger


def columns(program: Sequence[Step], seed: int, precision: str) -> Ledger:
    """Judge all columns of the Hessian of a short program."""
    curvature = Curvature(curved(program[:3]), leaves_of(seed, False), precision)
    curvature.judge_hessian("hessian")
    return curvature.ledger


def by_labels(seed: int, precision: str) -> Ledger:
    """Judge a product and all columns of the Hessian of a loss by labels."""
    shapes = [(2, 2), (2,), (3, 2)]
    inputs = [normal(seed + k, *shape) for k, shape in enumerate(shapes)]
    curvature = Curvature(classifier, [*inputs, integers(seed, 2, 3)], precision)
    curvature.judge_hvp("product", [*inputs, None])
    curvature.judge_hessian("hessian")
    return curvature.ledger


def distance(seed: int, moving: Sequence[bool], precision: str) -> Ledger:
    """Judge a mean squared distance of what moves and what does not."""
    curvature = Curvature(squares, leaves_of(seed, False), precision)
    along = leaves_of(seed + 100, False)
    curvature.judge_hvp(
        "product", [v if moves else None for v, moves in zip(along, moving, strict=True)]
    )
    return curvature.ledger


def required(name: str) -> dict[str, Any]:
    """Return the attributes that an op must be given, the plainest of those that are tried."""
    page = OPS[name]
    missing = [n for n, default in page.attributes.items() if default is inspect.Parameter.empty]
    return {n: page.tried[n][0] for n in missing}


def takes_squares(name: str) -> bool:
    """Say whether an op makes a tensor of numbers of square matrices of numbers, and has a VJP."""
    page = OPS[name]
    if page.kind in ("source", "positions") or page.integer_inputs or page.converts:
        return False
    try:
        made = page.type_rule(*[Type(SQUARE)] * len(page.inputs), **required(name))
    except (Rejected, KeyError, TypeError):
        return False
    return isinstance(made, Type) and not (made.index or made.mask)


CURVES = tuple(name for name in BOOK if takes_squares(name))
"""The ops of the book whose Hessians are judged one by one."""


def curve(name: str, seed: int, precision: str) -> Ledger:
    """Judge the Hessian of an op's weighed results times a vector.

    The numbers lie in (0, 1), where every page of numbers has a value, and then beyond.
    """
    page = OPS[name]

    def f(ops: Any, *leaves: Any) -> Any:
        made = ops.apply(name, leaves, required(name))
        parts = made if isinstance(made, tuple) else (made,)
        return reduce(ops.add, [ops.sum(ops.mul(z, z)) for z in parts])

    ledger = Ledger()
    for scale in (1.0, 4.0):
        drawn = [normal(seed + k, *SQUARE) for k in range(len(page.inputs))]
        x = [scale * torch.sigmoid(one) for one in drawn]
        if scale > 1.0 and takes_all_numbers(page):
            x = [scale * one for one in drawn]
        curvature = Curvature(f, x, precision)
        curvature.ledger = ledger
        curvature.judge_hvp(name, [normal(seed + 10 + k, *SQUARE) for k in range(len(x))])
    return ledger


def takes_all_numbers(page: Op) -> bool:
    """Say whether an op has a value and derivatives at negative numbers, too."""
    below = ("positive", "past_minus_one")
    return not any(domain(page, k, required(page.name)) in below for k in range(len(page.inputs)))


KINDS = ("product", "exact-product", "hessian", "labels", "distance")
"""What is judged, by name."""

WHOLE = ("hessian", "labels")
"""The kinds that ask for all columns of a Hessian."""
