"""Writes TRUST.md: what is claimed, by the layer of its evidence.

    python -m tools.generate_trust            write the file
    python -m tools.generate_trust --check    fail if the committed file is stale

What can be read off the tree is read off it: the table of ops, the notes and their assumptions, the
laws, the declared findings, the results of machines with a GPU. The rest is the frame below.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.generated import write_or_check
from tools.tree import ROOT, files, parse

FRAME = """\
# What is trusted, and why

Each claim stands in the layer of its evidence, and layers are never merged: that something is
proved, that it was tested, that it ran, and that it is believed are four different statements.
This file is generated (`python -m tools.generate_trust`); `make check` fails while it is stale.

## Proved for all sizes

The page itself runs on symbols, with symbolic extents; the difference to the claim reduces to zero.
A wrong rule is refuted by the same means in each note's test.

{proved}

## Proved at given sizes

{sized}

## Exact property

The reference against itself, on given and on drawn examples, where equality means equality. A law
that holds on every example drawn is not a proof.

{laws}

## Exact on kernels

`python -m equivalence exact` runs every kernel of `fast`, from its page's own host, line by line
on exact numbers in Triton's interpreter, and compares what it stores with the page by ==: values
and VJPs of all operations, several steps of {optimizers}, and whole training steps. It is an
identity test at drawn points: for each row it prints the probability that a wrong formula passed,
or that there is no bound. A formula that a note gives for a kernel is so tied to the kernel's
lines, for small tensors of the covering design; [the note](proofs_notes/exact.md) says what
follows from it. `python -m equivalence exact --backend fast-aten` compares the formulas of the ATen
twins in the same way; torch's own kernels do not run there. Nothing is said of rounding.

## Budgeted differential test

`python -m equivalence run` draws cases from these pages and judges every element of value, VJP and
optimizer step of a backend by a budget that follows from its declared contract. A row of such a run
says that no counterexample was found among so many cases, in that ring, under that contract.

{ops}

Declared differences of backends from the reference:

{findings}

## Raced

`make races` executes the compiler's own first form of every kernel (TTIR) on the CPU, over the
pages' examples in every dtype and the judge's fixed cases in fp32: no two program instances touch a
byte that one of them writes, and no access leaves the bytes of the tensors that a launch was given.
Before that it plants faults, and fails unless each is found at its line:

{planted}

It says nothing of launches that were not made, of threads within a program instance, or of what the
compiler makes of TTIR afterwards.

## Read off the binary

`make kernels` compiles every kernel for sm_80 and sm_90 and reads its instructions: what it may not
contain, and whether loads, tensor cores, registers or occupancy have become worse than the facts in
[docs/kernels.md](docs/kernels.md), and whether each tile of products keeps what its table promises
([docs/tiles.md](docs/tiles.md)). That says what a device would be given, not how it would run; a
static roofline there is an estimate, and no time was measured.

## Ran on a device

{device}

## Assumed

No machine checks these.

{assumed}
"""

NO_DEVICE = """\
No run on a GPU has been recorded. The suite runs every kernel in Triton's interpreter and compiles
it for sm_80 and sm_90; neither shows an approximate instruction at work, a race of threads, or a
wrong address on a device. `make gpu-cases`, then `make gpu` on a machine with a GPU, records a
run."""


def bullets(lines: Iterable[str], nothing: str) -> str:
    """A list, or the sentence that says why there is none."""
    return "\n".join(f"* {line}" for line in lines) or nothing


def notes(root: Path) -> list[Path]:
    """The executed notes; the page that says how to read them is none."""
    return [p for p in files(root / "proofs_notes", ".md") if p.name != "README.md"]


def title(text: str) -> str:
    """The first heading of a Markdown text."""
    found = re.search(r"^#+ +(.+)$", text, re.MULTILINE)
    return found.group(1) if found else "untitled"


def marked(path: Path, mark: str) -> list[str]:
    """What follows a mark such as `Assumed:` at a line's start, to the end of its paragraph."""
    pattern = (
        rf"^(?:[*-] )?\**{mark}\**:?\** *(.+?)(?=\n\s*\n|\n(?:[*-] )?\**[A-Z][a-z ]+:|\n```|\Z)"
    )
    found = re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [" ".join(text.split()) for text in found]


def proved(root: Path) -> Iterator[str]:
    """One line per note: its title, and what it says it has proved."""
    for path in notes(root):
        claims = " ".join(marked(path, "Proved:") or marked(path, "Claim:"))
        link = f"[{title(path.read_text(encoding='utf-8'))}]({path.relative_to(root).as_posix()})"
        yield f"{link}: {claims}" if claims else link


def laws(root: Path) -> Iterator[str]:
    """One line per file that tests the reference against itself: what its docstring promises."""
    for path in files(root / "tests" / "spec", ".py"):
        if path.name.startswith("test_"):
            sentence = (ast.get_docstring(parse(path)) or path.stem).split("\n\n")[0]
            yield f"`{path.relative_to(root).as_posix()}`: {' '.join(sentence.split())}"


def op_table() -> str:
    """The ops with their kinds and inputs, in reading order."""
    from spec.ops import OPS

    rows = ["| op | kind | inputs | attributes |", "|---|---|---|---|"]
    for name, op in OPS.items():
        attributes = ", ".join(op.attributes) or " "
        inputs = f"*{op.inputs[0]}" if op.variadic else ", ".join(op.inputs)
        rows.append(f"| {name} | {op.kind} | {inputs} | {attributes} |")
    return "\n".join(rows)


def optimizers() -> str:
    """The optimizers, in words."""
    from spec.optim import OPTIMIZERS

    *others, last = OPTIMIZERS
    return f"{', '.join(others)} and {last}"


def findings(root: Path) -> Iterator[str]:
    """One line for the declared findings of an op and a reason, with the dtypes they speak of."""
    paths = sorted((root / "equivalence" / "backends").glob("*/findings.toml"))
    entries = (
        entry
        for path in paths
        for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("finding", [])
    )
    found: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        where = " ".join(entry[key] for key in ("backend", "op", "direction") if key in entry)
        dtypes = found.setdefault((where, entry["reason"]), [])
        if entry.get("dtype", "*") not in (*dtypes, "*"):
            dtypes.append(entry["dtype"])
    for (where, reason), dtypes in found.items():
        named = f" in {', '.join(dtypes)}" if dtypes else ""
        yield f"{where}{named}: {reason}"


def device_runs(root: Path) -> Iterator[str]:
    """One line per results file of a machine with a GPU."""
    for path in sorted((root / "benchmarks" / "results").glob("gpu-*.json")):
        results = json.loads(path.read_text(encoding="utf-8"))
        at = results["environment"]
        rows = [row["status"] for part in results.get("replay", []) for row in part["rows"]]
        replays = ", ".join(f"{rows.count(s)} rows {s}" for s in sorted(set(rows))) or "no row"
        memory = results.get("memory_check", {}).get("status", "not run")
        yield (
            f"{at['device']}, {at['date'][:10]}, commit {at['commit'][:12]} "
            f"([results]({path.relative_to(root).as_posix()})): {replays}; memory check {memory}"
        )


def planted() -> Iterator[str]:
    """One line per planted fault of the raced ring."""
    from equivalence.races.planted import PLANTED

    for fault in PLANTED:
        silent = "; it changes no number in the interpreter" if fault.silent else ""
        yield f"{fault.name} ({fault.kind} in `{fault.kernel}`): {fault.why}{silent}"


def assumed(root: Path) -> Iterator[str]:
    """Every assumption, with the page that makes it."""
    for path in [*notes(root), *files(root / "docs", ".md")]:
        for line in marked(path, "Assumed:"):
            yield f"{line} ([{path.stem}]({path.relative_to(root).as_posix()}))"


def generate(root: Path = ROOT) -> str:
    """The text of TRUST.md."""
    sized = (
        f"{line} ([{p.stem}]({p.relative_to(root).as_posix()}))"
        for p in notes(root)
        for line in marked(p, "Proved at given sizes:")
    )
    return FRAME.format(
        proved=bullets(proved(root), "Nothing yet."),
        sized=bullets(sized, "Nothing: what is proved here is proved for all sizes."),
        laws=bullets(laws(root), "Nothing yet."),
        optimizers=optimizers(),
        ops=op_table(),
        findings=bullets(findings(root), "None."),
        planted=bullets(planted(), "None."),
        device=bullets(
            device_runs(root),
            NO_DEVICE,
        ),
        assumed=bullets(assumed(root), "Nothing."),
    )


def main() -> int:
    """Write the file, or with --check compare it with what would be written."""
    return write_or_check(ROOT / "TRUST.md", generate(), "tools.generate_trust")


if __name__ == "__main__":
    sys.exit(main())
