"""Who may import whom: the rule that keeps the truth, the speed and the judge apart.

`fast` never imports `spec`: a helper they shared would be a bug they shared, and no comparison of
the two could see it. `spec` is the standard library alone, read from the first chapter to the last.
Sources are read, not imported, so a forbidden import cannot hide behind a missing library.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tools.tree import PACKAGES, ROOT, Import, imports, literal, python_files, table_order

STANDARD = sys.stdlib_module_names


@dataclass(frozen=True)
class Rule:
    """What the files of one top-level folder may import besides the standard library."""

    anywhere: frozenset[str]
    inside_functions: frozenset[str] = frozenset()
    in_tests: frozenset[str] = frozenset()
    in_files: Mapping[str, frozenset[str]] = field(default_factory=dict)
    why: str = ""


RULES = {
    "spec": Rule(
        frozenset({"spec"}),
        why="spec is the reference: it must stay readable and must run on Python alone",
    ),
    "fast": Rule(
        frozenset({"fast", "torch", "triton", "numpy", "safetensors"}),
        inside_functions=frozenset({"sklearn", "matplotlib", "tqdm"}),
        why="a helper shared with spec is a shared bug that no comparison sees; what only the "
        "training commands need (extra [data]) is imported inside their functions",
    ),
    "equivalence": Rule(
        frozenset({"equivalence", "spec", "fast", "hypothesis", "numpy", "torch"})
        | frozenset({"flint", "sympy", "rich", "safetensors"}),
        inside_functions=frozenset({"triton"}),
        in_files={
            "equivalence/backends/jax/backend.py": frozenset({"jax"}),
            "equivalence/backends/jax/losses.py": frozenset({"jax"}),
            "equivalence/backends/strangers/liger.py": frozenset({"liger_kernel"}),
            "equivalence/backends/strangers/flaggems.py": frozenset({"flag_gems"}),
        },
        why="the judge knows both sides and the libraries of the extra [check]; what a backend of "
        "another library needs is imported by that backend's module alone",
    ),
    "population": Rule(
        frozenset({"population", "equivalence", "spec", "fast", "torch"}),
        why="the bench tries the judge, and needs nothing that the judge does not; the judge does "
        "not know its bench, which stays out of the wheel",
    ),
    "proofs_notes": Rule(
        frozenset({"spec", "sympy", "equivalence.worlds", "equivalence.exact", "proofs_notes"}),
        in_tests=frozenset({"pytest", "hypothesis"}),
        why="a note proves what the reference says, with symbols and with nothing of the kernels",
    ),
}


def allowed(name: str, names: frozenset[str]) -> bool:
    """Whether a dotted name is one of the names, or something inside one."""
    return any(name == n or name.startswith(n + ".") for n in names)


def forbidden_imports(root: Path) -> Iterator[str]:
    """Say, for each import that a folder's rule forbids, what the rule is and why."""
    for folder, rule in RULES.items():
        for path in python_files(root, folder):
            names = rule.anywhere | rule.in_files.get(str(path.relative_to(root)), frozenset())
            if path.name.startswith(("test_", "conftest")):
                names |= rule.in_tests
            for found in imports(path):
                place = f"{path.relative_to(root)}:{found.line}"
                if found.name.startswith("."):
                    yield f"{place} imports relatively; write the full name"
                elif not permitted(found, names, rule):
                    accepted = ", ".join(sorted(names))
                    yield (
                        f"{place} imports {found.name}; files in {folder}/ import the standard "
                        f"library and {accepted}: {rule.why}"
                    )


def permitted(found: Import, names: frozenset[str], rule: Rule) -> bool:
    """Whether this import, at this place, is within the rule."""
    standard = found.name.partition(".")[0] in STANDARD
    lazily = found.inside_function and allowed(found.name, rule.inside_functions)
    return standard or allowed(found.name, names) or lazily


def place_of(name: str, package: str, order: list[str]) -> str | None:
    """The entry that a dotted name such as spec.ops.add.op belongs to, most specific first."""
    inside = name.removeprefix(f"{package}.")
    matches = [entry for entry in order if inside == entry or inside.startswith(entry + ".")]
    return max(matches, key=len, default=None)


def reading_order(root: Path, package: str) -> list[str]:
    """The chapters or rooms of a package, each page of `ops` as a chapter of its own."""
    listed = literal(root / package / "__init__.py", PACKAGES[package])
    order = [str(entry) for entry in listed] if isinstance(listed, list | tuple) else []
    pages = [f"ops.{name}" for name in table_order(root / package / "ops/__init__.py", "OPS")]
    if "ops" in order and package == "spec":
        at = order.index("ops")
        order[at:at] = pages
    return order


def forward_references(root: Path, package: str) -> Iterator[str]:
    """Say, for each import of what stands later in a package, which places are meant."""
    order = reading_order(root, package)
    for path in python_files(root, package):
        where = path.relative_to(root)
        module = ".".join(where.with_suffix("").parts).removesuffix(".__init__")
        if module == package:
            continue
        here = place_of(module, package, order)
        if here is None:
            yield (
                f"{where} is not in the reading order; add it to {PACKAGES[package]} in "
                f"{package}/__init__.py, or move it into a room that is listed there"
            )
            continue
        yield from later_places(where, path, package, here, order)


def later_places(
    where: Path, path: Path, package: str, here: str, order: list[str]
) -> Iterator[str]:
    """The forward references of one file."""
    for found in imports(path):
        if not allowed(found.name, frozenset({package})):
            continue
        there = place_of(found.name, package, order)
        if there is None:
            yield f"{where}:{found.line} imports {found.name}; name the place it comes from"
        elif order.index(there) > order.index(here):
            yield (
                f"{where}:{found.line} ({here}) refers forward to {found.name}; a file imports "
                f"only what a reader has met before ({PACKAGES[package]} in {package}/__init__.py)"
            )


def test_every_package_keeps_the_dependency_rule() -> None:
    found = list(forbidden_imports(ROOT))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_refer_only_backwards(package: str) -> None:
    found = list(forward_references(ROOT, package))
    assert not found, "\n".join(found)


def test_planted_imports_are_found(tmp_path: Path, plant: Callable[[str, str], None]) -> None:
    plant("spec/scalar.py", "import numpy\n")
    plant("fast/tape.py", "def f():\n    from spec.ops import add\n")
    plant("fast/train.py", "import matplotlib\n")
    plant("fast/plot.py", "def f():\n    import matplotlib.pyplot\n")
    plant("equivalence/run.py", "import fast.ops, jax\n")
    plant("fast/kernels/bench.py", "import population.pieces\n")
    plant("equivalence/cases/bench.py", "def f():\n    from population.registry import named\n")
    plant("population/record.py", "from equivalence.runs.run import Request\nimport hypothesis\n")
    plant("spec/tried.py", "import population\n")
    plant("proofs_notes/calculus.py", "import equivalence.worlds.symbols\nimport pytest\n")
    plant("proofs_notes/test_softmax.py", "import pytest\nfrom equivalence import judge\n")
    plant("spec/tensor.py", "from . import scalar\n")
    found = [line.split(";")[0] for line in forbidden_imports(tmp_path)]
    assert found == [
        "spec/scalar.py:1 imports numpy",
        "spec/tensor.py:1 imports relatively",
        "spec/tried.py:1 imports population",
        "fast/tape.py:2 imports spec.ops.add",
        "fast/train.py:1 imports matplotlib",
        "fast/kernels/bench.py:1 imports population.pieces",
        "equivalence/run.py:1 imports jax",
        "equivalence/cases/bench.py:2 imports population.registry.named",
        "population/record.py:2 imports hypothesis",
        "proofs_notes/calculus.py:2 imports pytest",
        "proofs_notes/test_softmax.py:2 imports equivalence.judge",
    ]


def test_planted_forward_references_are_found(
    tmp_path: Path, plant: Callable[[str, str], None]
) -> None:
    plant("spec/__init__.py", "CHAPTERS = ('scalar', 'op', 'ops', 'tape')\n")
    plant("spec/scalar.py", "from spec.tape import Tape\n")
    plant("spec/tape.py", "from spec.ops import OPS\nfrom spec import Tensor\n")
    plant("spec/ops/__init__.py", "OPS: dict = {op.name: op for op in (_add, _mul)}\n")
    plant("spec/ops/add.py", "from spec.op import Op\nfrom spec.ops import mul\n")
    plant("spec/ops/mul.py", "from spec.ops import add\n")
    plant("spec/extra.py", "")
    found = [line.split(";")[0] for line in forward_references(tmp_path, "spec")]
    assert found == [
        "spec/extra.py is not in the reading order",
        "spec/scalar.py:1 (scalar) refers forward to spec.tape.Tape",
        "spec/tape.py:2 imports spec.Tensor",
        "spec/ops/add.py:2 (ops.add) refers forward to spec.ops.mul",
    ]


def test_fast_without_torch_names_the_extra() -> None:
    program = "import sys; sys.modules['torch'] = None; import fast"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    closing = done.stderr.strip().splitlines()[-1]
    assert done.returncode != 0
    assert "ImportError" in closing and "pip install '.[fast]'" in closing, closing


def test_spec_needs_nothing_but_python() -> None:
    program = (
        "import sys; import spec, spec.ops, spec.session, spec.train; "
        "print(*sorted({m.partition('.')[0] for m in sys.modules} - sys.stdlib_module_names))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() in (["__main__", "spec"], ["spec"])


@pytest.mark.parametrize("package", [p for p, order in PACKAGES.items() if order == "ROOMS"])
def test_planted_references_to_later_rooms_are_found(
    package: str, tmp_path: Path, plant: Callable[[str, str], None]
) -> None:
    plant(f"{package}/__init__.py", "ROOMS = ('errors', 'device', 'session')\n")
    plant(f"{package}/errors.py", "")
    plant(f"{package}/device/__init__.py", "")
    plant(
        f"{package}/device/arena.py",
        f"from typing import TYPE_CHECKING\n\nfrom {package}.errors import Rejected\n"
        f"if TYPE_CHECKING:\n    from {package}.session import Session\n",
    )
    plant(f"{package}/session.py", f"from {package}.device.arena import Arena\n")
    plant(f"{package}/attic/old.py", "")
    found = [line.split(";")[0] for line in forward_references(tmp_path, package)]
    assert found == [
        f"{package}/attic/old.py is not in the reading order",
        f"{package}/device/arena.py:5 (device) refers forward to {package}.session.Session",
    ]
