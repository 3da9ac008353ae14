"""Write the `Ops` file of each package, a typed method per op, and the steps of its optimizers.

    python -m tools.generate_protocols            writes them, and the classes of fast.torch
    python -m tools.generate_protocols --check    says which of them is out of date, and exits 1

A program takes its operations from the session it runs in, and a training loop its steps; these
files are what an editor and a type checker know of them. Signatures are the pages' own.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from spec.ops import OPS
from tools import optimizer_steps, torch_faces
from tools.tree import ROOT

HEADER = '''"""{opening}: one method per operation.

Written by tools/generate_protocols.py from the pages in {package}/ops; do not edit.
{example}"""

# This file is longer than the guide because it has a method for each operation.

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

R = TypeVar("R")


class Ops(ABC, Generic[R]):
    """The operations on refs of type R; a session supplies `apply`, and each op is a method."""

    __slots__ = ()

    @abstractmethod
    def apply(self, name: str, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> R:
        """Apply the op of this name to refs and return the ref of its result."""
'''


OPENING = "What a program may ask of the session it runs in"

EXAMPLE = """
>>> class Written(Ops[str]):
...     def apply(self, name, inputs, attributes):
...         return f"{name}({', '.join(inputs)})"
>>> ops = Written()
>>> ops.sub(ops.exp("x"), "y")
'sub(exp(x), y)'
"""

SUPPLIED = ("counter", "like", "dtype", "device")
"""What a session hands to ops that draw or make numbers, so that no program says it."""


def written_type(hint: Any) -> str:
    """Spell a type as source; an extent, a symbol in a note, is an int in a session."""
    if hint is Any:
        return "int"
    text = hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)
    for name, short in (("typing.Any", "int"), ("NoneType", "None"), ("typing.", "")):
        text = text.replace(name, short)
    return text.replace("collections.abc.", "")


def described(value: Callable[..., Any], fallback: str) -> str:
    """Return the first sentence of the module's docstring that the page opens with."""
    module = sys.modules[value.__module__]
    return (module.__doc__ or fallback).strip().splitlines()[0]


def method(
    name: str,
    source: Callable[..., Any],
    inputs: tuple[str, ...],
    about: str,
    made: str,
    held: tuple[int, ...] = (),
) -> str:
    """Write one method: refs in, attributes by keyword with the page's defaults, and what comes.

    Those inputs that are held are buffers of the session.
    """
    hints = typing.get_type_hints(source)
    parameters = inspect.signature(source).parameters.values()
    keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in SUPPLIED]
    indices = ("indices", "labels", "mask", *(inputs[k] for k in held))
    arguments = [f"{i}: Any" if i in indices else f"{i}: R" for i in inputs]
    for p in keywords:
        default = "" if p.default is p.empty else f" = {p.default!r}".replace("'", '"')
        arguments.append(f"{p.name}: {written_type(hints[p.name])}{default}")
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if variadic:
        arguments[0] = f"*{arguments[0]}"
    elif keywords:
        arguments.insert(len(inputs), "*")
    refs = inputs[0] if variadic else f"({', '.join(inputs)}{',' if len(inputs) == 1 else ''})"
    attributes = ", ".join(f'"{p.name}": {p.name}' for p in keywords)
    head = f"    def {name}(self, {', '.join(arguments)}) -> {made}:"
    if len(head) > 100:
        lines = "".join(f"        {a},\n" for a in ["self", *arguments])
        head = f"    def {name}(\n{lines}    ) -> {made}:"
    body = f'        return self.apply("{name}", {refs}, {{{attributes}}})'
    return f'\n{head}\n        """{about}"""\n{body}\n'


def source_of(op: Any) -> Callable[..., Any]:
    """Return the function whose signature is the op's: a composite's program, or the value."""
    program = getattr(op, "program", None)
    return op.value if program is None else typing.cast("Callable[..., Any]", program)


def made_by(name: str) -> str:
    """Name what an op makes: a ref, or positions, which other ops take for indices, or several."""
    lone = OPS[name].kind != "positions" and OPS[name].results is None
    return "R" if lone else "Any"


def render(package: str) -> str:
    """Write the whole file of one package."""
    ops = importlib.import_module(f"{package}.ops").OPS
    pages = (
        method(
            name,
            source_of(op),
            tuple(op.inputs),
            described(source_of(op), name),
            made_by(name),
            op.buffers,
        )
        for name, op in ops.items()
    )
    body = "".join(pages)
    opening, example = OPENING, ""
    if package == "spec":
        place = importlib.import_module("spec").CHAPTERS.index("protocol") + 1
        opening, example = f"Chapter {place}. {OPENING}", EXAMPLE
    header = HEADER.format(package=package, opening=opening, example=example)
    if "Sequence[" in body:
        header = header.replace(
            "from typing import", "from collections.abc import Sequence\nfrom typing import", 1
        )
    return header + body


def formatted(source: str) -> str:
    """Lay source out as the house does."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "protocol.py", "-"]
    run = subprocess.run(
        command, input=source, capture_output=True, text=True, check=True, cwd=ROOT
    )
    return run.stdout


FILES: tuple[tuple[str, str, Callable[[str], str]], ...] = (
    ("spec", "protocol.py", render),
    ("spec", "optim/_steps.py", optimizer_steps.render),
    ("fast", "protocol.py", render),
    ("fast", "optim/_steps.py", optimizer_steps.render),
    ("fast", "torch/_classes.py", torch_faces.render),
)
"""What is written of each package, from its pages."""


def outdated(root: Path, packages: tuple[str, ...]) -> Iterator[tuple[Path, str]]:
    """Yield each file that does not hold what would be written, with what would be."""
    for package, name, write in FILES:
        if package in packages:
            path, text = root / package / name, formatted(write(package))
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                yield path, text


def main() -> int:
    """Write or check the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if outdated")
    parser.add_argument("packages", nargs="*", default=["spec", "fast"])
    options = parser.parse_args()
    stale = list(outdated(ROOT, tuple(options.packages)))
    for path, text in stale:
        if options.check:
            name = path.relative_to(ROOT)
            print(f"{name} is out of date: run python -m tools.generate_protocols")
        else:
            path.write_text(text, encoding="utf-8")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
