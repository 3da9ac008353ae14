"""Index inputs hold what their page says, from the lowest integer to the highest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from equivalence.cases.built import build
from equivalence.cases.families.table import family_of
from equivalence.cases.nearmiss import misses, reaction, refused_by_reference
from equivalence.cases.probes import calls
from equivalence.cases.sizes import build_sized, growths, sized
from equivalence.cases.strata.fixed import strata
from equivalence.cases.strategies import draw_many
from equivalence.registry import OPS, Unregistered, register, registered
from equivalence.trials.trial import trial
from spec.composite import composite
from spec.kinds import same_shape
from spec.op import IndexRange, Op, Type, refuse
from spec.refusals import Miss


def gated(bounds: tuple[int, int] = (-8, 7), *also: int | str) -> Op:
    """Make the page of numbers times integers, entry by entry."""

    def rule(x: Type, codes: Type) -> Type:
        if not codes.index:
            raise refuse("gated C2", "the codes are integers", codes)
        return same_shape("gated", x, codes)

    def program(ops: Any, x: Any, codes: Any) -> Any:
        return ops.mul(x, codes)

    ranges = (IndexRange("C3", lambda *types, **attributes: bounds, also, "code"),)
    return composite("gated", rule, program, (OPS["mul"],), index_inputs=(1,), index_ranges=ranges)


@pytest.fixture
def page() -> Iterator[Op]:
    """Know the page of codes of four bits while a test runs."""
    record = gated()
    with registered(record):
        yield record


def test_a_page_that_states_no_range_is_refused() -> None:
    says = (
        r"gated reads integers from codes, and its record has 0 index_ranges; give it 1, each of "
        r"them spec.op.IndexRange\(.*as in lambda \*types, \*\*attributes: \(-8, 7\)"
    )
    with pytest.raises(Unregistered, match=says):
        register(replace(gated(), index_ranges=()))
    with pytest.raises(Unregistered, match="gated reads integers from no input, and its record"):
        register(replace(gated(), index_inputs=(), mask_inputs=()))
    assert "gated" not in OPS


def test_cases_and_probes_go_from_one_end_to_the_other(page: Op) -> None:
    assert family_of(page).name == "elementwise"
    inputs = [build(case).views()[1] for case in strata("gated", "value", "fp32")]
    assert {int(code) for codes in inputs for code in codes.flatten()} == set(range(-8, 8))
    large = sized(growths("gated")[0], 500, "gated", "value", "fp32", "integers")
    assert set(build_sized(large).views()[1].tolist()) == set(range(-8, 8))
    drawn = draw_many(calls(page).map(lambda call: tuple(call.inputs[1].data)), 60, 0)
    assert {code for codes in drawn for code in codes} == set(range(-8, 8))


def test_a_trial_takes_a_page_of_codes(page: Op) -> None:
    found = trial(page)
    assert found.tried == 30 and not found.broken and not found.untried


def test_what_is_allowed_beside_the_interval_is_drawn() -> None:
    with registered(gated((0, 1), 50, 60)):
        inputs = [build(case).views()[1] for case in strata("gated", "value", "fp32")]
        assert {int(code) for view in inputs for code in view.flatten()} == {0, 1, 50, 60}


def test_both_ends_are_missed_and_each_backend_has_to_refuse(page: Op) -> None:
    class Careless:
        name = "careless"

        def value(self, op: str, inputs: Any, attributes: Any) -> Any:
            return inputs[0] * inputs[1]

    below, above = misses("gated")
    assert (below.label, above.label) == ("C3", "C3")
    assert (below.inputs[1], above.inputs[1]) == (-9, 8)
    for miss in (below, above):
        assert refused_by_reference("gated", miss) is None
        what, said = reaction("gated", miss, Careless(), "fp32", labelled=False)
        assert what == "accepted" and said.startswith("careless accepts gated(")


def test_an_end_that_the_page_misses_itself_is_not_missed_again() -> None:
    own = Miss("C3", ([1.0], [-20]))
    with registered(replace(gated(), refused=(own,))):
        first, second = misses("gated")
        assert first is own and second.inputs[1] == 8
    with registered(gated((-(2**63), 2**63 - 1))):
        assert misses("gated") == ()


@pytest.mark.parametrize("name", [name for name, op in OPS.items() if op.integer_inputs])
def test_the_pages_of_the_book_miss_both_ends_themselves(name: str) -> None:
    assert misses(name) == OPS[name].refused
