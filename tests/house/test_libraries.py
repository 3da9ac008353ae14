"""What is known of a library lives with its backend, and budgets know no library.

A budget follows from a contract, whoever declared it. So `equivalence/budgets` reads numbers off
torch's tensors, in as few files as that takes, and states no fact about how a library computes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.tree import ROOT, files, imports, parse, python_files

BUDGETS = "equivalence/budgets"
BACKENDS = "equivalence/backends"

READERS = 2
"""How many files of the budgets may import torch, to read numbers or their bits."""

NEVER = frozenset({"fast", "triton", "jax", "jaxlib", "flax"})
"""What computes, and so is judged: budgets import none of it."""

FACTS = frozenset({"Form", "FunctionError", "ulps"})
"""What a fact about a library is written with."""

NAMES = re.compile(
    r"\b(jax|xla|flax|triton|ptx|aten|cuda|sleef|mkl|onednn|eigen|torch's|numpy's|\w+\.(cpp|cu))\b",
    re.IGNORECASE,
)
"""Words of a sentence about a library, or about a file of its source."""

PARTS = ("__init__.py", "backend.py", "contract.py", "functions.py", "findings.toml")
"""What the folder of a library holds."""


def readers(root: Path) -> Iterator[str]:
    """Say which files import torch, where there are more than it takes to read numbers."""
    found = [
        path.name
        for path in python_files(root, BUDGETS)
        if any(top(use.name) == "torch" for use in imports(path))
    ]
    if len(found) > READERS:
        yield (
            f"{BUDGETS}: {', '.join(found)} import torch, and {READERS} files are the most: "
            "read numbers in reading.py"
        )


def facts(root: Path) -> Iterator[str]:
    """Say where the budgets state or import something about a library."""
    advice = f"what is known of a library lives in {BACKENDS}/<library>"
    for path in files(root / BUDGETS):
        where = path.relative_to(root)
        if path.suffix != ".py":
            yield f"{where} is data of some library; {advice}"
            continue
        for use in imports(path):
            if top(use.name) in NEVER:
                yield f"{where}:{use.line} imports {use.name}; {advice}"
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Call) and called(node) in FACTS:
                yield f"{where}:{node.lineno} makes a {called(node)}; {advice}"
        for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not text.startswith(("import ", "from ")) and (word := NAMES.search(text)):
                yield f"{where}:{line} speaks of {word.group()!r}; {advice}"


def top(name: str) -> str:
    """The package that a dotted name stands in."""
    return name.partition(".")[0]


def called(node: ast.Call) -> str:
    """The last part of the name of what is called."""
    return ast.unparse(node.func).rpartition(".")[2]


def incomplete(root: Path) -> Iterator[str]:
    """Say which folder of a library lacks a part, and which file stands in no library's folder."""
    folders = sorted(path.parent for path in (root / BACKENDS).glob("*/backend.py"))
    for folder in folders:
        for part in PARTS:
            if not (folder / part).exists():
                yield f"{folder.relative_to(root)} has no {part}; each library has its own"
    for path in files(root / BACKENDS, ".toml"):
        if path.parent not in folders:
            yield f"{path.relative_to(root)} is no library's; move it beside its backend"


def test_budgets_know_no_library() -> None:
    found = [*readers(ROOT), *facts(ROOT)]
    assert not found, "\n".join(found)


def test_every_library_has_its_parts() -> None:
    found = list(incomplete(ROOT))
    assert not found, "\n".join(found)


def test_a_third_reader_of_numbers_is_found(
    tmp_path: Path, plant: Callable[[str, str], None]
) -> None:
    plant(f"{BUDGETS}/reading.py", "import torch\n")
    plant(f"{BUDGETS}/violation.py", "from torch import Tensor\n")
    assert not list(readers(tmp_path))
    plant(f"{BUDGETS}/ledger.py", "def f():\n    from torch.overrides import TorchFunctionMode\n")
    plant(f"{BUDGETS}/judge.py", "from equivalence.cases.call import TORCH\n")
    (found,) = readers(tmp_path)
    assert found.startswith(f"{BUDGETS}: ledger.py, reading.py, violation.py import torch, and 2")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "def f():\n    from fast.kernels.elementwise import functions\n",
            "2 imports fast.kernels.elementwise.functions",
        ),
        ("import jax\n", "1 imports jax"),
        ("ERROR = ulps(2.0, 'somebody')\n", "1 makes a ulps"),
        ("ERROR = contract.FunctionError(4.0)\n", "1 makes a FunctionError"),
        ("OWN = [Form('x - m', value)]\n", "1 makes a Form"),
        ('"""Sums.\n\nXLA adds in storage.\n"""\n', "3 speaks of 'XLA'"),
        ("WHY = 'it multiplies first (LossNLL.cpp)'\n", "1 speaks of 'LossNLL.cpp'"),
        ("# torch's erf is not SLEEF's\n", '1 speaks of "torch\'s"'),
    ],
)
def test_a_fact_about_a_library_is_found(
    text: str, said: str, tmp_path: Path, plant: Callable[[str, str], None]
) -> None:
    plant(f"{BUDGETS}/reading.py", "import torch\n\nTensor = torch.Tensor  # plain\n")
    assert not list(facts(tmp_path))
    plant(f"{BUDGETS}/declared.py", text)
    (found,) = facts(tmp_path)
    assert found.startswith(f"{BUDGETS}/declared.py:{said}; what is known of a library")


def test_findings_elsewhere_and_missing_parts_are_found(
    tmp_path: Path, plant: Callable[[str, str], None]
) -> None:
    for part in PARTS:
        plant(f"{BACKENDS}/mine/{part}", "")
    plant(f"{BACKENDS}/yours/backend.py", "")
    assert len(list(incomplete(tmp_path))) == len(PARTS) - 1
    (tmp_path / BACKENDS / "yours" / "backend.py").unlink()
    plant(f"{BACKENDS}/findings.toml", "")
    plant(f"{BUDGETS}/findings.toml", "")
    assert [line.partition(" ")[0] for line in incomplete(tmp_path)] == [
        f"{BACKENDS}/findings.toml"
    ]
    assert [line.partition(" ")[0] for line in facts(tmp_path)] == [f"{BUDGETS}/findings.toml"]
