"""An op is two pages and an entry in two tables: everything else finds it there.

In a copy of the tree, pages are written for ops that do not exist: a pointwise one, a composite and
a reduction.  The laws, the judge, the compiler of kernels and the stateful tests take them, and
no other line of the tree was changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.tree import ROOT

pytestmark = pytest.mark.slow

GENERATORS = ("tools.generate_protocols", "tools.generate_trust")
"""What a contributor of an op is told to run."""

SPEC_HEAD = """
from __future__ import annotations

from typing import Any

"""

SPEC = {
    "cosh_like": '''"""Average e^x and e^-x, entry by entry.

    z[i] = (e^x[i] + e^-x[i]) / 2

Reference: none; it exists in a test.

>>> from spec.tensor import tensor
>>> op(tensor([0.0]))
Tensor([1.0])
"""
{head}from spec.kinds import pointwise, same_shape
from spec.op import Edge, Type
from spec.scalar import divide, exp
from spec.tensor import Tensor


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("cosh_like", x)


def value(x: Tensor[Any, *tuple[Any, ...]]) -> Tensor[Any, *tuple[Any, ...]]:
    """Average both exponentials."""
    return x.map(lambda a: divide(exp(a) + exp(-a), 2))


def partials(x: Any) -> tuple[Any]:
    """The difference instead of the sum."""
    return (divide(exp(x) - exp(-x), 2),)


EDGES = (Edge(([0.0],), ([1.0],), "IEEE", "both are 1"),)

op = pointwise("cosh_like", type_rule, value, partials, edges=EDGES)
''',
    "squared_gap": '''"""Square the difference of two tensors.

    z[i] = (x[i] - y[i])^2

C1  all shapes are equal: a primitive never broadcasts.

Reference: none; it exists in a test.

>>> from spec.tensor import tensor
>>> op(tensor([5, 1]), tensor([2, 1]))
Tensor([9, 0])
"""
{head}from spec.composite import composite
from spec.kinds import UNEQUAL, same_shape
from spec.op import Edge, Type
from spec.ops.square import op as square
from spec.ops.sub import op as sub


def type_rule(x: Type, y: Type) -> Type:
    """Accept two tensors of one shape (C1)."""
    return same_shape("squared_gap", x, y)


def program(ops: Any, x: Any, y: Any) -> Any:
    """Subtract, then square."""
    return ops.square(ops.sub(x, y))


EDGES = (Edge(([3.0], [1.0]), ([4.0],), "IEEE", "it is exact"),)

REFUSED = UNEQUAL

op = composite("squared_gap", type_rule, program, (sub, square), edges=EDGES, refused=REFUSED)
value = op.value
''',
    "twice_summed": '''"""Add twice the entries of a tensor along some axes.

    z[i] = sum_k (x[i, k] + x[i, k])        (k runs over the reduced axes)

C1  every axis lies in [-rank, rank).
C2  the axes are distinct.

Reference: none; it exists in a test.

>>> from spec.tensor import tensor
>>> op(tensor([[1, 2], [3, 4]]), axes=(1,))
Tensor([6, 14])
"""
{head}from spec.axes import BAD_AXES, check_axes
from spec.composite import composite
from spec.op import Edge, Type
from spec.ops.add import op as add
from spec.ops.sum import op as sum_
from spec.shape import reduced


def type_rule(x: Type, *, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> Type:
    """Accept distinct axes of x (C1, C2)."""
    return Type(reduced(x.shape, check_axes("twice_summed", x, axes), keepdims))


def program(
    ops: Any, x: Any, *, axes: tuple[int, ...] | None = None, keepdims: bool = False
) -> Any:
    """Add, then double."""
    total = ops.sum(x, axes=axes, keepdims=keepdims)
    return ops.add(total, total)


EDGES = (Edge(([],), (0.0,), "IEEE", "an empty sum is 0"),)

REFUSED = BAD_AXES

op = composite("twice_summed", type_rule, program, (add, sum_), edges=EDGES, refused=REFUSED)
value = op.value
''',
}

FAST_HEAD = """
from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.mode import tl, triton  # noqa: F401 (the interpreter needs to see tl here)
"""

FAST = {
    "cosh_like": '''"""Twin of spec.ops.cosh_like.

It saves its input.
"""
{head}from fast.device.dtypes import wide
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved


@triton.jit
def _value(x):
    return (tl.exp(x) + tl.exp(-x)) * 0.5


@triton.jit
def _vjp(x, g):
    return ((tl.exp(x) - tl.exp(-x)) * 0.5) * g


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("cosh_like", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Average both exponentials."""
    return pointwise.value(_value, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Take the difference instead of the sum."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Average both exponentials, computed wide."""
    x32 = wide(x)
    return ((x32.exp() + x32.neg().exp()) / 2).to(x.dtype), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Take the difference instead of the sum."""
    (x,) = saved
    if not needs[0]:
        return (None,)
    x32 = wide(x)
    return (((x32.exp() - x32.neg().exp()) / 2 * wide(cotangent)).to(x.dtype),)


EXAMPLES = unary
op = pointwise.op("cosh_like", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
''',
    "squared_gap": '''"""Twin of spec.ops.squared_gap.

It saves its inputs.
"""
{head}from fast.device.dtypes import wide
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import binary
from fast.kernels.page import Gradients, Saved


@triton.jit
def _value(x, y):
    return (x - y) * (x - y)


@triton.jit
def _vjp(x, y, g):
    first = 2.0 * (x - y) * g
    return first, -first


def check(x: Tensor, y: Tensor) -> None:
    """Refuse inputs that differ in shape (C1), dtype or device."""
    checks.pair("squared_gap", x, y)


def value(x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Square the difference."""
    return pointwise.value(_value, x, y), (x, y)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return twice the difference times g, and its negative."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def _gap(saved: Saved) -> Tensor:
    x, y = saved
    return wide(x) - wide(y)


def aten_value(x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Square the difference, computed wide."""
    return _gap((x, y)).square().to(x.dtype), (x, y)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return twice the difference times g, and its negative."""
    first = (2 * _gap(saved) * cotangent).to(cotangent.dtype)
    return (first if needs[0] else None, -first if needs[1] else None)


EXAMPLES = binary
op = pointwise.op("squared_gap", check, value, vjp, aten_value, aten_vjp, inputs=("x", "y"))
''',
    "twice_summed": '''"""Twin of spec.ops.twice_summed.

Doubling is exact, so it is done after the sum.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from fast.kernels import checks
from fast.kernels.examples import reduction
from fast.kernels.page import Gradients, Op, Saved
from fast.ops.sum import op as _sum

Axes = tuple[int, ...] | None


def check(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> None:
    """Refuse axes out of range (C1) or given twice (C2)."""
    checks.floats("twice_summed", x)
    checks.axes("twice_summed", x.dim(), axes)


def value(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> tuple[Tensor, Saved]:
    """Add along the axes, and double."""
    z, saved = _sum.value(x, axes=axes, keepdims=keepdims)
    return z * 2, saved


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Repeat twice the cotangent along the axes."""
    return _sum.vjp(saved, cotangent * 2, needs)


def aten_value(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> tuple[Tensor, Saved]:
    """Add along the axes, and double."""
    z, saved = _sum.aten_value(x, axes=axes, keepdims=keepdims)
    return z * 2, saved


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Repeat twice the cotangent along the axes."""
    return _sum.aten_vjp(saved, cotangent * 2, needs)


MOST_KERNELS = 5
"""Those of sum."""

EXAMPLES = reduction
op = Op(
    "twice_summed", check, value, vjp, aten_value, aten_vjp,
    inputs=("x",), attributes={"axes": None, "keepdims": False},
)  # fmt: skip
''',
}

RUN = """
from equivalence.sessions.stateful.machine import NAMES
from equivalence.sessions.stateful.run import Run

run = Run("aten", "fp32")
run.param((2, 3), 0)
run.use(0)
from equivalence.sessions.stateful.operands import Offer, operands
for name in {names}:
    known = {{here: entry.bits for here, entry in run.model.intact()}}
    found = operands(name, Offer(known, [], run.provider, run.precision), (0, 0, 0))
    assert found is not None and name in NAMES.elements, name
    run.op(name, found[0], **found[1])
    run.backward(len(run.refs) - 1, 1)
run.reset_tape()
print("lived")
"""


class Copy:
    """A copy of the tree, in which pages may be written and commands run."""

    def __init__(self, root: Path) -> None:
        """Copy every file that git knows of."""
        self.root = root
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        for name in filter(None, listed.split("\0")):
            source, target = ROOT / name, root / name
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)

    def write_op(self, name: str, spec: str, fast: str) -> None:
        """Write the two pages of an op, and enter it in the two tables, before the random ones."""
        for package, text in (("spec", spec), ("fast", fast)):
            page = self.root / package / "ops" / f"{name}.py"
            page.write_text(text, encoding="utf-8")
            table = page.with_name("__init__.py")
            lines = table.read_text(encoding="utf-8")
            first = f"from {package}.ops.add import op as _add\n"
            entered = f"{first}from {package}.ops.{name} import op as _{name}\n"
            lines = lines.replace(first, entered)
            last = "        _rand_uniform,\n"
            table.write_text(lines.replace(last, f"        _{name},\n{last}"), encoding="utf-8")

    def run(self, *command: str) -> str:
        """Run Python in the copy and return what it printed; what fails, fails the test."""
        environment = {**os.environ, "PYTHONPATH": str(self.root), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.root, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"{' '.join(command)} exits {done.returncode}:\n{said[-4000:]}"
        return said


def take_in(tree: Copy, names: Sequence[str]) -> None:
    """Run what must take new ops: generators, laws, judge, kernels and stateful tests."""
    for generator in GENERATORS:
        tree.run("-m", generator)
    chosen = " or ".join(names)
    laws = [f"tests/spec/test_{what}.py" for what in ("laws", "edges", "rejections", "doctests")]
    house = ["tests/house/test_twins.py", "tests/fast/ops/test_refusals.py"]
    tree.run(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", *laws, *house, "-k", f"{chosen} or twins"
    )
    tree.run("-c", "from proofs_notes.index import NOTES\nfrom spec.ops import OPS\n"
             "assert set(NOTES) == set(OPS), set(OPS) - set(NOTES)")  # fmt: skip
    for backend in ("fast-aten", "fast-triton-interpreted"):
        said = tree.run(
            *("-m", "equivalence", "run", "--backend", backend, "--profile", "quick"),
            *("--ops", *names),
        )
        assert "conformant" in said and "nonconformant" not in said, said
    tree.run("-m", "fast", "kernels", "--target", "sm_80", "--ops", ",".join(names))
    assert "lived" in tree.run("-c", RUN.format(names=list(names)))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """Copy the tree, with three ops more."""
    copied = Copy(tmp_path_factory.mktemp("tree"))
    for name, page in SPEC.items():
        spec, fast = page.replace("{head}", SPEC_HEAD), FAST[name].replace("{head}", FAST_HEAD)
        copied.write_op(name, spec, fast)
    return copied


def test_an_op_is_two_pages(tree: Copy) -> None:
    take_in(tree, list(SPEC))


def test_a_table_kept_by_hand_is_noticed(tree: Copy) -> None:
    """Were the regimes listed by name, as they once were, the new ops would not be drawn."""
    path = tree.root / "equivalence" / "cases" / "domains.py"
    kept = path.read_text(encoding="utf-8")
    listed = '{"exp": MODERATE, "add": REAL}[op.name]'
    derived = "BY_DOMAIN[domain(op, k, chosen)]"
    path.write_text(kept.replace(derived, listed), encoding="utf-8")
    assert listed in path.read_text(encoding="utf-8")
    try:
        with pytest.raises(AssertionError, match="KeyError: 'cosh_like'"):
            tree.run(
                *("-m", "equivalence", "run", "--backend", "fast-aten", "--profile", "quick"),
                *("--ops", "cosh_like"),
            )
    finally:
        path.write_text(kept, encoding="utf-8")
