"""Every operation, value and VJP, equals its page at one point; the interpreter is restored."""

from __future__ import annotations

import os

os.environ.setdefault("TRITON_INTERPRET", "1")

import importlib
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from equivalence.backends.torch.backend import TorchBackend
from equivalence.cases.call import CaseSpec, describe
from equivalence.exact import operations
from equivalence.exact.operations import cases, judged, rescales
from equivalence.exact.points import Form, standing
from equivalence.exact.rows import Row, found, rows
from fast.ops import OPS as OURS
from spec.ops import OPS, tanh
from tests.turns import of_pages

FEW = 400
"""A case of so few entries takes a fraction of a second."""


def page_has_bound(case: CaseSpec) -> bool:
    """Say whether the page alone has a bound.

    It has none where nothing is drawn, and where it asks which of two numbers is larger that it
    computed: nobody knows how many drawn numbers choose the same way.
    """
    page, told = OPS[case.op], operations._told(case)
    with standing(0, rescales(case.op)) as point:
        numbers, _, cotangents = operations._tensors(case, point)
        if cotangents:
            page.vjp(numbers, operations._joined(page, cotangents), **told)
        else:
            page.value(*numbers, **told)
        return point.verdict().bound is not None


@pytest.mark.parametrize("row", of_pages(rows(list(OPS)), 4, lambda row: row.of), ids=str)
def test_a_kernel_equals_its_page(row: Row) -> None:
    fits = [
        case
        for case in cases(row.of, row.direction)
        if 8 <= sum(map(math.prod, case.shapes or (case.attributes()["shape"],))) <= FEW
    ]
    verdict = judged(fits[0])
    assert verdict.elements and not verdict.differences, verdict.differences
    if page_has_bound(fits[0]):
        assert verdict.bound is not None and verdict.bound < 2.0**-40, describe(fits[0])
    else:
        assert verdict.bound is None


def test_a_row_says_what_it_compared() -> None:
    one = found(Row("relu", "vjp"), 2)
    assert one.equal and one.points == 2 and len(one.verdict.orderings) == 2
    assert one.bound == "2^-96" and one.verdict.degree == 1
    assert found(Row("rand_uniform", "value"), 1).bound == "no bound"


def test_only_pages_that_shift_or_turn_exponents_need_a_homomorphism() -> None:
    rows = {"softmax", "masked_softmax", "log_softmax", "logsumexp", "cross_entropy"}
    curves = {"sigmoid", "log_sigmoid", "softplus", "safe_log", "bce_with_logits", "silu", "mish"}
    assert {op for op in OPS if rescales(op)} == {*rows, *curves, "elu", "selu", "chain"}


class Stranger(TorchBackend):
    """Torch's functions, but for one."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def value(self, op: str, inputs: Any, attrs: Any) -> Any:
        """Call the one function."""
        return self.function(*inputs)


def _refused(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError(f"a kernel of rank 9; got {x.dim()}")


def _by_exponentials(x: torch.Tensor) -> torch.Tensor:
    e = torch.exp(-2 * x)
    return (1 - e) / (1 + e)


@pytest.mark.parametrize(
    ("op", "function", "differs", "unread"),
    [
        ("tanh", torch.tanh, "", ""),
        ("silu", lambda x: x / (1 + torch.exp(-x)), "", ""),
        ("exp", lambda x: torch.exp(x) + 1, "entries differ", ""),
        ("silu", lambda x: x / (2 + torch.exp(-x)), "entries differ", ""),
        ("tanh", _refused, "", "NotImplementedError: a kernel of rank 9"),
        ("tanh", _by_exponentials, "", "the exponential that is a homomorphism takes sums"),
        ("erf", lambda x: torch.special.erfcx(x), "", "erfcx"),
    ],
)
def test_what_cannot_be_read_is_not_what_differs(
    op: str, function: Any, differs: str, unread: str
) -> None:
    (case, *_) = cases(op, "value")
    verdict = judged(case, backend=Stranger(function))
    assert bool(verdict.differences) is bool(differs)
    assert bool(verdict.unread + verdict.refused) is bool(unread)
    assert bool(verdict.refused) is unread.startswith("NotImplementedError")
    said = "".join(verdict.unread + verdict.refused)
    assert differs in "".join(verdict.differences) and unread in said


def test_the_interpreter_is_restored() -> None:
    x = torch.tensor([0.5, -2.0])
    before, _ = OURS[tanh.op.name].value(x)
    with standing():
        interpreter = importlib.import_module("triton.runtime.interpreter")
        builder = interpreter.interpreter_builder
        assert "create_load" in vars(builder)
        inside = interpreter._get_np_dtype
    assert "create_load" not in vars(builder) and interpreter._get_np_dtype is not inside
    z, _ = OURS[tanh.op.name].value(x)
    assert torch.equal(z, before)


def test_drawn_numbers_have_the_form_that_was_asked_for() -> None:
    with standing("forms") as point:
        x, y = point.draw(Form((3, 4), "transposed"), Form((5,), positive=True))
        assert x.memory.stride() == (1, 3) and x.numbers.shape == (3, 4)
        assert point.memory.read(x.memory) == list(x.numbers.data)
        assert all(number.value > 0 for number in y.numbers.data)
        values = [number.value for number in x.numbers.data]
        assert min(values) < 0 < max(values) and len(set(values)) == 12 and max(values) > 2**90


def test_a_wrong_shape_and_a_stray_write_are_differences() -> None:
    with standing() as point:
        (x,) = point.draw((4,))
        x.guarded.base[0] = 7
        point.same("z", x.memory[:3], x.numbers)
        wrong = point.verdict().differences
    assert len(wrong) == 2 and "expected shape [4], got [3]" in wrong[0]
    assert "before the tensor" in wrong[1]
