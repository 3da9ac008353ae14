"""A tree of sources as house rules and generators see it: read, never imported."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PACKAGES = {"spec": "CHAPTERS", "fast": "ROOMS", "equivalence": "ROOMS", "population": "ROOMS"}
"""The packages of the house, and the tuple in the `__init__.py` of each that names its chapters or
rooms in reading order."""

SHIPPED = ("spec", "fast", "equivalence")
"""Those that the wheel holds."""

SKIPPED = {"build", "dist", "gpu-cases", "node_modules", "__pycache__"}
"""Folders that hold what commands made; hidden ones are skipped too, but for `.ci`.

So is `runs`, which training writes, unless it is a package.
"""


def files(root: Path, *endings: str) -> Iterator[Path]:
    """Yield the files under `root`, in order: those with one of the endings, or all."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if not _skipped(Path(folder, f)))
        for name in sorted(names):
            if not endings or name.endswith(endings):
                yield Path(folder, name)


def _skipped(folder: Path) -> bool:
    made = folder.name in SKIPPED or (
        folder.name == "runs" and not (folder / "__init__.py").exists()
    )
    return made or (folder.name.startswith(".") and folder.name != ".ci")


def python_files(root: Path, folder: str) -> list[Path]:
    """The Python files of one top-level folder, and none if the folder is missing."""
    return list(files(root / folder, ".py"))


def parse(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@dataclass(frozen=True)
class Import:
    """One imported module: its dotted name, the line, and whether a function does the importing."""

    name: str
    line: int
    inside_function: bool


def imports(path: Path) -> list[Import]:
    """Every module that a file imports; `from a import b` counts as `a.b`, which may be a module.

    What only the type checker reads (`if TYPE_CHECKING:`) counts as well: a type is a fact too.
    """
    found: list[Import] = []

    def visit(node: ast.AST, inside: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, node.lineno, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            found.extend(Import(f"{base}.{a.name}", node.lineno, inside) for a in node.names)
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(parse(path), False)
    return found


def literal(path: Path, name: str) -> object:
    """The value of a module-level constant that is written out, or None where there is none."""
    value = _assigned(path, name)
    return None if value is None else ast.literal_eval(value)


def _assigned(path: Path, name: str) -> ast.expr | None:
    for node in parse(path).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return node.value
    return None


def table_order(path: Path, name: str) -> list[str]:
    """The pages in a table such as `OPS`, in the order in which it is written out.

    The table may be a dict display with string keys, or made from a tuple of names: `_add` and
    `add.op` both stand for the page add. A file that is not there has no table.
    """
    if not path.exists():
        return []
    value = _assigned(path, name)
    for display in ast.walk(value) if value else ():
        if isinstance(display, ast.Dict):
            return [_page(key) for key in display.keys if key is not None]
        if isinstance(display, ast.Tuple | ast.List) and isinstance(display.ctx, ast.Load):
            return [_page(entry) for entry in display.elts]
    return []


def _page(entry: ast.expr) -> str:
    if isinstance(entry, ast.Constant):
        return str(entry.value)
    return ast.unparse(entry).partition(".")[0].strip("_")
