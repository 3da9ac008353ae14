"""The wheel holds exactly the three packages, and the base install needs nothing."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tools.tree import PACKAGES, ROOT, SHIPPED

pytestmark = pytest.mark.slow


def oddities(names: Iterable[str]) -> Iterator[str]:
    """Say what a wheel holds beside the three packages and its own metadata, and what it lacks."""
    names = list(names)
    for top in sorted({name.partition("/")[0] for name in names}):
        if top not in SHIPPED and not top.endswith(".dist-info"):
            yield f"the wheel holds {top}; the packages are listed in pyproject.toml, under hatch"
    for package in SHIPPED:
        for needed in ("__init__.py", "py.typed"):
            if f"{package}/{needed}" not in names:
                yield f"the wheel lacks {package}/{needed}"
    for name in names:
        if "__pycache__" in name or Path(name).name.startswith("test_"):
            yield f"the wheel holds {name}, which only a developer needs"


def built(root: Path, folder: Path) -> zipfile.ZipFile:
    """Build the wheel with the backend that is installed here, so that no network is needed."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=root, check=True, capture_output=True)
    return zipfile.ZipFile(next(folder.glob("twingrad-*.whl")))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel of this tree."""
    return built(ROOT, tmp_path_factory.mktemp("wheel"))


def test_wheel_holds_the_three_packages(wheel: zipfile.ZipFile) -> None:
    found = list(oddities(wheel.namelist()))
    assert not found, "\n".join(found)


def test_base_install_needs_nothing(wheel: zipfile.ZipFile) -> None:
    name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
    lines = wheel.read(name).decode().splitlines()
    needed = [
        line for line in lines if line.startswith("Requires-Dist:") and "extra ==" not in line
    ]
    assert not needed, "the base install is spec, which needs only Python: " + "; ".join(needed)
    assert "Classifier: Private :: Do Not Upload" in lines


def test_planted_oddities_are_found() -> None:
    good = [f"{p}/{n}" for p in sorted(SHIPPED) for n in ("__init__.py", "py.typed")]
    bad = [*good[1:], "tests/test_x.py", "twingrad-0.1.0.dist-info/METADATA"]
    assert not list(oddities([*good, bad[-1]]))
    assert list(oddities(bad)) == [
        "the wheel holds tests; the packages are listed in pyproject.toml, under hatch",
        "the wheel lacks equivalence/__init__.py",
        "the wheel holds tests/test_x.py, which only a developer needs",
    ]


def test_a_wheel_that_holds_the_bench_is_found(
    tmp_path: Path, plant: Callable[[str, str], None]
) -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = 'packages = ["spec", "fast", "equivalence"'
    assert project.count(f"{listed}]") == 1
    for name in ("README.md", "LICENSE"):
        plant(name, "")
    for package in PACKAGES:
        plant(f"{package}/__init__.py", "")
        plant(f"{package}/py.typed", "")
    plant("pyproject.toml", project)
    assert not list(oddities(built(tmp_path, tmp_path / "good").namelist()))
    plant("pyproject.toml", project.replace(listed, f'{listed}, "population"'))
    assert list(oddities(built(tmp_path, tmp_path / "bad").namelist())) == [
        "the wheel holds population; the packages are listed in pyproject.toml, under hatch"
    ]
