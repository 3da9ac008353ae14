"""No tolerance is typed by hand: a budget follows from the arithmetic, or the check is exact.

A typed 1e-5 accepts wrong kernels where numbers are small and refuses right ones where sums cancel.
Names are read from the token stream, so prose about tolerances is free.
"""

from __future__ import annotations

import io
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.tree import PACKAGES, ROOT, python_files

CLOSENESS = ("allclose", "assert_close", "isclose", "almost_equal", "AlmostEqual")
EXACTLY = {"approx", "rtol", "atol", "rel_tol", "abs_tol", "nondet_tol"}
FOLDERS = (*PACKAGES, "tests", "proofs_notes")


def is_tolerance(name: str) -> bool:
    """Whether a name is a closeness check or the bound of one."""
    return name in EXACTLY or name.endswith(CLOSENESS)


QUOTED = Path("population/rivals/policies.py")
"""The one file that names tolerances: those of other people, quoted to say what they see."""


def typed_tolerances(root: Path) -> Iterator[str]:
    """Say where a name of the code is a closeness check or the bound of one."""
    for folder in FOLDERS:
        for path in python_files(root, folder):
            if path.relative_to(root) == QUOTED:
                continue
            source = io.StringIO(path.read_text(encoding="utf-8"))
            for token in tokenize.generate_tokens(source.readline):
                if token.type == tokenize.NAME and is_tolerance(token.string):
                    yield (
                        f"{path.relative_to(root)}:{token.start[0]} uses {token.string}; compare "
                        "exactly, or judge by a budget that follows from the arithmetic "
                        "(equivalence), so that no tolerance is typed by hand"
                    )


def test_no_tolerance_is_typed_by_hand() -> None:
    found = list(typed_tolerances(ROOT))
    assert not found, "\n".join(found)


def test_planted_tolerances_are_found(tmp_path: Path, plant: Callable[[str, str], None]) -> None:
    plant(
        "tests/test_sum.py",
        '"""Prose about allclose and rtol is free."""\n'
        "assert torch.allclose(x, y)\n"
        "assert x == pytest.approx(y)\n"
        "np.testing.assert_allclose(x, y, rtol=1e-3)\n"
        "approximate = 'atol'\n",
    )
    for package in PACKAGES:
        plant(f"{package}/right/rows.py", "close = torch.isclose(x, y)\n")
    plant(QUOTED.as_posix(), "assert torch.allclose(x, y, rtol=1e-2)\n")
    found = [line.split(";")[0] for line in typed_tolerances(tmp_path)]
    assert found == [
        *(f"{package}/right/rows.py:1 uses isclose" for package in PACKAGES),
        "tests/test_sum.py:2 uses allclose",
        "tests/test_sum.py:3 uses approx",
        "tests/test_sum.py:4 uses assert_allclose",
        "tests/test_sum.py:4 uses rtol",
    ]
