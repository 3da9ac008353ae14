"""Faults that are planted in our own kernels and hosts, so that the detector is seen to find them.

A checker that says nothing looks like one that finds nothing. So whenever kernels are watched, each
of these is planted too, in memory, and what is found has to be of its kind, in its kernel, at its
line. What is marked `silent` changes no result in Triton's interpreter, which runs the instances
one after the other: no comparison of numbers sees it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from equivalence.races.fault import Kind


class Stale(ValueError):
    """A planted fault no longer says where it belongs; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Line:
    """A change in the source of a function that Triton compiles: a text that occurs in it once."""

    module: str
    function: str
    before: str
    after: str

    @contextmanager
    def changed(self) -> Iterator[None]:
        """Hand the changed source to the compiler, and in the end the old one."""
        function: Any = getattr(importlib.import_module(self.module), self.function)
        source: str = function.src
        if source.count(self.before) != 1:
            raise Stale(
                f"a planted fault replaces a text that must occur once in {self.function} of "
                f"{self.module}, and occurs {source.count(self.before)} times: bring its `before` "
                f"up to date, or this kind of fault is no longer tried\n{self.before}"
            )
        function._unsafe_update_src(source.replace(self.before, self.after))
        try:
            yield
        finally:
            function._unsafe_update_src(source)


@dataclass(frozen=True, slots=True)
class OneBuffer:
    """The host of the optimizers hands its kernel one buffer for old and new step counts."""

    @contextmanager
    def changed(self) -> Iterator[None]:
        """Let the spare buffer of every optimizer be the buffer in use."""
        optimizer: Any = importlib.import_module("fast.optim._flat").FlatOptimizer
        launch = optimizer._launch

        def in_place(self: Any, *given: Any) -> None:
            self._spare = self._steps
            launch(self, *given)

        optimizer._launch = in_place
        try:
            yield
        finally:
            optimizer._launch = launch


@dataclass(frozen=True, slots=True)
class Planted:
    """A fault, the op that shows it, and what must be found: the kind, the kernel and a line."""

    name: str
    why: str
    op: str
    change: Line | OneBuffer
    kind: Kind
    kernel: str
    line: str
    silent: bool = False


PLANTED = (
    Planted(
        "step counts renewed in place",
        "one instance counts the steps while the others still read the counts",
        "adamw", OneBuffer(), "race", "_moments_kernel",
        "tl.store(next_steps + place, tl.where(clear, count + more, count), mask=inside)",
        silent=True,
    ),
    Planted(
        "tiles that overlap",
        "neighbouring instances store the same numbers in the same places",
        "square",
        Line(
            "fast.kernels.elementwise.pointwise", "_flat_kernel",
            "start = tl.program_id(0).to(tl.int64) * BLOCK",
            "start = tl.program_id(0).to(tl.int64) * (BLOCK - 16)",
        ),
        "race", "_flat_kernel", "tl.store(z0 + index, results.to(z0.dtype.element_ty), mask=mask)",
    ),
    Planted(
        "a line of partial sums for all",
        "instances add to one line of partials, each reading what others store",
        "layer_norm",
        Line(
            "fast.ops.layer_norm", "_vjp_kernel",
            "dgammas = partials + program.to(tl.int64) * n", "dgammas = partials",
        ),
        "race", "_vjp_kernel", "tl.store(dgammas + column, dgamma, mask=column < n)",
    ),
    Planted(
        "rows past the last",
        "a tile reads on behind the tensor where it should repeat the last row",
        "softmax",
        Line(
            "fast.kernels.rows.rowwise", "tile_of_rows",
            "return tl.minimum(row, rows - 1), row < rows", "return row, row < rows",
        ),
        "read out of bounds", "_value_kernel",
        "return tl.load(pointers, mask=(column < n)[None, :], other=other).to(tl.float32)",
    ),
    Planted(
        "a mask without its columns",
        "the product reads beyond the right operand, and throws away what it reads",
        "matmul",
        Line(
            "fast.kernels.product", "_tile",
            "tl.load(right, mask=inner[:, None] & columns[None, :], other=0.0)",
            "tl.load(right, mask=inner[:, None], other=0.0)",
        ),
        "read out of bounds", "_product_kernel",
        "right = tl.load(right, mask=inner[:, None] & columns[None, :], other=0.0)",
    ),
    Planted(
        "a read before the first element",
        "an index that is one too small, at the very beginning of a tensor",
        "sum",
        Line(
            "fast.kernels.rows.reduce", "_reduce_kernel",
            "r1 = at + lane\n", "r1 = at + lane - 1\n",
        ),
        "read out of bounds", "_reduce_kernel",
        "tl.load(pointers, mask=r1 < end1, other=OTHER).to(tl.float32), scale, KIND",
    ),
    Planted(
        "a result that nobody asked for",
        "the mask of a store lets one row too many pass",
        "sum",
        Line(
            "fast.kernels.rows.reduce", "_reduce_kernel",
            "tl.store(z + place, result.to(z.dtype.element_ty), mask=row < rows)",
            "tl.store(z + place, result.to(z.dtype.element_ty), mask=row <= rows)",
        ),
        "write out of bounds", "_reduce_kernel",
        "tl.store(z + place, result.to(z.dtype.element_ty), mask=row < rows)",
    ),
    Planted(
        "two rows in one place",
        "two lanes of one store put different numbers in the same place",
        "max",
        Line(
            "fast.kernels.rows.reduce", "_reduce_kernel",
            "place = row * tl.num_programs(1) + tl.program_id(1)",
            "place = row // 2 * tl.num_programs(1) + tl.program_id(1)",
        ),
        "undefined", "_reduce_kernel",
        "tl.store(z + place, result.to(z.dtype.element_ty), mask=row < rows)",
    ),
    Planted(
        "the end of the wrong row",
        "a table of where rows start is read one entry further than it has",
        "take",
        Line(
            "fast.kernels.indexing", "_scatter_kernel",
            "end = tl.load(starts + target + 1)", "end = tl.load(starts + target + 2)",
        ),
        "read out of bounds", "_scatter_kernel", "end = tl.load(starts + target + 1)",
    ),
)  # fmt: skip
"""Every planted fault."""
