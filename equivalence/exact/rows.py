"""Rows: what the ring says of each operation, optimizer and training, in worker processes, too."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from equivalence import registry
from equivalence.backends import Backend, load
from equivalence.backends.parts import offers, part_of
from equivalence.backends.protocol import Capabilities
from equivalence.cases.declared.inside import Inside, Misdeclared, all_of, narrowing
from equivalence.exact import operations, training, updates
from equivalence.exact.points import Verdict
from equivalence.registry import OPS, OPTIMIZERS
from equivalence.workers.pool import Died, spread

EQUAL, DIFFERS, UNREAD, REFUSED = "equal", "differs", "cannot be read", "refused"
"""What is said of a row. It differs only where numbers, or the forms of results, do."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a report: an operation, an optimizer or a training, and what of it."""

    of: str
    direction: str

    def __str__(self) -> str:
        """Show as ``softmax vjp``."""
        return f"{self.of} {self.direction}"


@dataclass(frozen=True, slots=True)
class Found:
    """What was found about a row: at how many points, and in how many seconds.

    part says whether the backend declares to take a part of the op, inside which all points lie.
    """

    row: Row
    points: int
    verdict: Verdict
    seconds: float
    part: bool = False

    @property
    def equal(self) -> bool:
        """Whether something was compared, all of it was, and it was equal."""
        found = self.verdict
        return bool(found.elements) and not (found.differences or found.unread)

    @property
    def status(self) -> str:
        """What is said of the row: what differs counts first, then what could not be read."""
        if self.verdict.differences:
            return DIFFERS
        if self.verdict.unread:
            return UNREAD
        return (
            REFUSED if self.verdict.refused and not self.equal else EQUAL if self.equal else UNREAD
        )

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the row is not equal."""
        if self.equal:
            return ()
        found = self.verdict
        return found.differences or found.unread or found.refused or ("nothing was compared",)

    @property
    def bound(self) -> str:
        """The bound in words: a power of 2 that is no smaller, or that there is none."""
        bound = self.verdict.bound
        if bound is None:
            return "no bound"
        return "0" if bound == 0 else f"2^{math.ceil(math.log2(bound))}"

    @property
    def remark(self) -> str:
        """What a reader should know of the stand-ins."""
        homomorphic = self.row.of in OPS and operations.rescales(self.row.of)
        refused = len(self.verdict.refused)
        parts = ["exp is g^x modulo a prime"] if homomorphic else []
        parts += ["inside the declared part"] if self.part else []
        parts += [f"{refused} of {self.points} points refused"] if refused else []
        return ", ".join(parts)

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the row's line."""
        found = self.verdict
        orderings = str(len(found.orderings)) if found.orderings else ""
        return (
            str(self.row), str(self.points), str(found.elements), str(found.degree), self.bound,
            orderings, f"{self.seconds:.1f}", self.status, self.remark,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON carries it."""
        return dict(zip(COLUMNS, self.cells(), strict=True)) | {
            "differences": list(self.verdict.differences),
            "unread": list(self.verdict.unread),
            "refused": list(self.verdict.refused),
        }


TRAINING = "training"
"""What is compared of a program: the whole step."""

COLUMNS = (
    "row", "points", "elements", "degree", "wrong passes", "orderings", "seconds", "status", "",
)  # fmt: skip


def rows(ops: Sequence[str] | None = None, backend: Backend | None = None) -> list[Row]:
    """Return the rows of some operations, optimizers and trainings, None for all.

    Of a backend they are what it offers in fp32; trainings are ours. Its steps are not clipped, as
    a norm has many forms that are equal on paper alone.
    """
    of_ops = [
        Row(name, direction)
        for name, page in (OPS.of_the_book() if backend is None else OPS).items()
        for direction in ("value", "vjp")
        if direction == "value" or page.moves
    ]
    own = None if backend is None else backend.capabilities()
    optimizers = OPTIMIZERS.of_the_book() if own is None else OPTIMIZERS
    of_optimizers = [Row(name, kind) for name in optimizers for kind in _kinds(name, own)]
    of_trainings = [Row(name, TRAINING) for name in training.TRAININGS]
    every = (*of_ops, *of_optimizers, *of_trainings)
    if own is not None:
        every = tuple(row for row in (*of_ops, *of_optimizers) if offers(own, *_where(row)))
    return [row for row in every if ops is None or row.of in ops]


def _kinds(optimizer: str, own: Capabilities | None) -> list[str]:
    """Return the kinds of rows of an optimizer: of our kernels all, of a backend what it takes."""
    extras = True if own is None else own.extras.get(optimizer)
    return [
        updates.FREE,
        *((updates.CLIPPED,) if own is None else ()),
        *((updates.EXTRAS,) if extras else ()),
    ]


def _where(row: Row) -> tuple[str, str, str]:
    """Return the name, the direction and the dtype of a row as a backend declares parts of them."""
    return row.of, row.direction if row.of in OPS else "update", operations.DTYPE


def found(
    row: Row,
    points: int | None = None,
    seed: int = 0,
    backend: str | None = None,
    pages: Sequence[str] = (),
) -> Found:
    """Compare a row at all of its points, or at the first ones; of our kernels or of a backend.

    pages are the addresses of those that this process may not know yet.
    """
    start = time.perf_counter()
    for where in pages:
        registry.bring(where)
    own = None if backend is None else load(backend)
    if own is not None:
        inside = part_of(own.capabilities(), *_where(row))
    else:
        inside = all_of(row.of, operations.DTYPE) if row.of in OPTIMIZERS else None
    count, verdict = 0, Verdict()
    try:
        judged, cases = asked(row, own, inside)
        for case in cases[:points]:
            verdict |= judged(case, seed)
            count += 1
        if inside is not None:
            inside.again()
    except Misdeclared as error:
        verdict |= Verdict(differences=(str(error),))
    part = narrowing(inside) is not None
    if part:
        said = tuple(f"declared, then refused: {text}" for text in verdict.refused)
        verdict = replace(verdict, differences=(*verdict.differences, *said), refused=())
    return Found(row, count, verdict, time.perf_counter() - start, part)


def asked(
    row: Row, backend: Backend | None = None, inside: Inside | None = None
) -> tuple[Callable[[Any, int], Verdict], Sequence[Any]]:
    """Return how a case of a row is compared, and the cases of the row, or of a part of it."""
    if row.of in OPS:
        judged = partial(operations.judged, backend=backend)
        return judged, operations.cases(row.of, row.direction, inside)
    if row.of in OPTIMIZERS:
        found = updates.cases(row.of, row.direction, inside)
        return partial(updates.judged, backend=backend), found
    return training.judged, (row.of,)


def spread_out(
    wanted: Sequence[Row],
    points: int | None,
    seed: int,
    backend: str | None,
    jobs: int,
    started: Callable[[Row], None],
) -> Iterator[tuple[Row, Found]]:
    """Yield what was found about each row, in the order in which they end.

    Unregistered says of a page that no worker process could find it.
    """
    pages = registry.addresses(row.of for row in wanted) if jobs > 0 else ()
    calls = [(row, points, seed, backend, pages) for row in wanted]
    begun = spread(found, calls, jobs, lambda number: started(wanted[number]))
    with closing(begun) as ended:
        for number, result in ended:
            row = wanted[number]
            if isinstance(result, Died):
                verdict = Verdict(unread=(f"the process {result.how} at {result.at}",))
                result = Found(row, 0, verdict, 0.0)
            yield row, result
