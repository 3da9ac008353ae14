"""Nothing but pages and backends lists ops by name, lest a new op be left out without a word.

In `equivalence`, outside `backends`, no display of a dict, set, tuple or list names three pages or
more; what is particular to an op is said by its page. In `tests` no constant of a module does: a
list of examples belongs into the test that shows them. The names of functions of numbers, such as
`exp` and `add`, do not count: arithmetic has these by itself.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from pathlib import Path

from spec import scalar
from spec.ops import OPS
from spec.optim import OPTIMIZERS
from spec.scalar import OpenFunction
from tools.tree import ROOT, parse, python_files

MOST = 2
"""So many pages may be named together."""

OF_NUMBERS = {
    *(function.name for function in vars(scalar).values() if isinstance(function, OpenFunction)),
    *vars(operator),
}
"""The functions of numbers, by name."""

NAMES = {*OPS, *OPTIMIZERS} - OF_NUMBERS

BACKENDS = "equivalence/backends/"
"""What is known of a library, function by function."""

THEIRS = "names of functions of torch, and of methods of a ref"
SHOWN = "examples of a way to be called or to lie in memory, in which no new page need have a part"
STEPS = "usual steps of some optimizers, in tests of what all have in common"
RULED = "exceptions that the page cannot know, since they are another side's"

ALLOWED = {
    "equivalence/exact/aten/rules.py": THEIRS,
    "tests/equivalence/cases/test_strata.py": RULED,
    "tests/equivalence/exact/aten/test_mode.py": RULED,
    "tests/equivalence/exact/aten/test_rules.py": THEIRS,
    "tests/equivalence/worlds/test_bounded.py": SHOWN,
    "tests/fast/checkpoint/test_checkpoint.py": STEPS,
    "tests/fast/ops/test_random.py": SHOWN,
    "tests/fast/optim/test_grad_scale.py": STEPS,
    "tests/fast/runtime/test_lifetimes.py": SHOWN,
    "tests/fast/runtime/test_stale.py": SHOWN,
    "tests/fast/test_indexing.py": THEIRS,
    "tests/fast/torch/test_torch_functions.py": THEIRS,
    "tests/fast/torch/test_torch_spelling.py": THEIRS,
    "tests/spec/test_bad_input.py": STEPS,
    "tests/spec/test_indexing.py": THEIRS,
    "tests/spec/test_linked.py": STEPS,
    "tests/spec/test_session.py": STEPS,
}
"""The modules that may, and why; one that lists none any more is taken out."""


def named(display: ast.AST) -> set[str]:
    """Return the pages that a display names: by its keys, or by its entries."""
    entries: list[ast.expr | None] = []
    if isinstance(display, ast.Dict):
        entries = list(display.keys)
    elif isinstance(display, (ast.Set, ast.Tuple, ast.List)):
        entries = list(display.elts)
    found = set[str]()
    for entry in entries:
        if isinstance(entry, ast.Starred):
            found |= named(entry.value)
        elif isinstance(entry, ast.Constant) and entry.value in NAMES:
            found.add(entry.value)
    return found


def looked_at(path: Path, whole: bool) -> Iterator[ast.AST]:
    """Yield what may not name pages: the whole module, or the constants of its own."""
    for node in parse(path).body:
        constant = isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
        if whole or constant:
            yield from ast.walk(node)


def tables(root: Path) -> Iterator[str]:
    """Say where ops or optimizers are listed by name."""
    for package in ("equivalence", "tests"):
        for path in python_files(root, package):
            where = path.relative_to(root).as_posix()
            if where.startswith(BACKENDS):
                continue
            lines = dict[int, set[str]]()
            for node in looked_at(path, package == "equivalence"):
                if len(pages := named(node)) > MOST:
                    lines.setdefault(node.lineno, set()).update(pages)
            for line, pages in sorted(lines.items()):
                yield (
                    f"{where}:{line} lists {', '.join(sorted(pages))}: a new page would be left "
                    "out, so say what is particular to them on their pages, and read it there"
                )


def test_nobody_keeps_a_table_of_ops() -> None:
    found = list(tables(ROOT))
    others = [line for line in found if line.partition(":")[0] not in ALLOWED]
    assert not others, "\n".join(others)
    assert {line.partition(":")[0] for line in found} == set(ALLOWED)


def test_planted_tables_are_found(tmp_path: Path, plant: Callable[[str, str], None]) -> None:
    plant(
        "equivalence/cases/regimes.py", 'def f(n):\n  return {"sum": 1, "max": 2, "mean": 3}[n]\n'
    )
    plant("equivalence/measure/steps.py", 'STEPS = ["sgd", "adam", "adamw"]\n')
    plant("equivalence/worlds/few.py", 'A = ("sum", "max")\nB = ("exp", "log", "add", "tanh")\n')
    plant("equivalence/backends/own/contract.py", 'OURS = ("sum", "max", "mean")\n')
    plant("tests/fast/test_some.py", 'SOME: set[str] = {*("sum", "max"), "mean"}\n')
    plant("tests/fast/test_others.py", 'def test_it():\n    for n in ("sum", "max", "mean"): ...\n')
    found = [line.split(": ")[0] for line in tables(tmp_path)]
    assert found == [
        "equivalence/cases/regimes.py:2 lists max, mean, sum",
        "equivalence/measure/steps.py:1 lists adam, adamw, sgd",
        "tests/fast/test_some.py:1 lists max, mean, sum",
    ]
