"""Each line of the table of docs/interpreters.md is run: it is what it says, and computes right."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from fast import Unavailable
from fast.compiled import lowered
from tools.engine_features import (
    FEATURES,
    ONE,
    PASSES,
    PIECES,
    REFUSED,
    Feature,
    parameters,
    session_of,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("inductor"),
    pytest.mark.usefixtures("cache"),
]


def watched(patch: pytest.MonkeyPatch) -> list[str]:
    """Note which artifacts run: whole steps, or both passes; a forward pass alone is neither.

    Passes of pieces whose last one is updated with are of the step of those.
    """
    ran: list[str] = []
    step, run = lowered.Lowered.step, lowered.Lowered.run

    def steps(self: Any, seeded: int, given: Any, sums: Any, update: Any) -> Any:
        if update is None:
            ran.append(PASSES)
        elif any(sums.kept):
            ran[:] = [PIECES] if set(ran) == {PASSES} else [*ran, PIECES]
        else:
            ran.append(ONE)
        return step(self, seeded, given, sums, update)

    def passes(self: Any, seeded: int | None, given: Any) -> Any:
        if seeded is not None:
            ran.append(PASSES)
        return run(self, seeded, given)

    patch.setattr(lowered.Lowered, "step", steps)
    patch.setattr(lowered.Lowered, "run", passes)
    return ran


@pytest.mark.full
@pytest.mark.parametrize("feature", FEATURES, ids=lambda f: f.name)
def test_a_line_of_the_table_is_so(feature: Feature, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = watched(monkeypatch)
    session, eager = (session_of(feature, engine) for engine in ("inductor", None))
    params, others = parameters(session), parameters(eager)
    if feature.runs == REFUSED:
        with pytest.raises(Unavailable, match="engine 'inductor'"):
            feature.training(session, params)
        return
    found = feature.training(session, params)
    assert ran and set(ran) == {feature.runs}
    wanted = feature.training(eager, others)
    assert session.random_counter == eager.random_counter
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.shape == theirs.shape
        assert torch.equal(ours, theirs) or not feature.exact
        assert all(map(math.isfinite, ours.flatten().tolist()))
    assert any(not torch.equal(p.value(), torch.ones(4)) for p in params[1:])
