"""Writes docs/matrix.md: who catches what of the population, from the runs in docs/matrix.json.

python -m tools.generate_matrix            write the file
python -m tools.generate_matrix --check    fail if the committed file is stale

The runs are made by `python -m equivalence matrix --profile ci --json docs/matrix.json`, and once
more for each other profile.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from equivalence.population.matrix import read
from equivalence.population.policies import POLICIES
from equivalence.population.record import Member
from equivalence.population.registry import everyone, reported
from equivalence.population.table import lines, marked, summary
from tools.generated import write_or_check
from tools.tree import ROOT

RUNS = ROOT / "docs" / "matrix.json"
DOCUMENT = ROOT / "docs" / "matrix.md"

FRAME = """\
# Who catches what

The population (`equivalence/population`) holds {wrong} wrong implementations and {right} right ones
that compute the same thing another way. Of the wrong ones, {reported} name a report of a mistake
like theirs; the others name the habit that makes them. Each is judged like a stranger's backend:
its rows alone, to the first failure. A check is worth what it catches of the first and passes of
the second.

The suite was run {runs}.
This file is generated (`python -m tools.generate_matrix`) from what those runs wrote.

The other columns are checks that people use, with the tolerances that they type
(`equivalence/population/policies.py`):

{policies}

{summary}

{limits}## Every member

{members}

## What each is

{abouts}
"""


def generate() -> str:
    """Return the text of the file."""
    members = everyone()
    runs, verdicts = read(RUNS)
    return FRAME.format(
        wrong=sum(not m.right for m in members),
        right=sum(m.right for m in members),
        reported=sum(reported(m) for m in members if not m.right),
        runs=", ".join(_run(profile, run) for profile, run in runs.items()),
        policies="\n".join(f"* {name}: {policy.__doc__}" for name, policy in POLICIES.items()),
        summary=marked(summary(members, verdicts)),
        limits=_limits(members),
        members=marked(lines(members, verdicts)),
        abouts="\n".join(_abouts(members)),
    )


def _run(profile: str, run: Mapping[str, Any]) -> str:
    seeds = "seed 0" if run["seeds"] == 1 else f"seeds 0 to {run['seeds'] - 1}"
    return f"at {profile} on {run['date']} ({seeds}, {run['seconds']} s)"


def _limits(members: tuple[Member, ...]) -> str:
    """Say which wrong ones nothing could show, and why."""
    shown = [f"* {m.name}: {m.indistinguishable}" for m in members if m.indistinguishable]
    if not shown:
        return ""
    return "\n".join(("These no result in their precision could show:", "", *shown, "", ""))


def _abouts(members: tuple[Member, ...]) -> Iterator[str]:
    """Yield what is wrong with a member, or how it differs, and where such a bug was."""
    for m in members:
        source = f" ({m.source})" if m.source else ""
        yield f"* **{m.name}**: {m.about}{source}"


if __name__ == "__main__":
    sys.exit(write_or_check(DOCUMENT, generate(), "tools.generate_matrix"))
