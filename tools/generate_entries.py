"""Writes docs/entries.md: what sessions and training offer, from the docstrings themselves.

    python -m tools.generate_entries            write the file
    python -m tools.generate_entries --check    fail if the committed file is stale

The entries, the objects that make each true and the tests that hold it stand in
tools/entries.toml.
An object that does not exist, has no docstring or no test is an error here.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from tools.generated import write_or_check
from tools.tree import ROOT

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
    return "\n".join([HEADER, *(line for page in pages for line in _page(page))])


def _page(page: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"## {page['title']}", "", "| entry | object | what it does |", "|---|---|---|")
    for entry in page["entry"]:
        if not entry["tests"]:
            raise LookupError(f"{SOURCE.name}: the entry {entry['entry']!r} names no test")
        label = entry["entry"]
        for name in entry["objects"]:
            yield f"| {label} | `{_signature(name)}` | {_docstring(name)} |"
            label = ""
        yield f"| | *held by* | {', '.join(_test(test) for test in entry['tests'])} |"
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
    if function not in _functions(path):
        raise LookupError(f"{SOURCE.name}: there is no test {name}")
    return f"[{function}](../{path})"


@cache
def _functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def main() -> int:
    """Write the file, or with --check compare it with what would be written."""
    return write_or_check(DOCUMENT, generate(), "tools.generate_entries")


if __name__ == "__main__":
    sys.exit(main())
