"""Every constraint that a page names is checked, under exactly the label that its prose gives it.

The labels are read out of the page's docstring, so that prose and checks cannot drift apart: a new
line "C4 ..." fails here until a call below breaks it, and so does a check that no prose announces.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest

from spec.op import Rejected
from spec.ops import OPS
from spec.optim import OPTIMIZERS, clip
from spec.tensor import Nested, tensor

LABEL = re.compile(r"^(C\d+)  \S", re.MULTILINE)
"""How a docstring names a constraint: the label, two spaces, a sentence."""


def page_of(name: str) -> ModuleType:
    """Return the module of an op's page."""
    return sys.modules[f"spec.ops.{name}"]


def labels_of(page: ModuleType) -> set[str]:
    """Return the labels that a page's docstring names."""
    return set(LABEL.findall(inspect.getdoc(page) or ""))


@dataclass(frozen=True)
class Refused:
    """A call that breaks one constraint and no other."""

    label: str
    inputs: tuple[Nested, ...]
    attributes: dict[str, Any] = field(default_factory=dict)


def _refused(label: str, *inputs: Nested, **attributes: Any) -> Refused:
    return Refused(label, inputs, attributes)


ROW, MATRIX, CUBE = [1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], [[[1.0]]]

_PAIR = [
    _refused("C1", ROW, [1.0]),
    _refused("C1", ROW, MATRIX),
    _refused("C1", [1.0], 1.0),
]
_AXES = [
    _refused("C1", MATRIX, axes=(2,)),
    _refused("C1", MATRIX, axes=(0, -3)),
    _refused("C1", 1.0, axes=(0,)),
    _refused("C1", MATRIX, axes=(True,)),
    _refused("C2", MATRIX, axes=(0, 0)),
    _refused("C2", MATRIX, axes=(1, -1)),
]
_AXIS = [_refused("C1", ROW, axis=1), _refused("C1", ROW, axis=-2), _refused("C1", 1.0)]
_LOSS = [
    _refused("C1", ROW, [0, 1]),
    _refused("C1", CUBE, [0]),
    _refused("C2", MATRIX, [0]),
    _refused("C2", MATRIX, [[0, 1]]),
    _refused("C2", MATRIX, [0.0, 1.0]),
    _refused("C2", MATRIX, [True, False]),
    _refused("C3", MATRIX, [0, 2]),
    _refused("C3", MATRIX, [-1, 0]),
    _refused("C3", MATRIX, [0, -100], ignore_index=-1),
    _refused("C4", MATRIX, [0, 1], reduction="average"),
    _refused("C4", MATRIX, [0, 1], reduction=None),
]


def _words(*inputs: Nested, **attributes: Any) -> list[Refused]:
    """Break what an op asks of its seed and its call counter."""
    call = {"seed": 7, "counter": 0, **attributes}
    return [
        _refused(label, *inputs, **{**call, name: bad})
        for label, name in (("C2", "seed"), ("C3", "counter"))
        for bad in (-1, 2**64, 1.0, True, None)
    ]


def _source(**attributes: Any) -> list[Refused]:
    """Break what an op without inputs asks of its shape, its seed and its call counter."""
    call = {"seed": 7, "counter": 0, **attributes}
    shapes = [(-1,), (2, -1), (2.0,), (True,)]
    return [*[_refused("C1", shape=s, **call) for s in shapes], *_words(shape=(2,), **attributes)]


NO_PROBABILITY = (-0.1, 1.1, math.nan, math.inf, True, "half")

REFUSED: dict[str, list[Refused]] = {
    "add": _PAIR,
    "sub": _PAIR,
    "mul": _PAIR,
    "div": _PAIR,
    "maximum": _PAIR,
    "minimum": _PAIR,
    "where": [
        _refused("C1", [True, False], ROW, [1.0]),
        _refused("C1", [True, False], [1.0], ROW),
        _refused("C1", [True], ROW, ROW),
        _refused("C1", True, ROW, ROW),
        _refused("C1", [True, False], MATRIX, MATRIX),
        _refused("C2", [1, 0], ROW, ROW),
        _refused("C2", [1.0, 0.0], ROW, ROW),
        _refused("C2", [True, 0], ROW, ROW),
    ],
    "sum": _AXES,
    "mean": [
        *_AXES,
        _refused("C3", []),
        _refused("C3", [[], []], axes=(1,)),
    ],
    "max": [
        *_AXES,
        _refused("C3", []),
        _refused("C3", [[], []], axes=(1,)),
    ],
    "broadcast_to": [
        _refused("C1", ROW, shape=(3,)),
        _refused("C1", ROW, shape=(2, 1)),
        _refused("C1", MATRIX, shape=(2,)),
        _refused("C1", [1.0], shape=()),
        _refused("C1", [1.0], shape=(-1,)),
        _refused("C1", 1.0, shape=(2, -1)),
    ],
    "reshape": [
        _refused("C1", ROW, shape=(3,)),
        _refused("C1", [], shape=()),
        _refused("C2", ROW, shape=(-1,)),
        _refused("C2", ROW, shape=(-1, -2)),
        _refused("C2", ROW, shape=(2.0,)),
        _refused("C2", [1.0], shape=(True,)),
    ],
    "permute": [
        _refused("C1", MATRIX, axes=(0,)),
        _refused("C1", MATRIX, axes=(0, 0)),
        _refused("C1", MATRIX, axes=(0, 2)),
        _refused("C1", MATRIX, axes=(1, -1)),
        _refused("C1", MATRIX, axes=(0, 1, 1)),
    ],
    "take": [
        _refused("C1", ROW, [0], axis=1),
        _refused("C1", ROW, [0], axis=-2),
        _refused("C1", 1.0, [0], axis=0),
        _refused("C2", ROW, [0.0], axis=0),
        _refused("C2", ROW, [True], axis=0),
        _refused("C3", ROW, [2], axis=0),
        _refused("C3", ROW, [-1], axis=0),
        _refused("C3", MATRIX, [[0], [2]], axis=-1),
    ],
    "scatter_add": [
        _refused("C1", ROW, [0], [1.0], axis=1),
        _refused("C1", 1.0, [0], [1.0], axis=0),
        _refused("C2", ROW, [0.0], [1.0], axis=0),
        _refused("C2", ROW, [True], [1.0], axis=0),
        _refused("C3", ROW, [2], [1.0], axis=0),
        _refused("C3", MATRIX, [0, -1], MATRIX, axis=1),
        _refused("C4", ROW, [0], ROW, axis=0),
        _refused("C4", ROW, 0, [1.0], axis=0),
        _refused("C4", MATRIX, [0], ROW, axis=0),
    ],
    "slice": [
        _refused("C1", ROW, axis=1, start=0, length=1),
        _refused("C1", ROW, axis=True, start=0, length=1),
        _refused("C1", 1.0, axis=0, start=0, length=0),
        _refused("C2", ROW, axis=0, start=-1, length=1),
        _refused("C2", ROW, axis=0, start=1, length=-1),
        _refused("C2", ROW, axis=0, start=1, length=2),
        _refused("C2", ROW, axis=0, start=3, length=0),
        _refused("C2", ROW, axis=0, start=0.0, length=1),
        _refused("C2", ROW, axis=0, start=0, length=True),
    ],
    "concat": [
        _refused("C1", axis=0),
        _refused("C2", ROW, ROW, axis=1),
        _refused("C2", ROW, ROW, axis=-2),
        _refused("C2", 1.0, 1.0, axis=0),
        _refused("C3", MATRIX, [ROW], axis=1),
        _refused("C3", MATRIX, ROW, axis=0),
        _refused("C3", MATRIX, ROW, axis=1),
        _refused("C3", MATRIX, MATRIX, CUBE, axis=0),
    ],
    "matmul": [
        _refused("C1", ROW, MATRIX),
        _refused("C1", MATRIX, ROW),
        _refused("C1", CUBE, CUBE),
        _refused("C2", MATRIX, [ROW]),
    ],
    "linear": [
        _refused("C1", 1.0, MATRIX, ROW),
        _refused("C1", ROW, ROW, ROW),
        _refused("C1", ROW, MATRIX, 1.0),
        _refused("C2", [1.0], MATRIX, ROW),
        _refused("C3", ROW, MATRIX, [1.0]),
    ],
    "softmax": _AXIS,
    "log_softmax": _AXIS,
    "layer_norm": [
        _refused("C1", 1.0, ROW, ROW),
        _refused("C2", MATRIX, [1.0], ROW),
        _refused("C2", MATRIX, ROW, [1.0]),
        _refused("C2", MATRIX, ROW, MATRIX),
        _refused("C3", MATRIX, ROW, ROW, eps=0.0),
        _refused("C3", MATRIX, ROW, ROW, eps=-1e-5),
        _refused("C3", MATRIX, ROW, ROW, eps=math.inf),
        _refused("C3", MATRIX, ROW, ROW, eps=math.nan),
    ],
    "mse_loss": [
        *_PAIR,
        _refused("C2", ROW, ROW, reduction="average"),
        _refused("C2", ROW, ROW, reduction=None),
        _refused("C3", [], []),
        _refused("C3", [[], []], [[], []], reduction="mean"),
    ],
    "nll_loss": _LOSS,
    "cross_entropy": [
        *_LOSS,
        _refused("C5", MATRIX, [0, 1], label_smoothing=-0.1),
        _refused("C5", MATRIX, [0, 1], label_smoothing=1.1),
        _refused("C5", MATRIX, [0, 1], label_smoothing=math.nan),
    ],
    "rand_uniform": _source(),
    "rand_normal": _source(),
    "bernoulli_mask": [
        *_source(keep_prob=0.5),
        *[_refused("C4", shape=(2,), keep_prob=bad, seed=7, counter=0) for bad in NO_PROBABILITY],
    ],
    "dropout": [
        *[_refused("C1", ROW, p=bad, seed=7, counter=0) for bad in NO_PROBABILITY],
        *_words(ROW, p=0.5),
    ],
}

CALLS = [(name, call) for name, calls in REFUSED.items() for call in calls]


@pytest.mark.parametrize(("name", "call"), CALLS, ids=lambda x: getattr(x, "label", x))
def test_a_broken_constraint_is_refused_by_its_label(name: str, call: Refused) -> None:
    inputs = [tensor(x) for x in call.inputs]
    with pytest.raises(Rejected) as caught:
        OPS[name](*inputs, **call.attributes)
    assert str(caught.value).startswith(f"{name} {call.label}: ")
    assert "; got " in str(caught.value), "a refusal says what came"


@pytest.mark.parametrize("name", OPS)
def test_prose_and_checks_name_the_same_labels(name: str) -> None:
    documented = labels_of(page_of(name))
    assert documented == {call.label for call in REFUSED.get(name, [])}
    assert documented == {f"C{k + 1}" for k in range(len(documented))}, "labels count from C1"


@pytest.mark.parametrize("name", OPS)
def test_the_code_names_no_label_that_the_prose_does_not(name: str) -> None:
    page = page_of(name)
    code = inspect.getsource(page).replace(page.__doc__ or "", "")
    assert set(re.findall(r"\bC\d+\b", code)) <= labels_of(page)


@pytest.mark.parametrize("name", OPS)
def test_a_wrong_number_of_inputs_is_refused(name: str) -> None:
    op = OPS[name]
    right = len(op.inputs)
    for count in () if op.variadic else {0, max(right - 1, 0), right + 1} - {right}:
        with pytest.raises(Rejected, match=f"^{name}: takes {len(op.inputs)} inputs .*got {count}"):
            op(*[tensor(1.0)] * count)


def test_a_variadic_op_takes_any_number_of_inputs_by_position() -> None:
    assert [name for name, op in OPS.items() if op.variadic] == ["concat"]
    op = OPS["concat"]
    assert (op.inputs, op.names(2)) == (("xs",), ("xs[0]", "xs[1]"))
    for count in (1, 2, 5):
        assert op(*[tensor(ROW)] * count, axis=0) == tensor(ROW * count)
    with pytest.raises(Rejected, match=r"^concat: no attribute 'xs'; accepted: axis$"):
        op(tensor(ROW), xs=tensor(ROW), axis=0)


@pytest.mark.parametrize("name", OPS)
def test_an_unknown_attribute_is_refused(name: str) -> None:
    op = OPS[name]
    accepted = ", ".join(op.attributes) or "none"
    with pytest.raises(Rejected, match=f"^{name}: no attribute 'dim'; accepted: {accepted}$"):
        op(*[tensor(1.0)] * len(op.inputs), dim=0)


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        (name, attribute)
        for name, op in OPS.items()
        for attribute, default in op.attributes.items()
        if default is inspect.Parameter.empty
    ],
)
def test_a_missing_attribute_is_refused(name: str, attribute: str) -> None:
    op = OPS[name]
    others = dict.fromkeys(op.attributes.keys() - {attribute}, 0)
    with pytest.raises(Rejected, match=f"^{name}: the attribute '{attribute}' is required$"):
        op(*[tensor(1.0)] * len(op.inputs), **others)


def test_required_attributes_are_those_of_the_moves_and_of_the_draws() -> None:
    required = {
        name
        for name, op in OPS.items()
        if not op.random
        and any(default is inspect.Parameter.empty for default in op.attributes.values())
    }
    assert required == {
        "broadcast_to",
        "reshape",
        "permute",
        "take",
        "scatter_add",
        "slice",
        "concat",
    }
    draws = ["rand_uniform", "rand_normal", "bernoulli_mask", "dropout"]
    assert [name for name, op in OPS.items() if op.random] == draws


HYPERS: list[tuple[str, Any, Mapping[str, Any]]] = [
    (f"{name} {label}", page.hyper, {**dict.fromkeys(page.required, 1.0), **bad})
    for name, page in OPTIMIZERS.items()
    for label, bad in page.refused
]
HYPERS += [("clip C1", clip.check, {"max_norm": x}) for x in (0.0, -1.0, math.nan, math.inf, True)]


@pytest.mark.parametrize(("label", "make", "hyper"), HYPERS)
def test_a_bad_hyper_parameter_is_refused(label: str, make: Any, hyper: Mapping[str, Any]) -> None:
    with pytest.raises(Rejected) as caught:
        make(**hyper)
    assert str(caught.value).startswith(f"{label}: ")


@pytest.mark.parametrize(
    "page", [*(sys.modules[page.update.__module__] for page in OPTIMIZERS.values()), clip]
)
def test_optimizers_name_the_labels_that_they_check(page: ModuleType) -> None:
    name = page.__name__.rpartition(".")[2]
    checked = {label.split()[1] for label, _, _ in HYPERS if label.split()[0] == name}
    assert labels_of(page) == checked
