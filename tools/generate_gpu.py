"""Writes docs/gpu.md: what the newest run of `make gpu` has found, from the file that it left."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tools.generated import write_or_check
from tools.tree import ROOT

RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "gpu.md"
ROWS = ("value float32", "vjp float32", "value bfloat16", "vjp bfloat16")

FRAME = """\
# On a GPU

This is what `make gpu` found on one machine, and no promise for another. The file is generated
(`python -m tools.generate_gpu`) from [the results](../{file}).

{where}

## Right

{right}

Cases were recorded on a machine without a GPU, with their exact values and budgets
(`make gpu-cases`), and replayed through every kernel as the GPU runs it.

## A whole step

`CompiledSession(engine="graph")` runs a step as one CUDA graph. It took {steps} steps beside a
replay of the same kernels, and every loss and parameter was compared bit for bit. A ratio is its
time over that of the other, where both wait for the end of each step.

{graphs}

"torch eager" is torch with its fused AdamW. "a graph of torch's" is the same, captured once by
hand. A replay clips gradients, and so does the graph beside it; the two of torch do not.

## Kernels

A ratio is the time of the provider `triton` over that of `aten` on the device, without what the
host needs to start it. `aten` computes an op by torch's own kernels, often by several. Their
numbers are as wide: sums are fp32, and each result is rounded once. Inputs have 8192 x 4096
numbers, where an op has no size of its own in `benchmarks/kernels.py`. Caches are cold.

{kernels}

Of {count} rows, {faster} take less time than torch's kernels, and half take {half:.2f} of it or
less. To start one, the host takes {ours:.0f} microseconds in `triton`, and {theirs:.0f} in `aten`
(medians). So small tensors are bound by the host, and that is what a graph takes away.
"""


def newest(folder: Path = RESULTS) -> Path:
    """Return the file of the newest run."""
    return max(folder.glob("gpu-*.json"), key=lambda path: read(path)["environment"]["date"])


def read(path: Path) -> Mapping[str, Any]:
    """Read a file of results."""
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def page(path: Path) -> str:
    """Return the text of the page."""
    results = read(path)
    kernels = [row for row in results["kernels"] if "ratio" in row]
    ratios = sorted(row["ratio"] for row in kernels)
    return FRAME.format(
        file=path.resolve().relative_to(ROOT).as_posix(),
        where=where(results["environment"]),
        right="\n".join(right(results)),
        steps=max(row.get("steps", 0) for row in results["graphs"]),
        graphs="\n".join(steps(results["graphs"])),
        kernels="\n".join(ops(results["kernels"])),
        count=len(ratios),
        faster=sum(ratio < 1 for ratio in ratios),
        half=median(ratios),
        ours=median(row["ours_host_us"] for row in kernels),
        theirs=median(row["theirs_host_us"] for row in kernels),
    )


def where(about: Mapping[str, Any]) -> str:
    """Say on what, with what and when."""
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    when = f"{about['date'][:10]}, commit {about['commit'][:12]}"
    return (
        f"{about['device']}, compute capability {about['capability']}, CUDA {about['cuda']},\n"
        f"Python {about['python']}, {versions}. {when}."
    )


def right(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was found right, and what was not."""
    rows = [row for part in results["replay"] for row in part["rows"]]
    found = Counter(row["status"] for row in rows)
    cases = sum(row["cases"] for row in rows)
    said = ", ".join(f"{number} {status}" for status, number in sorted(found.items()))
    yield f"* {len(rows)} rows of ops and optimizers, {cases} cases: {said}."
    worst = max(row["worst_fraction"] or 0.0 for row in rows)
    yield f"* The largest error is {worst:.3f} of its budget."
    for row in rows:
        if row["status"] != "conformant":
            yield f"* {row['op']} {row['direction']} {row['dtype']}: {row['status']}."
    memory = results["memory_check"]
    yield f"* The memory checker, on a sample ({', '.join(memory['ops'])}): {memory['status']}."
    if products := results.get("products"):
        exact = sum(row["status"] == "equal" for row in products)
        yield f"* Large tiles of products, of whole numbers: {exact} of {len(products)} are exact."
    equal = [row for row in results["graphs"] if "replay" in row["name"]]
    yield (
        f"* Graphs: {sum(row['status'] == 'equal' for row in equal)} of {len(equal)} programs have "
        "the bits of a replay."
    )


def steps(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the table of whole steps: a program a line, and a column for what a graph is beside."""
    table: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        work, _, rest = row["name"].partition(": one graph / ")
        table.setdefault(work, {})[rest.removesuffix(", whole step")] = row
    others = list(dict.fromkeys(other for found in table.values() for other in found))
    yield f"| a step | one graph | {' | '.join(f'/ {other}' for other in others)} |"
    yield "|---|--:|" + "--:|" * len(others)
    for work, found in table.items():
        taken = [row["ours_us"] for row in found.values() if "ours_us" in row]
        cells = " | ".join(cell(found.get(other)) for other in others)
        yield f"| {work} | {f'{median(taken):.0f} us' if taken else '-'} | {cells} |"


def cell(row: Mapping[str, Any] | None) -> str:
    """Return a ratio, or what there is in its place."""
    if row is None:
        return "-"
    return f"{row['ratio']:.2f}" if "ratio" in row else row.get("status", "error")


def ops(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the table of kernels: an op a line, and a column for each direction and dtype."""
    table: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        op, _, rest = row["name"].partition(" ")
        table.setdefault(op, {})[rest] = row
    yield "| op | value fp32 | VJP fp32 | value bf16 | VJP bf16 |"
    yield "|---|--:|--:|--:|--:|"
    for op, found in table.items():
        if "" in found:
            yield f"| {op} | {found['']['error']} | | | |"
        else:
            yield f"| {op} | {' | '.join(timed(found.get(name)) for name in ROWS)} |"


def timed(row: Mapping[str, Any] | None) -> str:
    """Return a ratio and our milliseconds, or a dash where nothing goes back."""
    return "-" if row is None else f"{row['ratio']:.2f} ({row['ours_ms']:.3f} ms)"


def main() -> int:
    """Write the page, or with --check compare it."""
    return write_or_check(PAGE, page(newest()), "tools.generate_gpu")


if __name__ == "__main__":
    sys.exit(main())
