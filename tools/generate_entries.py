"""Writes docs/entries.md: what sessions and training offer, from the docstrings themselves.

    python -m tools.generate_entries            write the file
    python -m tools.generate_entries --check    fail if the committed file is stale

The entries and the objects that make each true stand in tools/entries.toml; a test says itself
which entries it holds: `@pytest.mark.holds("Release a buffer")`.
An object that does not exist or has no docstring, an entry that no test holds, and a test that
holds what is no entry are errors here.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tools.generated import write_or_check
from tools.tree import ROOT, parse, python_files

SOURCE = ROOT / "tools" / "entries.toml"
DOCUMENT = ROOT / "docs" / "entries.md"
HEADER = """\
# Entry by entry

What sessions, gradients, graphs and trainers offer, in the words of their own docstrings, and the
tests that hold each. Names that start with `spec` are the reference; those that start with `fast`
run on a device. This file is generated (`python -m tools.generate_entries`); `make check` fails
while it is stale.
"""


def generate() -> str:
    """Return the text of the file; raises LookupError naming what is missing."""
    pages = tomllib.loads(SOURCE.read_text(encoding="utf-8"))["page"]
    tests = holders(ROOT)
    known = [entry["entry"] for page in pages for entry in page["entry"]]
    for label in tests.keys() - set(known):
        near = get_close_matches(label, known, 1) or known
        raise LookupError(
            f"{tests[label][0]} holds {label!r}, no entry of {SOURCE.name}: {near[0]}?"
        )
    return "\n".join([HEADER, *(line for page in pages for line in _page(page, tests))])


def holders(root: Path) -> dict[str, list[str]]:
    """The tests that hold each entry, by its label, as their own marks say: path::function."""
    found: dict[str, list[str]] = {}
    for path in python_files(root, "tests"):
        for node in ast.walk(parse(path)):
            marks = node.decorator_list if isinstance(node, ast.FunctionDef) else ()
            for mark in marks:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.holds":
                    for label in map(ast.literal_eval, mark.args):
                        place = f"{path.relative_to(root).as_posix()}::{node.name}"
                        found.setdefault(label, []).append(place)
    return found


def _page(page: Mapping[str, Any], tests: Mapping[str, list[str]]) -> Iterator[str]:
    yield from (f"## {page['title']}", "", "| entry | object | what it does |", "|---|---|---|")
    for entry in page["entry"]:
        label = entry["entry"]
        if label not in tests:
            raise LookupError(f"{SOURCE.name}: no test holds {label!r}; mark one with holds()")
        held = ", ".join(map(_test, tests[label]))
        for name in entry["objects"]:
            yield f"| {label} | `{_signature(name)}` | {_docstring(name)} |"
            label = ""
        yield f"| | *held by* | {held} |"
    yield ""


def _found(name: str) -> Any:
    """Import a dotted name: the longest module in front, attributes behind."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        module = ".".join(parts[:cut])
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not module.startswith(error.name):
                raise
            continue
        for part in parts[cut:]:
            # A package may import what it offers at first use, which a static look would not do.
            look = getattr if inspect.ismodule(found) else inspect.getattr_static
            found = look(found, part)
        return found
    raise LookupError(f"{SOURCE.name}: there is no {name}")


def _signature(name: str) -> str:
    found = _found(name)
    if not inspect.isroutine(found):
        return name
    signature = inspect.signature(found)
    kept = [p.replace(annotation=p.empty) for n, p in signature.parameters.items() if n != "self"]
    called = name.removesuffix(".__init__")
    text = f"{called}{signature.replace(parameters=kept, return_annotation=signature.empty)}"
    return text.replace("|", "\\|")


def _docstring(name: str) -> str:
    found = _found(name)
    found = found.fget if isinstance(found, property) else found
    text = inspect.getdoc(found)
    if not text:
        raise LookupError(f"{SOURCE.name}: {name} has no docstring")
    paragraphs = [p for p in text.split("\n\n") if ">>>" not in p and "::" not in p]
    return " ".join(map(_line, paragraphs)).replace("|", "\\|")


def _line(paragraph: str) -> str:
    line = " ".join(paragraph.split())
    return f"`{line}`" if paragraph.startswith("    ") else line


def _test(name: str) -> str:
    path, _, function = name.partition("::")
    return f"[{function}](../{path})"


def main() -> int:
    """Write the file, or with --check compare it with what would be written."""
    return write_or_check(DOCUMENT, generate(), "tools.generate_entries")


if __name__ == "__main__":
    sys.exit(main())
