"""Where the optimizers for torch update: where parameters lie, or in flat memory."""

from __future__ import annotations

import pytest

from fast.torch import _optimizers


@pytest.fixture(params=["in place", pytest.param("flat", marks=pytest.mark.full)])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Try a test in both: kernels of Triton have flat memory, which twins can have, too."""
    if request.param == "flat":
        monkeypatch.setattr(_optimizers, "IN_PLACE", frozenset())
