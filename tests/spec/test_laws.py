"""Every page obeys every law, exactly, in the world of fractions.

There exp, log, tanh and roots are opaque stand-ins: what the laws use of them is their differential
rule and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from equivalence.cases.probes import Call, Probe, probes
from equivalence.trials.laws import broken
from equivalence.worlds.opaque import opaque
from spec import scalar
from spec.kinds import pointwise, same_shape
from spec.op import Op
from spec.ops import OPS
from spec.tensor import tensor
from tests.turns import of_pages


@pytest.fixture(autouse=True, scope="module")
def exact_world() -> Iterator[None]:
    """Let exp, log, tanh and roots be opaque while this module runs."""
    with opaque():
        yield


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.parametrize("name", of_pages(OPS, 4))
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_page_obeys_every_law(name: str, data: st.DataObject) -> None:
    assert broken(data.draw(probes(OPS[name]))) == {}


def _tan(x: Any) -> Any:
    return scalar.divide(scalar.sin(x), scalar.cos(x))


def _half_sum(x: Any) -> Any:
    return scalar.divide(scalar.exp(x) + scalar.exp(-x), 2)


TWO_FUNCTIONS = {
    "log_cosh": (lambda x: scalar.log(_half_sum(x)), scalar.tanh),
    "damped": (
        lambda x: scalar.exp(x) * scalar.tanh(x),
        lambda x: scalar.exp(x) * (1 + scalar.tanh(x) - scalar.square(scalar.tanh(x))),
    ),
    "tan": (_tan, lambda x: 1 + scalar.square(_tan(x))),
    "log_of_wave": (
        lambda x: scalar.log(2 + scalar.sin(x)),
        lambda x: scalar.divide(scalar.cos(x), 2 + scalar.sin(x)),
    ),
}
"""Pages of two elementary functions: a value, and a rate that is stated through another one."""


def page(name: str, value: Any, rate: Any) -> Op:
    """Return the record of a pointwise page."""
    rule = partial(same_shape, name)
    return pointwise(name, lambda x: rule(x), lambda x: x.map(value), lambda x: (rate(x),))


@pytest.mark.parametrize("name", TWO_FUNCTIONS)
@settings(max_examples=60)
@given(probe=probes(OPS["tanh"]))
def test_two_functions_may_stand_on_one_page(name: str, probe: Probe) -> None:
    assert broken(probe.with_op(page(name, *TWO_FUNCTIONS[name]))) == {}


@pytest.mark.parametrize("name", TWO_FUNCTIONS)
def test_a_wrong_rate_of_two_functions_is_noticed(name: str) -> None:
    value, rate = TWO_FUNCTIONS[name]
    wrong = page(name, value, lambda x: rate(x) + scalar.exp(x) - scalar.tanh(x) - 1)
    x, t = tensor([Fraction(1), Fraction(-2)]), tensor([Fraction(1), Fraction(3)])
    found = broken(Probe(Call(wrong, (x,)), (t,), (t, x), (Fraction(2), Fraction(3))))
    assert "pushforward" in found


@pytest.mark.holds("Let no gradient pass")
@settings(max_examples=20)
@given(probe=probes(OPS["detach"]))
def test_detach_answers_zero_both_ways(probe: Probe) -> None:
    (x,) = probe.call.inputs
    zero = x.map(lambda _: 0)
    assert probe.call.op.jvp((x,), probe.tangents) == zero
    assert probe.call.op.vjp((x,), probe.cotangents[0]) == (zero,)
