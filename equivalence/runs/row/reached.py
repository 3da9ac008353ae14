"""How far a row got: which cases a backend refused, whether it may, and which levels are left.

A refusal is a NotImplementedError. Of a call that the backend declares to take, it is a failure.
Where it declares nothing, the call is left out. What a declaration could not say may not decide
over it: a call that is answered with other numbers, or when it is made again, was refused for its
numbers or for its turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from equivalence.budgets.outcome import Outcome
from equivalence.cases.declared.plain import plain_numbers, signature
from equivalence.registry import OPS
from equivalence.runs.address import replay_line
from equivalence.runs.failure import Failure
from equivalence.runs.kinds import Case, Kind, Places
from equivalence.runs.results import Partial
from equivalence.runs.row.asking import Asking
from equivalence.runs.row.tally import Tally
from equivalence.workers.executor import Batch, Question

MOST_AGAIN = 24
"""How many refused cases of a row are made again. Each costs two calls and the judging of them, and
those are chosen that differ in kinds of numbers: a backend that hides refuses by few of them."""


@dataclass(frozen=True)
class _Refused:
    """A case that a backend refused, in what words, and from where in a row."""

    kind: Kind
    case: Case
    words: str


@dataclass
class Reached:
    """The cases of a row that were answered, and those that were not.

    op        the operation or optimizer
    kind      where the cases of the design come from
    declared  whether the backend declares which part of the op it takes
    edges     the edges that were left out, each as a call with plain numbers
    """

    op: str
    kind: Kind
    asking: Asking
    tally: Tally
    declared: bool
    answered: dict[Case, Kind] = field(default_factory=dict[Case, Kind])
    refused: list[_Refused] = field(default_factory=list[_Refused])
    edges: list[_Refused] = field(default_factory=list[_Refused])

    def leave_out(self, case: Case, words: str) -> None:
        """Enter an edge that a backend refuses, as a call of its types with plain numbers."""
        self.edges.append(_Refused(self.kind, case, words))

    def enter(self, slot: str, kind: Kind, case: Case, outcome: Outcome) -> bool:
        """Enter a case; say whether there is an answer to judge."""
        if outcome.refused is None or outcome.failed:
            self.answered[case] = kind
            return True
        refused = _Refused(kind, case, outcome.refused)
        if self.declared:
            self._fail(slot, refused, "declared, then refused")
        else:
            self.refused.append(refused)
        return False

    def batch(self) -> Batch:
        """Return the questions that show whether cases were refused for their numbers or turn."""
        return Batch(self._questions(), enough=lambda: self.tally.wrong("refused") > 0)

    def partial(self) -> Partial | None:
        """Return how much of the page's design was judged; None where all of it was."""
        if not (self.declared or self.refused or self.edges):
            return None
        every = _by_factor(self.kind.whole())
        met = (self._levels(kind, case) for case, kind in self.answered.items())
        missing = levels_without(self.op, every, met)
        if self.declared and not missing:
            return None
        levels, left = sum(map(len, every.values())), sum(map(len, missing.values()))
        asked = len(self.answered) + len(self.refused)
        return Partial(
            missing, (levels - left, levels), (len(self.answered), asked), len(self.edges)
        )

    def _questions(self) -> Iterator[Question[Outcome]]:
        """Compare refused cases with those that were answered, and make some of them again."""
        if not (self.refused or self.edges):
            return
        like = {signature(case): case for case in self.answered}
        for refused in self.refused:
            known = like.get(signature(refused.case))
            if known is not None:
                self._hidden(refused, f"other numbers: {refused.kind.describe(known)}", known)
                return
        for refused in self._chosen():
            yield from self._again(refused)
        calls = {edge.case: edge for edge in self.edges}
        for edge in islice(calls.values(), MOST_AGAIN):
            said = "plain numbers in the same shapes and attributes"
            enter = partial(self._answered, edge, said, edge.case)
            yield self.asking.question(edge.kind, edge.case, enter, rung="plain edge")

    def _again(self, refused: _Refused) -> Iterator[Question[Outcome]]:
        """Make a case again with plain numbers, and as it is."""
        kind, case = refused.kind, refused.case
        inner = getattr(case, "case", None)
        if inner is None:
            plain = plain_numbers(case)
            said = "plain numbers in the same shapes, attributes and layouts"
            enter = partial(self._answered, refused, said, plain)
            yield self.asking.question(kind, plain, enter, rung="plain")
        enter = partial(self._answered, refused, "the same call, made again", case)
        yield self.asking.question(kind, case, enter, rung="again")

    def _answered(self, refused: _Refused, said: str, case: Case, outcome: Outcome) -> None:
        if outcome.refused is None:
            self._hidden(refused, said, case)

    def _hidden(self, refused: _Refused, said: str, case: Case) -> None:
        title = "refused for its numbers or its turn"
        replay = replay_line(self.asking.address, case.to_json())
        self._fail("refused", refused, title, f"but answered was {said}", f"replay that: {replay}")

    def _fail(self, slot: str, refused: _Refused, title: str, *details: str) -> None:
        """Enter a refusal that is a failure."""
        said = f"{title}: {refused.kind.describe(refused.case)}"
        replay = replay_line(self.asking.address, refused.case.to_json())
        self.tally.fail(slot, Failure(said, (refused.words, *details), replay))

    def _levels(self, kind: Kind, case: Case) -> Places:
        """Return the levels of a case in the design, of which large cases are none."""
        return kind.levels(case) if kind is self.kind else {}

    def _chosen(self) -> list[_Refused]:
        """Choose refused cases: each kind of numbers and each calling pattern, at each place.

        Those come first of which nothing that a declaration could say was refused throughout.
        """
        answered = (self._levels(kind, case) for case, kind in self.answered.items())
        met = _by_factor(map(_declarable, answered))

        def explained(refused: _Refused) -> bool:
            levels = _declarable(self._levels(refused.kind, refused.case))
            return not levels or any(v not in met.get(name, {}) for name, v in levels.items())

        ordered = sorted(self.refused, key=explained)
        new: list[_Refused] = []
        seen: set[tuple[str, str]] = set()
        for refused in ordered:
            marks = {(where, r.regime) for where, r in refused.kind.recipes(refused.case)}
            marks |= {("calling", str(getattr(refused.case, "calling", "")))}
            if not marks <= seen:
                seen |= marks
                new.append(refused)
        others = [refused for refused in ordered if refused not in new]
        return [*new, *others][:MOST_AGAIN]


def levels_without(
    op: str, every: Mapping[str, Mapping[Any, None]], met: Iterable[Places]
) -> dict[str, tuple[str, ...]]:
    """Return the levels that no row has met, in words, by the names of their factors."""
    seen = _by_factor(met)
    missing = {
        _called(op, name): tuple(_text(v) for v in _sorted(own) if v not in seen.get(name, {}))
        for name, own in every.items()
    }
    return {name: levels for name, levels in missing.items() if levels}


def left_by(op: str, kind: Kind, cases: Iterable[Case]) -> dict[str, tuple[str, ...]]:
    """Return the levels of a page's design that none of some cases has."""
    return levels_without(op, _by_factor(kind.whole()), map(kind.levels, cases))


def _declarable(levels: Places) -> Places:
    """Return the levels that a declaration could speak of: all but kinds of numbers."""
    return {name: v for name, v in levels.items() if "regime" not in name and name != "calling"}


def _by_factor(rows: Any) -> Mapping[str, dict[Any, None]]:
    """Collect the levels of rows by their factors, in the order in which they come."""
    found: dict[str, dict[Any, None]] = {}
    for row in rows:
        for name, level in row.items():
            found.setdefault(name, {})[level] = None
    return found


def _called(op: str, factor: str) -> str:
    """Return the name of a factor as a reader knows it.

    >>> _called("add", "layout_1"), _called("add", "seed_regime"), _called("add", "rank")
    ('layout of y', 'numbers of the seed', 'rank')
    """
    what = {"layout": "layout", "regime": "numbers"}
    first, _, last = factor.partition("_")
    if first == "seed" and last in what:
        return f"{what[last]} of the seed"
    if first in what and last.isdigit():
        return f"{what[first]} of {OPS[op].names(int(last) + 1)[int(last)]}"
    return factor.replace("_", " ")


def _sorted(levels: Mapping[Any, None]) -> list[Any]:
    """Return the levels of a factor, numbers in their order."""
    numbers = all(isinstance(level, int) for level in levels)
    return sorted(levels) if numbers else list(levels)


def _text(level: Any) -> str:
    return level if isinstance(level, str) else repr(level)
