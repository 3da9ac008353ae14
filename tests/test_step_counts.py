"""What a training step costs without a clock stays within its bounds, and what it adds is seen."""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks import targets
from benchmarks.counts import calls, dispatches
from benchmarks.cpu import our_step


def within_bounds(step: Callable[[], object]) -> tuple[bool, bool]:
    return dispatches(step) <= targets.STEP_DISPATCHES, calls(step) <= targets.STEP_CALLS


def test_a_step_dispatches_and_calls_no_more_than_its_bounds() -> None:
    assert within_bounds(our_step()) == (True, True)


def test_one_more_dispatch_is_counted_and_so_is_one_more_call() -> None:
    step, one = our_step(), torch.ones(())

    def dispatching() -> None:
        step()
        one.neg()

    def calling() -> None:
        (lambda: step())()

    assert dispatches(dispatching) == dispatches(step) + 1
    # The function around the step is one, and the lambda another.
    assert (calls(dispatching), calls(calling)) == (calls(step) + 1, calls(step) + 2)


def test_what_exceeds_a_bound_is_refused() -> None:
    step, one = our_step(), torch.ones(())
    spare = targets.STEP_DISPATCHES - dispatches(step), targets.STEP_CALLS - calls(step)

    def more() -> None:
        step()
        for _ in range(spare[0] + 1):
            one.neg()
        for _ in range(spare[1]):
            (lambda: None)()

    assert within_bounds(more) == (False, False)
