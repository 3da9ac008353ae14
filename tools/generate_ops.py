"""Writes docs/ops.md: every operation, its formula, its conventions, and who differs.

    python -m tools.generate_ops            write the file
    python -m tools.generate_ops --check    fail if the committed file is stale

It is read off the pages (`spec/ops`), the built-in backends, the declared findings, the facts of
the binaries, and the fractions of budgets that runs recorded (tools.record_fractions).
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from equivalence.backends.jax.contract import ASKED
from equivalence.backends.libraries import shipped
from equivalence.backends.torch.backend import OPS as TORCH
from proofs_notes.index import NOTES
from spec.op import Op
from spec.ops import OPS
from tools.generated import write_or_check
from tools.record_fractions import Runs, recorded, shown
from tools.tree import ROOT

DOCUMENT = ROOT / "docs" / "ops.md"
BINARIES = ROOT / "docs" / "kernels.json"

HEADER = """\
# Operations

Every operation has a page in `spec/ops`, which this file quotes, and a twin in `fast/ops`: Triton
kernels for fp32, bf16 and fp16, and ATen for these and fp64. This file is generated
(`python -m tools.generate_ops`); `make check` fails while it is stale.

Every page and every twin is judged on the host and in Triton's interpreter
(`python -m equivalence run`), run on exact numbers where it does not draw
(`python -m equivalence exact`), and watched for races (`python -m equivalence races`). What the
binaries of its kernels use stands in [kernels.md](kernels.md).

The last columns say how much of its budget a backend used at worst, over all rows of the op: 0 is
the page's number to the last bit, 1 the whole budget; a dash says that it has no such row, or was
not run. Rows of which a finding excuses something have no fraction: they are "declared", and the
backend's differences stand below. {runs}

"""


def generate() -> str:
    """Return the text of the file; raises LookupError where a page has no formula."""
    runs = recorded()
    said = " ".join(f"{name}: {run['profile']}, seed {run['seed']}." for name, run in runs.items())
    heads = ["op", "kind", "formula", "compiled", *runs]
    table = [heads, ["---" for _ in heads], *(_row(op, runs) for op in OPS.values())]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in table)
    return HEADER.format(runs=said) + lines + "\n\n" + "\n".join(map(_section, OPS.values()))


def _row(op: Op, runs: Runs) -> list[str]:
    formula = " ".join(_formula(op).split()).replace("|", "\\|")
    fractions = (shown(run["worst"].get(op.name)) for run in runs.values())
    return [f"[{op.name}](#{op.name})", op.kind, f"`{formula}`", _compiled(op.name), *fractions]


def _formula(op: Op) -> str:
    """Return the first indented lines of a page's docstring."""
    found = re.search(r"\n\n((?:    \S.*\n?)+)", _docstring(op) + "\n")
    if found is None:
        raise LookupError(f"spec/ops/{op.name}.py: its docstring has no formula, an indented line")
    return textwrap.dedent(found[1]).strip()


def _docstring(op: Op) -> str:
    module = sys.modules[f"spec.ops.{op.name}"]
    return inspect.getdoc(module) or ""


def _compiled(name: str) -> str:
    kernels = sum(row["name"].partition(".")[0] == name for row in _binaries())
    return f"{kernels} kernels"


@cache
def _binaries() -> list[dict[str, Any]]:
    kernels: list[dict[str, Any]] = json.loads(BINARIES.read_text(encoding="utf-8"))["kernels"]
    return kernels


def _section(op: Op) -> str:
    return "\n".join((f"## {op.name}", "", *_lines(op), ""))


def _lines(op: Op) -> Iterator[str]:
    yield f"`{_signature(op)}`"
    for paragraph in _docstring(op).split("\n\n"):
        if not paragraph.startswith((">>>", "    ")):
            yield from ("", *paragraph.split("\n"))
        elif not paragraph.startswith(">>>"):
            yield from ("", "```", *textwrap.dedent(paragraph).split("\n"), "```")
    if op.elsewhere is not None:
        torch, jax = (_code(name) for name in (op.elsewhere.torch, op.elsewhere.jax))
        yield from ("", f"Elsewhere: {torch or 'none in torch'}; {jax or 'none in JAX'}.")
    yield ""
    choices = dict.fromkeys(edge.why for edge in op.edges if edge.source == "CHOICE")
    if choices:
        yield f"* Chosen: {'; '.join(choices)}."
    yield f"* Its twin: [fast/ops/{op.name}.py](../fast/ops/{op.name}.py)."
    if note := NOTES.get(op.name):
        yield f"* Derived in [{note}](../proofs_notes/{note})."
    for backend, offered, otherwise in (
        ("torch", op.name in TORCH, "nothing of the same meaning"),
        ("jax", op.name in ASKED, "random bits of its own" if op.random else "not asked yet"),
    ):
        reasons = _differences(backend, op.name)
        if not offered:
            yield f"* {backend}: {otherwise}."
        elif reasons:
            yield f"* {backend} differs: {'; '.join(reasons)}."
        else:
            yield f"* {backend}: no difference is declared."


def _code(name: str | None) -> str | None:
    return None if name is None else f"`{name}`"


def _signature(op: Op) -> str:
    signature = inspect.signature(op.value)
    plain = [
        p.replace(annotation=p.empty) if p.kind is not p.KEYWORD_ONLY else p
        for p in signature.parameters.values()
    ]
    return f"{op.name}{signature.replace(parameters=plain, return_annotation=signature.empty)}"


def _differences(backend: str, name: str) -> list[str]:
    """Return the reasons of the findings about a backend and an op, each once."""
    return list(
        dict.fromkeys(
            finding.reason
            for finding in shipped()
            if finding.backend == backend and fnmatchcase(name, finding.op)
        )
    )


def main() -> int:
    """Write the file, or with --check compare it with what would be written."""
    return write_or_check(DOCUMENT, generate(), "tools.generate_ops")


if __name__ == "__main__":
    sys.exit(main())
