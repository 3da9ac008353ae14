"""The exact ring has power: it sees every algebraic bug, and no correct kernel in another order."""

from __future__ import annotations

from pathlib import Path

import pytest

from equivalence.runs.results import CONFORMANT, NONCONFORMANT
from tests.mutants.algebraic import ALGEBRAIC, SAME, SHARED
from tests.mutants.catalogue import MUTANTS
from tests.mutants.patch import Patch, copy_of_fast
from tests.mutants.reordered import REORDERED
from tests.mutants.running import run_catchers
from tests.turns import in_turns
from tools.tree import ROOT

pytestmark = pytest.mark.slow

_NAMED = {mutant.name: mutant for mutant in MUTANTS}

BUGS: list[tuple[Patch, str]] = [
    *((bug, bug.row) for bug in ALGEBRAIC),
    *((_NAMED[name], row) for name, row in SHARED.items()),
]
RIGHT: list[tuple[Patch, str]] = [
    *((kernel, row.removesuffix(" fp32")) for kernel in REORDERED for row in kernel.catchers),
    *((_NAMED[name], row) for name, row in SAME.items()),
]


def _name(case: object) -> str:
    return case.name if isinstance(case, Patch) else str(case)


@pytest.mark.parametrize(("bug", "row"), in_turns(BUGS, 25), ids=_name)
def test_the_exact_ring_sees(bug: Patch, row: str, tmp_path: Path) -> None:
    code, (found,) = run_catchers(copy_of_fast(tmp_path, bug), [f"exact {row}"])
    print(*found["says"], sep="\n")
    assert (code, found["status"]) == (NONCONFORMANT, "nonconformant")
    assert any("entries differ" in line for line in found["says"]), found["says"]


@pytest.mark.parametrize(("kernel", "row"), in_turns(RIGHT, 10), ids=_name)
def test_another_order_is_equal(kernel: Patch, row: str, tmp_path: Path) -> None:
    code, (found,) = run_catchers(copy_of_fast(tmp_path, kernel), [f"exact {row}"])
    assert (code, found["says"]) == (CONFORMANT, [])


@pytest.mark.parametrize("bug", ALGEBRAIC, ids=_name)
def test_a_patch_knows_its_place(bug: Patch) -> None:
    source = (ROOT / bug.file).read_text(encoding="utf-8")
    assert bug.patched(source) != source


def test_there_are_enough_and_none_twice() -> None:
    assert len(BUGS) >= 40
    assert len({bug.name for bug, _ in BUGS}) == len(BUGS)
