"""A backend of a part of an op, on exact numbers: it is asked inside the part alone."""

from __future__ import annotations

import os

os.environ.setdefault("TRITON_INTERPRET", "1")

import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from equivalence import Capabilities, declared
from equivalence.exact.rows import DIFFERS, EQUAL, REFUSED, Found, Row, found, rows
from population.pieces.steppers import Sgd

POINTS = 16
"""How many points of a row are compared here."""


class Rows:
    """Softmax of contiguous matrices along the last axis; it crashes outside of its part."""

    name = "rows"
    takes: ClassVar[Any] = {
        "ranks": [2],
        "axes": [-1],
        "layouts": ["contiguous", "offset"],
        "empty": False,
    }

    def capabilities(self) -> Capabilities:
        parts = {} if self.takes is None else {"softmax": self.takes}
        return Capabilities({"softmax": ("fp32",)}, declared("generic"), takes=parts)

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        (x,) = inputs
        assert x.dim() == 2 and x.is_contiguous() and attrs.get("axis", -1) in (-1, 1)
        e = torch.exp(x - x.amax(-1, keepdim=True))
        return e / e.sum(-1, keepdim=True)

    def vjp(self, op: str, inputs: Any, attrs: Any, cotangents: Any) -> list[Tensor]:
        z = self.value(op, inputs, attrs)
        return [z * (cotangents[0] - (z * cotangents[0]).sum(-1, keepdim=True))]


def contiguous(call: Any) -> bool:
    """Say of the types of a call whether it is of contiguous matrices along the last axis."""
    (x,) = call.inputs
    along = call.attributes["axis"] in (-1, 1)
    return x.rank == 2 and along and not x.empty and call.contiguous


class Foreseen(Rows):
    takes = staticmethod(contiguous)


class Wrong(Rows):
    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        return 2 * super().value(op, inputs, attrs)


class Refusing(Rows):
    """It refuses a call of its part, in long rows."""

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        if inputs[0].shape[-1] > 30:
            raise NotImplementedError("short rows only")
        return super().value(op, inputs, attrs)


class Unsaid(Refusing):
    """It declares nothing, and refuses what it does not do."""

    takes = None

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        (x,) = inputs
        along = x.dim() > 0 and attrs.get("axis", -1) % x.dim() == x.dim() - 1
        if x.dim() != 2 or not x.is_contiguous() or not along:
            raise NotImplementedError("contiguous matrices only")
        return super().value(op, inputs, attrs)


class Raising(Rows):
    @staticmethod
    def takes(call: Any) -> bool:
        raise ValueError("no")


class Values(Rows):
    takes: ClassVar[Any] = {**Rows.takes, "directions": ["value"]}


class Ungrouped(Rows):
    """Steps of one group; it crashes where there are several."""

    takes: ClassVar[Any] = {"options": ["start_step"]}

    def capabilities(self) -> Capabilities:
        parts = {"sgd": self.takes}
        return Capabilities({}, declared("generic"), {"sgd": ("fp32",)}, takes=parts)

    def optimizer(self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> Any:
        assert not hyper.get("groups")
        return OfOneGroup(params, hyper)


class OfOneGroup(Sgd):
    def set_grad_scale(self, grad_scale: float) -> None:
        raise AssertionError("asked outside the declared part")


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Found]:
    """Return a function that compares a row of a backend by its class."""

    def compare(kind: type, of: str = "softmax", direction: str = "value") -> Found:
        module: Any = ModuleType("a_part")
        module.Backend = kind
        monkeypatch.setitem(sys.modules, "a_part", module)
        return found(Row(of, direction), POINTS, backend="a_part:Backend")

    return compare


Compared = Callable[..., Found]


@pytest.mark.parametrize("kind", [Rows, Foreseen])
@pytest.mark.parametrize("direction", ["value", "vjp"])
def test_all_points_lie_inside_the_part(compared: Compared, kind: type, direction: str) -> None:
    whole = compared(kind, direction=direction)
    assert (whole.status, whole.verdict.refused) == (EQUAL, ()), whole.reasons
    assert whole.points > 5 and "inside the declared part" in whole.remark


def test_a_wrong_part_differs(compared: Compared) -> None:
    assert "entries differ" in compared(Wrong).reasons[0]


def test_what_is_declared_may_not_be_refused(compared: Compared) -> None:
    judged = compared(Refusing)
    assert judged.status == DIFFERS
    assert judged.reasons[0].startswith("declared, then refused: softmax(")


def test_where_nothing_is_declared_a_refused_point_is_left_out(compared: Compared) -> None:
    judged = compared(Unsaid)
    assert judged.status in (EQUAL, REFUSED) and judged.verdict.refused
    assert "points refused" in judged.remark


def test_a_declaration_that_raises_is_a_difference(compared: Compared) -> None:
    judged = compared(Raising)
    assert judged.status == DIFFERS and "raised ValueError: no" in judged.reasons[0]


def test_a_direction_that_is_not_declared_has_no_row() -> None:
    backend: Any = Values()
    assert rows(backend=backend) == [Row("softmax", "value")]


def test_steps_lie_inside_the_part(compared: Compared) -> None:
    judged = compared(Ungrouped, "sgd", "update")
    assert judged.status == EQUAL, judged.reasons
