"""Writes docs/mutants.md: the seeded bugs and the reordered kernels, from their catalogues.

python -m tools.generate_mutants            write the file
python -m tools.generate_mutants --check    fail if the committed file is stale
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from textwrap import fill

from tests.mutants.algebraic import ALGEBRAIC, SAME, SHARED
from tests.mutants.catalogue import MUTANTS
from tests.mutants.patch import Mutant, Patch
from tests.mutants.reordered import REORDERED
from tools.generated import write_or_check
from tools.tree import ROOT

DOCUMENT = ROOT / "docs" / "mutants.md"

FRAME = """\
# What the suite can see

A suite that passes has said nothing until it is known what it would refuse. Each bug below is a
patch on a copy of `fast`, run in a process of its own, and must be caught there by the row, the
program or the state machine of sessions: over budget, refused by name, or against what a session
promises, and not by a crash. The same check passes on the unchanged copy. A row is judged on its
fixed strata alone, and the machine drives the stateful test runs of one seed.

`python -m pytest tests/mutants -rP` runs them all and prints by how much each is over its budget.
This file is generated (`python -m tools.generate_mutants`).

The last column is about the exact ring, `python -m equivalence exact`: the row that sees the bug
too, "equal" where the bug changes no formula, so that the budgets alone see it, and nothing where
the bug is no matter of a kernel's formula.

| bug | where | caught by | exact ring |
|---|---|---|---|
{mutants}

A budget must not refuse what is right either. Each family has a kernel whose operations come in
another order, and the rows named must stay conformant.

| kernel | where | stays conformant |
|---|---|---|
{reordered}

## Formulas

Each bug below changes a formula of a kernel, and the exact ring alone must see it, by `==` and with
no tolerance. The kernels in another order, above, are equal there.

| bug | where | row of the exact ring |
|---|---|---|
{algebraic}

## The bugs

{bugs}

## The reordered kernels

{kernels}
"""


def generate() -> str:
    """Return the text of the file."""
    return FRAME.format(
        mutants="\n".join(
            f"| {m.name} | `{m.file}` | {m.catcher} | {_exact(m)} |" for m in MUTANTS
        ),
        algebraic="\n".join(f"| {m.name} | `{m.file}` | {m.row} |" for m in ALGEBRAIC),
        reordered="\n".join(
            f"| {k.name} | `{k.file}` | {', '.join(k.catchers)} |" for k in REORDERED
        ),
        bugs="\n\n".join("\n".join(_entry(m, m.why)) for m in MUTANTS),
        kernels="\n\n".join("\n".join(_entry(k, k.why)) for k in REORDERED),
    )


def _exact(mutant: Mutant) -> str:
    """Say what the exact ring makes of a bug of the catalogue."""
    return "equal" if mutant.name in SAME else SHARED.get(mutant.name, "")


def _entry(patch: Patch, why: str) -> Iterator[str]:
    yield from (f"### {patch.name[0].upper()}{patch.name[1:]}", "", fill(why, 100), "")
    yield from ("```diff", *patch.diff(), "```")


def main() -> int:
    """Write the file, or with --check compare it with what would be written."""
    return write_or_check(DOCUMENT, generate(), "tools.generate_mutants")


if __name__ == "__main__":
    sys.exit(main())
