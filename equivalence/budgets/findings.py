"""Declared findings: known differences of a backend from the reference, each with its minimal case.

A file of findings is TOML:

    schema = 1

    [[finding]]
    kind = "case"
    ...

`schema` is the number of the format. A file without it has the format of schema 1; a file of a
newer schema is refused. Each table is one finding, and its keys are the fields of `Finding`.

A finding speaks of one kind of failure (a case, an edge row, a near-miss) of some operations,
directions, dtypes and backends (shell patterns). It excuses what it names and nothing else:

* of an edge row, one wrong result: `gave`, as a failure shows it;
* of near-misses, that calls which break one constraint, `label`, are accepted;
* of cases, elements of one class (`got`, and `exact` where that says more) in cases of one regime,
  up to a largest ratio to their budget, or up to a largest error where their budget is 0.

A crash is never excused, nor a result of the wrong form, nor what was written elsewhere.
Findings are strict: every run replays the minimal case of each, which must still fail as declared,
and must show what it declares (`Finding.too_wide`). So no declaration outlives its defect, and
none hides another one. `python -m equivalence run --declare FILE` writes such a file, except for
the reasons, which only its author knows.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from equivalence.budgets.outcome import CLASSES, Outcome, Over
from equivalence.processor import has

SCHEMA = 1
"""The newest format of a file of findings."""

NEEDED = {"case": ("case", "regimes", "got"), "edge": ("edge", "gave"), "near-miss": ("label",)}
"""The kinds of findings, and what each must name."""

WIDEST = 4.0
"""How many times what its minimal case reaches a finding may declare.

Two binary digits: one because a ratio is rounded up to a power of two, so that neither another seed
nor another version of a library's kernel makes a new finding of it, and one because the case is
shrunk as long as it reaches half of the worst. Whoever declares more has a worse case to show.
"""

ANYWHERE = "*"
"""The position in `regimes` that stands for any input, cotangent, parameter or gradient."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One declared difference.

    case       the minimal failing case (a JSON line)
    regimes    the regimes that the finding speaks of: of some position, such as "input 0" or
               "cotangent", each of which must have one of them, or of any position
    got        what the wrong elements are: nan, inf, zero, subnormal, finite
    exact      what they should be, in the same words; of any class where it is empty
    results    the results that they stand in (shell patterns), as a failure names them
    ratio      the largest fraction of a budget that they take
    error      the largest error of those whose budget is 0, as `Over.error` is
    edge, gave the reason text of an edge row, and the wrong result
    label      the constraint whose near-misses are accepted
    cpu        the instructions that the processor must have, or lack, for it to hold
    strict     whether it must still hold; one that was taken over from a library need not
    """

    kind: str
    backend: str
    op: str
    reason: str
    direction: str = "*"
    dtype: str = "*"
    case: str | None = None
    regimes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    got: tuple[str, ...] = ()
    exact: tuple[str, ...] = ()
    results: tuple[str, ...] = ("*",)
    ratio: float = 0.0
    error: float = 0.0
    edge: str | None = None
    gave: str | None = None
    label: str | None = None
    cpu: tuple[str, ...] = ()
    strict: bool = True

    def applies(self, backend: str, op: str, direction: str, dtype: str) -> bool:
        """Say whether the finding speaks of a row, on this machine."""
        pairs = (
            (backend, self.backend),
            (op, self.op),
            (direction, self.direction),
            (dtype, self.dtype),
        )
        return all(fnmatchcase(name, pattern) for name, pattern in pairs) and all(
            map(has, self.cpu)
        )

    def covers(self, regimes: Sequence[tuple[str, str]], over: Over) -> bool:
        """Say whether elements over budget, in a case of such regimes, are what it declares.

        regimes names the regime of each position of the case.
        """
        return (
            self.speaks_of(regimes, over) and over.ratio <= self.ratio and over.error <= self.error
        )

    def speaks_of(self, regimes: Sequence[tuple[str, str]], over: Over) -> bool:
        """Say whether elements are of the kind that it declares, however wrong they are."""
        return (
            over.got in self.got
            and (not self.exact or over.exact in self.exact)
            and any(fnmatchcase(over.result, pattern) for pattern in self.results)
            and all(
                any(place in (ANYWHERE, at) and regime in names for at, regime in regimes)
                for place, names in self.regimes.items()
            )
        )

    def too_wide(self, regimes: Sequence[tuple[str, str]], outcome: Outcome) -> str | None:
        """Say what the finding declares and its minimal case, measured, does not show."""
        shown = [over for over in outcome.over if self.covers(regimes, over)]
        for name, declared in (("ratio", self.ratio), ("error", self.error)):
            reached = max((getattr(over, name) for over in shown), default=0.0)
            if declared > WIDEST * reached:
                return (
                    f"its case reaches {reached:.3g} of the {name} {declared:.3g} that it "
                    f"declares; at most {WIDEST:g} times as much is accepted"
                )
        for name, classes in (("got", self.got), ("exact", self.exact)):
            unseen = [c for c in classes if c not in {getattr(over, name) for over in shown}]
            if unseen:
                return f"its case shows no element that {name} calls {', '.join(unseen)}"
        return None

    def to_dict(self) -> dict[str, str]:
        """Return what a report says about the finding."""
        return {
            "op": self.op,
            "direction": self.direction,
            "dtype": self.dtype,
            "kind": self.kind,
            "reason": self.reason,
        }


KEYS = frozenset(Finding.__dataclass_fields__) - {"strict"}


def written(tables: Iterable[str]) -> str:
    """Return the text of a file that holds these tables, each a finding in TOML."""
    return "\n\n".join((f"schema = {SCHEMA}", *tables)) + "\n"


def read(path: Path) -> tuple[Finding, ...]:
    """Read a file of findings; ValueError names the file, which finding is wrong, and how."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def parse(text: str) -> tuple[Finding, ...]:
    """Read findings from TOML; ValueError says which one is wrong and how."""
    plain = tomllib.loads(text)
    schema = plain.pop("schema", SCHEMA)
    if type(schema) is not int or not 1 <= schema <= SCHEMA:
        raise ValueError(f"these findings are of schema {schema!r}; this suite reads {SCHEMA}")
    tables = plain.pop("finding", [])
    if plain:
        raise ValueError(f"unknown keys {sorted(plain)}; there are 'schema' and [[finding]]")
    return tuple(_finding(number, table) for number, table in enumerate(tables, 1))


def _finding(number: int, table: Mapping[str, Any]) -> Finding:
    """Read one table, strictly."""
    unknown = sorted(set(table) - KEYS)
    missing = [key for key in ("kind", "backend", "op") if not table.get(key)]
    if unknown or missing:
        raise ValueError(f"finding {number}: unknown keys {unknown}, missing keys {missing}")
    if not table.get("reason"):
        raise ValueError(
            f"finding {number}, {_named(table)}, has no reason: write in 'reason' why the backend "
            "differs and may; nobody can say it but its author"
        )
    kind = table["kind"]
    if kind not in NEEDED:
        raise ValueError(f"finding {number}: kind {kind!r}; there are {', '.join(NEEDED)}")
    absent = [key for key in NEEDED[kind] if not table.get(key)]
    if absent:
        raise ValueError(
            f"finding {number}: a finding of kind {kind!r} needs {' and '.join(map(repr, absent))}"
        )
    fields: dict[str, Any] = {
        key: tuple(v) if isinstance(v, list) else v for key, v in table.items()
    }
    if kind == "case":
        fields["regimes"] = _regimes(table["regimes"])
        _check_case(number, fields)
    return Finding(**fields)


def _named(table: Mapping[str, Any]) -> str:
    """Name a finding by what it speaks of, as its author finds it in the file."""
    row = (table["op"], table.get("direction"), table.get("dtype"), f"({table['kind']})")
    return " ".join(part for part in row if part)


def _regimes(given: Any) -> dict[str, tuple[str, ...]]:
    """Read regimes: a list, of any position, or a table of lists by position."""
    places = given if isinstance(given, Mapping) else {ANYWHERE: given}
    return {place: tuple(names) for place, names in places.items()}


def _check_case(number: int, fields: Mapping[str, Any]) -> None:
    """Refuse a finding about cases that does not say how far it reaches."""
    wrong = [c for c in (*fields["got"], *fields.get("exact", ())) if c not in CLASSES]
    if wrong:
        raise ValueError(
            f"finding {number}: elements are {', '.join(CLASSES)}; got {', '.join(wrong)}"
        )
    bounded = fields.get("ratio", 0.0) > 1.0 or fields.get("error", 0.0) > 0.0
    if not bounded and not set(fields["got"]) <= {"nan", "inf"}:
        raise ValueError(
            f"finding {number}: a finding about elements that are "
            f"{', '.join(fields['got'])} needs 'ratio', above 1, or 'error', above 0: how far over "
            "their budget they are at most"
        )


def uncovered(
    findings: Iterable[Finding], regimes: Sequence[tuple[str, str]], outcome: Outcome
) -> list[Over] | None:
    """Return what of a failing case no finding covers; None where none could cover it.

    regimes names the regime of each position of the case.
    """
    if outcome.crash is not None or outcome.problem is not None or not outcome.over:
        return None
    every = [*findings]
    return [over for over in outcome.over if not any(f.covers(regimes, over) for f in every)]


def for_row(
    findings: Iterable[Finding], backend: str, op: str, direction: str, dtype: str
) -> tuple[Finding, ...]:
    """Return the findings that speak of a row."""
    return tuple(f for f in findings if f.applies(backend, op, direction, dtype))
