"""Every constraint that a page names is checked, under exactly the label that its prose gives it.

The labels are read out of the page's docstring, so that prose and checks cannot drift apart: a new
line "C4 ..." fails here until a row of the page's REFUSED breaks it, and so does a row or a check
that no prose announces.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from spec.op import IndexRange, Rejected
from spec.ops import OPS
from spec.optim import OPTIMIZERS, clip
from spec.refusals import Miss
from spec.tensor import tensor

LABEL = re.compile(r"^(C\d+)  \S", re.MULTILINE)
"""How a docstring names a constraint: the label, two spaces, a sentence."""


def page_of(name: str) -> ModuleType:
    """Return the module of an op's page."""
    return sys.modules[f"spec.ops.{name}"]


def labels_of(page: ModuleType) -> set[str]:
    """Return the labels that a page's docstring names."""
    return set(LABEL.findall(inspect.getdoc(page) or ""))


CALLS = [
    pytest.param(name, miss, id=f"{name} {miss.label}")
    for name, op in OPS.items()
    for miss in op.refused
]


@pytest.mark.parametrize(("name", "miss"), CALLS)
def test_a_broken_constraint_is_refused_by_its_label(name: str, miss: Miss) -> None:
    inputs = [tensor(x) for x in miss.inputs]
    with pytest.raises(Rejected) as caught:
        OPS[name](*inputs, **miss.attributes)
    assert str(caught.value).startswith(f"{name} {miss.label}: ")
    assert "; got " in str(caught.value), "a refusal says what came"


@pytest.mark.parametrize("name", OPS)
def test_prose_and_checks_name_the_same_labels(name: str) -> None:
    documented = labels_of(page_of(name))
    assert documented == {miss.label for miss in OPS[name].refused}, (
        "a constraint has a row in REFUSED"
    )
    assert documented == {f"C{k + 1}" for k in range(len(documented))}, "labels count from C1"


@pytest.mark.parametrize("name", OPS)
def test_a_page_says_what_its_integers_may_be(name: str) -> None:
    op = OPS[name]
    assert len(op.index_ranges) == len(op.integer_inputs)
    assert {stated.label for stated in op.index_ranges} <= labels_of(page_of(name))


def test_integers_beside_an_interval_are_said_and_allowed() -> None:
    stated = IndexRange("C9", lambda *types, **_: (-8, 7), also=(99, "ignore_index"), called="code")
    op = replace(OPS["nll_loss"], index_ranges=(stated,))
    scores = tensor([[0.0, -1.0]])
    for code in (-8, 7, 99, -100):
        op.check(scores, tensor([code]))
    for code in (-9, 8):
        says = r"C9: every code lies in \[-8, 8\) or equals 99 or equals ignore_index -100; got"
        with pytest.raises(Rejected, match=f"nll_loss {says} {code}"):
            op.check(scores, tensor([code]))


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
    op, row = OPS["concat"], [1.0, 2.0]
    assert op.variadic
    assert (op.inputs, op.names(2)) == (("xs",), ("xs[0]", "xs[1]"))
    for count in (1, 2, 5):
        assert op(*[tensor(row)] * count, axis=0) == tensor(row * count)
    with pytest.raises(Rejected, match=r"^concat: no attribute 'xs'; accepted: axis$"):
        op(tensor(row), xs=tensor(row), axis=0)


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


def test_a_session_supplies_the_counter_of_an_op_that_draws() -> None:
    for name, op in OPS.items():
        assert op.random == ({"seed", "counter"} <= set(op.attributes)), name


HYPERS: list[tuple[str, Any, Mapping[str, Any]]] = [
    (f"{name} {label}", page.hyper, {**dict.fromkeys(page.required, 1.0), **bad})
    for name, page in OPTIMIZERS.items()
    for label, bad in page.refused
]
HYPERS += [
    case
    for x in (0.0, -1.0, math.nan, math.inf, True)
    for case in (
        ("clip C1", clip.check, {"max_norm": x}),
        ("clip C2", clip.check_scale, {"grad_scale": x}),
        ("clip C3", clip.Limits, {"max_value": x}),
    )
]
HYPERS += [
    ("muon C8", OPTIMIZERS["muon"].init, {"parameter": tensor(x)}) for x in (1.0, [1.0], [[[1.0]]])
]


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
