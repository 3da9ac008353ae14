"""An op is two pages and an entry in two tables, and so is an optimizer: all else finds them there.

In a copy of the tree pages are planted that do not exist here (`tests/house/planted`), and nothing
else is changed by hand but the four tables. They are not made to be easy: a reduction whose page
refuses some extents by an attribute, a curve of two elementary functions, an op that reads integers
and adds up what was read twice, an op of two results of different shapes, and an optimizer that is
unlike Adam: it steps by signs, remembers one moment, counts nothing, and is never tried at a rate
of 1e-3. The files that others read are written by the commands that CONTRIBUTING names.

All of this is left to `make full`: the judge at `quick` (half a minute of a processor) and at `ci`,
the tests that are named after a page, the kernels in the interpreter and on exact numbers (6
minutes), and all of `make test` in the copy (as long as here).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.planting import Copy, planted

pytestmark = pytest.mark.full

OPS, OPTIMIZERS = planted("ops"), planted("optim")
NAMES = [*OPS, *OPTIMIZERS]

GENERATE = ("-m", "tools.generate")
"""What a contributor is told to run."""

BOUNDS = ("-m", "tools.record_bounds", "--ops", ",".join(NAMES))
"""What is to be run once for new pages: it looks for cases whose bounds say something."""

MEETING = ("tests/spec", "tests/fast", "tests/equivalence", "proofs_notes")
"""Where tests have a table of pages for their parameters: each page names its own."""

PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """Return a copy with the planted pages, and with what is generated of them."""
    copied = Copy(tmp_path_factory.mktemp("tree"))
    copied.plant()
    copied.run(*GENERATE)
    return copied


def conformant(tree: Copy, backend: str, profile: str) -> None:
    """Judge the planted pages: each has rows, and every row is conformant."""
    which = ("--backend", backend, "--profile", profile, "--ops", *NAMES)
    said = tree.run("-m", "equivalence", "run", *which)
    rows = [line.split() for line in said.splitlines() if line.startswith(tuple(NAMES))]
    assert {row[0] for row in rows} == set(NAMES), said
    assert all(row[-1] == "conformant" for row in rows), said


def equal(tree: Copy, *which: str) -> None:
    """Compare planted pages on exact numbers: each has rows, and every row is equal."""
    said = tree.run("-m", "equivalence", "exact", *which)
    rows = [line.split() for line in said.splitlines() if line.startswith(tuple(NAMES))]
    assert rows and all(row[-1] == "equal" for row in rows), said


def test_pages_are_found_and_judged(tree: Copy) -> None:
    """One test, since each worker that had a part of it would make a copy of its own."""
    conformant(tree, "fast-aten", "quick")
    said = tree.run("-m", "fast", "kernels", "--target", "sm_80", "--ops", ",".join(NAMES))
    assert "0 faults" in said
    assert "all were driven" in tree.run("tests/house/drive_planted.py", *OPS)
    table_kept_by_hand_is_noticed(tree)


def table_kept_by_hand_is_noticed(tree: Copy) -> None:
    """Were the regimes listed by name, as they once were, the new ops would not be drawn."""
    path = tree.root / "equivalence" / "cases" / "domains.py"
    kept = path.read_text(encoding="utf-8")
    listed = '{"exp": MODERATE, "add": REAL}[op.name]'
    path.write_text(kept.replace("BY_DOMAIN[domain(op, k, chosen)]", listed), encoding="utf-8")
    assert listed in path.read_text(encoding="utf-8")
    try:
        with pytest.raises(AssertionError, match="KeyError: 'swoop'"):
            which = ("--backend", "fast-aten", "--profile", "quick", "--ops", "swoop")
            tree.run("-m", "equivalence", "run", *which)
    finally:
        path.write_text(kept, encoding="utf-8")


def test_pages_pass_each_test_that_has_them_for_a_parameter(tree: Copy) -> None:
    tree.run(*PYTEST, "-k", " or ".join(NAMES), *MEETING)


def test_pages_are_conformant_at_ci(tree: Copy) -> None:
    conformant(tree, "fast-aten", "ci")
    conformant(tree, "fast-triton-interpreted", "quick")


def test_pages_are_equal_on_exact_numbers(tree: Copy) -> None:
    """The twins of optimizers are kernels of torch, which do not run on such numbers."""
    equal(tree, "--ops", *NAMES)
    equal(tree, "--backend", "fast-aten", "--ops", *OPS)


def test_the_whole_of_make_test_passes(tmp_path: Path) -> None:
    """In a repository of its own, but for this file, whose pages are there already."""
    tree = Copy(tmp_path / "tree")
    tree.plant()
    tree.run(*BOUNDS)
    tree.run(*GENERATE)
    tree.git("init", "--quiet")
    tree.git("add", "--all")
    tree.git("commit", "--quiet", "--message", "Plant pages")
    tree.run(*GENERATE, "--check")
    parallel = ("-n", "2", "--dist", "worksteal")
    tree.run(*PYTEST, *parallel, "-m", "not full", "--ignore=tests/house/test_two_pages.py")
