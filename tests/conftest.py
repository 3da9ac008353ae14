"""What all tests share: Hypothesis profiles, draws from seeds alone, folders of artifacts.

`ci`, the default, draws the same examples every time, so that a red run is red again.
`pytest --hypothesis-profile thorough` draws many more of the same in tests that state no number.
`pytest --hypothesis-profile hunt` draws new ones and remembers what failed.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from equivalence.draws import reproducible

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", parent=settings.get_profile("ci"), max_examples=5000)
settings.register_profile("hunt", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("ci")


def pytest_collection_finish() -> None:
    """No test is garbage: whoever collects garbage looks at what came since."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _same_draws() -> Iterator[None]:
    """Which modules a worker has imported by then decides nothing."""
    with reproducible():
        yield


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One folder of artifacts for all tests of a module, where each program is compiled once."""
    from fast.compiled import artifacts

    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(artifacts.VARIABLE, str(folder))
        yield folder / "artifacts"
