"""Writes docs/matrix.md, and its counts in the README: who catches what of the population.

python -m tools.generate_matrix            write both, from the runs in docs/matrix.json
python -m tools.generate_matrix --check    fail if a committed file is stale

The runs are made by `python -m population --profile ci --json docs/matrix.json`, and once
more for each other profile.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from population.matrix import read
from population.record import Member
from population.registry import everyone, reported
from population.rivals.policies import POLICIES
from population.table import lines, marked, summary
from tools.generated import between, write_or_check
from tools.tree import ROOT

RUNS = ROOT / "docs" / "matrix.json"
DOCUMENT = ROOT / "docs" / "matrix.md"
README = ROOT / "README.md"

COUNTED = 3
"""How many rows of the summary those are: the judges, the wrong members and the right ones."""

FRAME = """\
# Who catches what

The population (`population/`) holds {wrong} wrong implementations and {right} right ones
that compute the same thing another way. Of the wrong ones, {reported} name a report of a mistake
like theirs; the others name the habit that makes them. Each is judged like a stranger's backend:
its rows alone, to the first failure. A check is worth what it catches of the first and passes of
the second.

The suite was run {runs}.
This file is generated (`python -m tools.generate_matrix`) from what those runs wrote.

The other columns are checks that people use, with the tolerances that they type
(`population/rivals/policies.py`). What torch has not, or draws or iterates otherwise than the page,
such as Lion and Muon, is compared with `fast` there:

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


def readme() -> str:
    """Return the text of the README, with the counts of the runs."""
    _, verdicts = read(RUNS)
    counts = marked(islice(summary(everyone(), verdicts), COUNTED))
    return between(README.read_text(encoding="utf-8"), "matrix", counts)


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
    written = ((DOCUMENT, generate()), (README, readme()))
    sys.exit(max(write_or_check(path, text, "tools.generate_matrix") for path, text in written))
