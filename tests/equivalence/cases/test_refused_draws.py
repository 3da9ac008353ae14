"""A draw that a page refuses is discarded and counted; it is never an error.

Planted are reductions whose attribute refuses some extents: the variance with a correction, which
needs more entries than it takes away.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from equivalence.backends.protocol import Capabilities
from equivalence.cases import strategies
from equivalence.cases.covering import PAIRS
from equivalence.cases.families.table import family_of
from equivalence.cases.probes import Call, calls
from equivalence.cases.strata import fixed, rules
from equivalence.cases.strata.added import wishes
from equivalence.cases.strata.fixed import extras, strata
from equivalence.cases.strategies import case_specs, draw_many
from equivalence.dtypes import FP32 as FORMAT
from equivalence.runs.results import Row, read_row
from equivalence.runs.runner import run_row
from equivalence.worlds.contract import Contract
from spec.composite import composite
from spec.op import Op, Type, refuse
from spec.ops import OPS
from spec.shape import size

FP32 = FORMAT.name


def variance(corrections: tuple[int, ...]) -> Op:
    """Return the page of a variance that refuses an axis with no more entries than a correction."""
    mean, square, sub = OPS["mean"], OPS["square"], OPS["sub"]

    def type_rule(
        x: Type,
        *,
        axes: tuple[int, ...] | None = None,
        keepdims: bool = False,
        correction: int = 0,
    ) -> Type:
        count = size(x.shape) // max(size(mean.type_rule(x, axes=axes).shape), 1)
        if count <= correction:
            raise refuse("planted_var C3", "more entries than the correction", count)
        return mean.type_rule(x, axes=axes, keepdims=keepdims)

    def program(
        ops: Any,
        x: Any,
        *,
        axes: tuple[int, ...] | None = None,
        keepdims: bool = False,
        correction: int = 0,
    ) -> Any:
        centre = ops.mean(x, axes=axes, keepdims=True)
        centred = ops.sub(x, ops.broadcast_to(centre, shape=x.shape))
        gone = ops.mean(ops.square(centred), axes=axes, keepdims=keepdims)
        count = size(x.shape) // max(size(gone.shape), 1)
        factor = ops.constant(count, gone.shape, like=gone)
        return ops.div(
            ops.mul(gone, factor), ops.constant(count - correction, gone.shape, like=gone)
        )

    return composite(
        "planted_var",
        type_rule,
        program,
        (mean, square, sub, OPS["broadcast_to"], OPS["mul"], OPS["div"]),
        tried={"correction": corrections},
    )


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Op:
    op = variance(getattr(request, "param", (0, 1)))
    monkeypatch.setitem(OPS, op.name, op)
    return op


def test_a_draw_that_the_page_refuses_is_counted(planted: Op) -> None:
    refused: Counter[str] = Counter()
    drawn = draw_many(case_specs(planted.name, "value", FP32, refused), 60, seed_=0)
    assert len(drawn) > 40
    assert all(planted.type_rule(*case.types(), **case.attributes()) for case in drawn)
    assert refused.total() > 0 and all("planted_var C3" in said for said in refused)


@pytest.mark.parametrize("planted", [(0, 1), (2, 0)], indirect=True)
@pytest.mark.parametrize("direction", ["value", "vjp"])
def test_fixed_cases_are_what_the_page_accepts(planted: Op, direction: str) -> None:
    assert family_of(planted).name == "reductions"
    found = (*strata(planted.name, direction, FP32, PAIRS), *extras(planted.name, direction, FP32))
    assert len(found) > 50
    assert all(planted.type_rule(*case.types(), **case.attributes()) for case in found)
    met = {case.attributes()["correction"] for case in found if "correction" in case.attributes()}
    assert met == set(planted.tried["correction"])


def test_a_small_call_that_the_page_refuses_is_counted(planted: Op) -> None:
    refused: Counter[str] = Counter()

    @settings(max_examples=60)
    @given(call=calls(planted, refused))
    def draws(call: Call) -> None:
        assert call.type()

    draws()
    assert refused.total() > 0


class Right:
    """The variance, by torch."""

    name = "right"

    def capabilities(self) -> Capabilities:
        contract = Contract("single", FORMAT, FORMAT)
        return Capabilities(ops={"planted_var": [FP32]}, contract=lambda op, dtype: contract)

    def value(self, op: str, inputs: Any, attrs: Any) -> Any:
        axes = attrs.get("axes")
        axes = tuple(range(inputs[0].dim())) if axes is None else axes
        correction, keepdims = attrs.get("correction", 0), attrs.get("keepdims", False)
        if not axes:
            return inputs[0] * 0
        return inputs[0].double().var(axes, correction=correction, keepdim=keepdims).float()


def test_a_row_says_how_many_draws_it_discarded(planted: Op) -> None:
    row = Row(planted.name, "value", FP32)
    found = run_row(Right(), row, counted=20, seed=0, findings=())
    assert found.status != "error", found.failures
    plain = found.to_dict()
    assert plain["discarded"] == found.discarded > 0
    assert read_row(plain) == found
    assert "discarded" not in replace(found, discarded=0).to_dict()


@pytest.mark.full
@pytest.mark.parametrize("planted", [(10**6,)], indirect=True)
def test_a_row_whose_draws_are_all_refused_says_so(
    planted: Op, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (strategies, rules, fixed, wishes):
        monkeypatch.setattr(module, "family_of", lambda _: family_of(OPS["sum"]))
    refused: Counter[str] = Counter()
    assert draw_many(case_specs(planted.name, "value", FP32, refused), 8, 0) == []
    assert refused.total() > 8
    found = run_row(Right(), Row(planted.name, "value", FP32), counted=8, seed=0, findings=())
    assert found.status == "vacuous" and found.discarded > 8
    assert "too many to go on; mostly: planted_var C3" in found.left_out[0]
