"""The plan of the house: rooms that a reader takes in at a sitting, with no circle between files.

All packages but `spec` list their rooms in `ROOMS`, in reading order; that a file imports only
what stands before it is checked with the chapters of `spec`, in test_dependencies.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.tree import PACKAGES, ROOT, imports, literal, parse, python_files

MOST_FILES = 12
"""What a reader keeps in mind of one folder, `__init__.py` not counted."""

PER_ENTRY = frozenset({"ops", "optim"})
"""Rooms with a page for each op or optimizer: they grow with the vocabulary."""

PAGE_AND_ENGINE = frozenset({"optim", "torch"})
"""Rooms where an underscore tells an engine from the pages or the face that stand beside it."""

ROOMED = tuple(package for package, order in PACKAGES.items() if order == "ROOMS")


def crowded_rooms(root: Path) -> Iterator[str]:
    """Say which rooms hold more files than a reader keeps in mind."""
    for package in ROOMED:
        for folder in sorted({p.parent for p in python_files(root, package)} - {root / package}):
            files = [p for p in folder.glob("*.py") if p.name != "__init__.py"]
            if len(files) > MOST_FILES and folder.name not in PER_ENTRY:
                yield (
                    f"{folder.relative_to(root)} holds {len(files)} files, and {MOST_FILES} is the "
                    "most: a room that grows gets rooms of its own"
                )


def unexplained_rooms(root: Path) -> Iterator[str]:
    """Say which rooms do not tell, in one line, what lives there and who may enter."""
    for package in ROOMED:
        for room in rooms(root, package):
            init = root / package / room / "__init__.py"
            if not init.parent.is_dir():
                continue
            said = ast.get_docstring(parse(init)) if init.exists() else None
            if not said or "enter" not in said.splitlines()[0]:
                yield f"{package}/{room}/__init__.py does not say who may enter, in its first line"


def rooms(root: Path, package: str) -> list[str]:
    """The rooms of a package, in reading order."""
    init = root / package / "__init__.py"
    listed = literal(init, "ROOMS") if init.exists() else None
    return [str(room) for room in listed] if isinstance(listed, list | tuple) else []


def underscored(root: Path) -> Iterator[str]:
    """Say which files hide behind an underscore where a room already says whose they are."""
    for package in ROOMED:
        for path in python_files(root, package):
            private = path.name.startswith("_") and not path.name.startswith("__")
            if private and path.parent.name not in PAGE_AND_ENGINE:
                yield f"{path.relative_to(root)}: a helper lives in a room and needs no underscore"


def arrows(root: Path, package: str) -> dict[str, list[str]]:
    """What each module of a package imports of it, type-only imports included."""
    modules = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in python_files(root, package)
    }
    return {
        module: sorted({target(found.name, modules) for found in imports(path)} - {"", module})
        for module, path in modules.items()
        if module != package
    }


def target(name: str, modules: dict[str, Path]) -> str:
    """The module that a dotted name stands for or stands in; the package itself is no target."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name if "." in name else ""


def circles(graph: dict[str, list[str]]) -> Iterator[list[str]]:
    """Yield the groups of modules that reach each other (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(module: str) -> Iterator[list[str]]:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in graph.get(module, ()):
            if other not in index:
                yield from visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                yield sorted(group)

    for module in graph:
        if module not in index:
            yield from visit(module)


def test_rooms_are_small_and_explained() -> None:
    found = [*crowded_rooms(ROOT), *unexplained_rooms(ROOT), *underscored(ROOT)]
    assert not found, "\n".join(found)


def test_no_files_import_each_other_in_a_circle() -> None:
    """`pytest -s` prints what was counted."""
    for package in PACKAGES:
        graph = arrows(ROOT, package)
        found = list(circles(graph))
        count = sum(len(targets) for targets in graph.values())
        print(f"{package}: {len(graph)} files, {count} arrows, {len(found)} circles")
        assert not found, "\n".join(" <-> ".join(group) for group in found)


@pytest.mark.parametrize("package", ROOMED)
def test_planted_rooms_are_found(
    package: str, tmp_path: Path, plant: Callable[[str, str], None]
) -> None:
    plant(f"{package}/__init__.py", "ROOMS = ('device', 'ops', 'session')\n")
    plant(f"{package}/session.py", "")
    plant(f"{package}/device/__init__.py", '"""Storage."""\n')
    plant(f"{package}/ops/__init__.py", '"""Pages; sessions enter."""\n')
    for number in range(MOST_FILES + 1):
        plant(f"{package}/device/f{number}.py", "")
        plant(f"{package}/ops/f{number}.py", "")
    plant(f"{package}/device/_hidden.py", "")
    plant(f"{package}/optim/_flat.py", "")
    room = f"{package}/device"
    assert list(crowded_rooms(tmp_path)) == [
        f"{room} holds 14 files, and 12 is the most: a room that grows gets rooms of its own"
    ]
    assert list(unexplained_rooms(tmp_path)) == [
        f"{room}/__init__.py does not say who may enter, in its first line"
    ]
    assert [line.split(":")[0] for line in underscored(tmp_path)] == [f"{room}/_hidden.py"]


@pytest.mark.parametrize("package", PACKAGES)
def test_planted_circles_are_found(
    package: str, tmp_path: Path, plant: Callable[[str, str], None]
) -> None:
    plant(f"{package}/__init__.py", "")
    plant(f"{package}/a.py", f"from {package}.b import x\nfrom {package} import c\n")
    plant(f"{package}/b.py", f"def f():\n    from {package}.c import y\n")
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
    plant(f"{package}/c.py", f"{typed}    import {package}.a\n")
    plant(f"{package}/d.py", f"from {package}.a import x\n")
    assert list(circles(arrows(tmp_path, package))) == [[f"{package}.{name}" for name in "abc"]]
