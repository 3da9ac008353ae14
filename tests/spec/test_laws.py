"""Every page obeys every law, exactly, in the world of fractions.

There exp, log, tanh and roots are opaque stand-ins: what the laws use of them is their differential
rule and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.cases.probes import Probe, probes
from equivalence.worlds.opaque import opaque
from spec.ops import OPS
from tests.spec.laws import broken


@pytest.fixture(autouse=True, scope="module")
def exact_world() -> Iterator[None]:
    """Let exp, log, tanh and roots be opaque while this module runs."""
    with opaque():
        yield


@pytest.mark.parametrize("name", OPS)
@settings(max_examples=60)
@given(data=st.data())
def test_a_page_obeys_every_law(name: str, data: st.DataObject) -> None:
    assert broken(data.draw(probes(OPS[name]))) == {}


@pytest.mark.holds("Let no gradient pass")
@settings(max_examples=20)
@given(probe=probes(OPS["detach"]))
def test_detach_answers_zero_both_ways(probe: Probe) -> None:
    (x,) = probe.call.inputs
    zero = x.map(lambda _: 0)
    assert probe.call.op.jvp((x,), probe.tangents) == zero
    assert probe.call.op.vjp((x,), probe.cotangents[0]) == (zero,)
