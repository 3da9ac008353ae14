"""Optimizers and whole training steps on exact numbers."""

from __future__ import annotations

import os

os.environ.setdefault("TRITON_INTERPRET", "1")

import pytest

from equivalence.cases.declared.inside import all_of
from equivalence.cases.updates.extras import names_extras
from equivalence.exact import training, updates
from equivalence.exact.points import standing
from equivalence.exact.rows import Row, found
from spec.optim import OPTIMIZERS
from tests.turns import of_pages


def chooses(optimizer: str) -> bool:
    """Say whether a page asks of a number that it computed whether it is larger than another."""
    page = OPTIMIZERS[optimizer]
    hyper = page.hyper(**page.permitted({name: among[0] for name, among in page.tried.items()}))
    with standing() as point:
        shape = (1, 3) if page.matrices else (3,)
        parameter, gradient = (one.numbers for one in point.draw(shape, shape))
        page.update(parameter, gradient, page.init(parameter), hyper)
        return point.verdict().bound is None


@pytest.mark.parametrize("name", [name for name, page in OPTIMIZERS.items() if page.repeated])
def test_what_an_update_repeats_is_repeated_a_few_times(name: str) -> None:
    # Five turns of Newton and Schulz, twice, are numbers of a million digits: minutes for one case.
    repeated = OPTIMIZERS[name].repeated
    assert repeated is not None
    for direction in (updates.FREE, updates.CLIPPED):
        counts = {case.settings()[repeated.count] for case in updates.cases(name, direction)}
        assert counts == {0, 1, updates.TURNS}


@pytest.mark.parametrize("optimizer", of_pages(OPTIMIZERS, 3))
def test_a_kernel_takes_the_steps_of_its_page(optimizer: str) -> None:
    one = found(Row(optimizer, updates.FREE), 1)
    assert one.equal, one.verdict.differences
    if chooses(optimizer):
        assert one.bound == "no bound"
    else:
        assert one.verdict.bound is not None and one.verdict.bound < 2.0**-40


@pytest.mark.parametrize("optimizer", of_pages(OPTIMIZERS, 3))
def test_clipped_steps_are_those_of_the_page_but_have_no_bound(optimizer: str) -> None:
    one = found(Row(optimizer, updates.CLIPPED), 2)
    assert one.equal, one.verdict.differences
    assert one.bound == "no bound"


@pytest.mark.parametrize("optimizer", of_pages(OPTIMIZERS, 3))
def test_a_kernel_takes_steps_with_extras_as_its_page(optimizer: str) -> None:
    one = found(Row(optimizer, updates.EXTRAS), 2)
    assert one.equal, one.verdict.differences
    cases = updates.cases(optimizer, updates.EXTRAS, all_of(optimizer, updates.DTYPE))
    assert cases and all(map(names_extras, cases))


@pytest.mark.parametrize("name", training.TRAININGS)
def test_a_training_goes_as_the_reference_says(name: str) -> None:
    one = found(Row(name, "training"))
    assert one.equal, one.verdict.differences
