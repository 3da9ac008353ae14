"""The suite has power: it catches every seeded bug, and no correct kernel in another order.

Each patch is applied to a copy of `fast` that a process of its own imports in place of the tree's.
What catches a mutant must pass on the unchanged copy, and must say what is wrong: a mutant that
only crashes has not been caught.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from equivalence.runs.results import CONFORMANT, NONCONFORMANT
from tests.mutants.catalogue import MUTANTS, Mutant
from tests.mutants.patch import Patch, StalePatch, copy_of_fast
from tests.mutants.reordered import REORDERED, Reordered
from tests.mutants.running import Found, run_catchers
from tests.turns import in_turns
from tools.generate_mutants import DOCUMENT, generate
from tools.tree import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def control(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Found]:
    """Return what each catcher finds in an unchanged copy: asked once, by whichever worker."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = copy_of_fast(tmp_path_factory.mktemp("unchanged"))

    def look_up(catcher: str) -> Found:
        path = shared / f"unchanged {catcher}.json"
        if not path.exists():
            _, (result,) = run_catchers(folder, [catcher])
            half = base / "half.json"
            half.write_text(json.dumps(result), encoding="utf-8")
            half.rename(path)
        found: Found = json.loads(path.read_text(encoding="utf-8"))
        return found

    return look_up


@pytest.mark.parametrize("mutant", in_turns(MUTANTS, 12), ids=lambda m: m.name)
def test_the_suite_catches(mutant: Mutant, control: Callable[[str], Found], tmp_path: Path) -> None:
    code, (found,) = run_catchers(copy_of_fast(tmp_path, mutant), [mutant.catcher])
    over = "went on" if found["worst"] is None else f"{found['worst']:.4} of budget"
    print(f"{mutant.name}: {over}, {mutant.catcher}", *found["says"], sep="\n")
    assert (code, found["status"]) == (NONCONFORMANT, "nonconformant"), found["says"]
    assert any(mutant.shows in line for line in found["says"]), found["says"]
    unchanged = control(mutant.catcher)
    assert unchanged["status"] == "conformant", unchanged["says"]


@pytest.mark.parametrize("kernel", in_turns(REORDERED, 7), ids=lambda k: k.name)
def test_the_suite_accepts(
    kernel: Reordered, control: Callable[[str], Found], tmp_path: Path
) -> None:
    code, found = run_catchers(copy_of_fast(tmp_path, kernel), kernel.catchers)
    for one in found:
        print(f"{kernel.name}: {one['worst']} of budget, {one['catcher']}")
        assert one["status"] == "conformant", one["says"]
        assert one["digest"] != control(one["catcher"])["digest"], "it changes no result"
    assert code == CONFORMANT


@pytest.mark.parametrize("patch", [*MUTANTS, *REORDERED], ids=lambda p: p.name)
def test_a_patch_knows_its_place(patch: Patch) -> None:
    source = (ROOT / patch.file).read_text(encoding="utf-8")
    assert patch.patched(source) != source


def test_a_patch_without_a_place_is_refused() -> None:
    patch = Patch("planted", "fast/x.py", "a = 1", "a = 2")
    assert patch.patched("a = 1\n") == "a = 2\n"
    for source, times in (("", 0), ("a = 1\na = 1\n", 2)):
        with pytest.raises(StalePatch, match=f"'planted' .* occurs {times} times"):
            patch.patched(source)


def test_the_document_is_current() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == generate()
