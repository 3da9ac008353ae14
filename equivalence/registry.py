"""The pages that the judge knows: those of the book, and those that a caller registers.

`OPS` and `OPTIMIZERS` are read like the tables of `spec`, and hold registered pages behind those of
the book. Whoever looks a page up by its name does so here.

A page is registered where a module is imported. So the module's name, with the page's, is all that
another process needs: a worker, a replay line and a recording hold ``module:name`` and import the
module again. A page that is registered elsewhere, in `__main__` or in a function that runs later,
is known to this process alone.

>>> from spec.composite import composite
>>> from spec.kinds import same_shape
>>> def rule(x):
...     return same_shape("fourth", x)
>>> square = OPS["square"]
>>> fourth = composite("fourth", rule, lambda ops, x: ops.square(ops.square(x)), (square,))
>>> with registered(fourth):
...     OPS["fourth"] is fourth, address("fourth")
(True, None)
>>> "fourth" in OPS
False
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Generic, ParamSpec, TypeVar, cast

from equivalence.blame import Refused, imported
from spec import ops as book_of_ops
from spec import optim as book_of_optimizers
from spec.op import Op
from spec.optim._optimizer import Optimizer

P = ParamSpec("P")
T = TypeVar("T")
Page = TypeVar("Page", Op, Optimizer)
V = TypeVar("V")


class Unregistered(Refused):
    """A page cannot be registered, or cannot be found again; the message says what to write."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a registered page beside its record.

    module   the module that registers it whenever it is imported; None where no module does
    family   the name of the family by which it is called; None where its type rule tells
    """

    module: str | None
    family: str | None = None


class Pages(Mapping[str, V], Generic[V]):
    """The book's table, and behind it the pages that were registered."""

    def __init__(self, what: str, book: Mapping[str, V]) -> None:
        """Say what the pages are; the book's table answers for a name that nobody has."""
        self.what, self._book = what, book
        self._own: dict[str, V] = {}

    def __getitem__(self, name: str) -> V:
        """Return a page; Unknown names the nearest."""
        return self._own[name] if name in self._own else self._book[name]

    def __contains__(self, name: object) -> bool:
        """Tell whether a page has this name."""
        return name in self._own or name in self._book

    def __iter__(self) -> Iterator[str]:
        """Go through all names, the book's first."""
        yield from self._book
        yield from self._own

    def __len__(self) -> int:
        """Count the pages."""
        return len(self._book) + len(self._own)

    def of_the_book(self) -> Mapping[str, V]:
        """Return the pages that nobody registered."""
        return self._book

    def by_owner(self) -> dict[str, list[str]]:
        """List the names by whose they are: the book's, each module's, this process's alone."""
        found: dict[str, list[str]] = {}
        for name in self:
            found.setdefault(owner(name), []).append(name)
        return found

    def enter(self, name: str, page: V) -> None:
        """Add a page behind the others."""
        self._own[name] = page

    def remove(self, name: str) -> None:
        """Take a registered page away."""
        del self._own[name]


OPS: Pages[Op] = Pages("operation", book_of_ops.OPS)
"""Every operation by its name."""

OPTIMIZERS: Pages[Optimizer] = Pages("optimizer", book_of_optimizers.OPTIMIZERS)
"""Every optimizer by its name."""

BOOK = "spec"
"""Whose the pages are that nobody registered."""

ENTRIES: dict[str, Entry] = {}
"""What is known of the registered pages, by name."""

_remembered: list[Callable[[], None]] = []


def remembering(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that remembers what it found, until a registered page is taken away.

    What follows from a page's name alone may be remembered so.
    """
    cached = functools.cache(function)
    _remembered.append(cached.cache_clear)
    return cast("Callable[P, T]", cached)


def register(record: Page, *, family: str | None = None) -> Page:
    """Let the judge know a page, and return its record.

    family names the family of calls that the page belongs to, where its type rule cannot tell.
    Unregistered refuses what is no record, a name that another record has, and an operation that
    reads integers and does not say which.
    """
    if not isinstance(record, Op | Optimizer):
        raise Unregistered(
            "register takes a record of spec, an Op or an Optimizer; "
            f"got {type(record).__name__} {record!r:.60}"
        )
    name = record.name
    known = OPS if name in OPS else OPTIMIZERS
    if name in known:
        if known[name] is record:
            return record
        raise Unregistered(
            f"register: another {known.what} is called {name!r}, "
            f"{_whose(name)}; give the record a name of its own"
        )
    if not name.isidentifier():
        raise Unregistered(f"register: a page's name is a Python identifier; got {name!r}")
    if isinstance(record, Op):
        _need_ranges(record)
    table: Pages[Any] = OPS if isinstance(record, Op) else OPTIMIZERS
    table.enter(name, record)
    ENTRIES[name] = Entry(_importing(), family)
    return record


def _need_ranges(op: Op) -> None:
    """Refuse an operation that does not say what each of its integer inputs may hold."""
    count = len(op.integer_inputs)
    if len(op.index_ranges) != count:
        read = ", ".join(op.inputs[k] for k in op.integer_inputs) or "no input"
        raise Unregistered(
            f"register: {op.name} reads integers from {read}, and its record has "
            f"{len(op.index_ranges)} index_ranges; give it {count}, each of them "
            'spec.op.IndexRange("C3", bounds), where C3 is the label of the constraint, and '
            "bounds takes the types and attributes of a call and returns the lowest and the "
            "highest integer, as in lambda *types, **attributes: (-8, 7)"
        )


def unregister(name: str) -> None:
    """Take a registered page away; Unregistered says that there is none of this name."""
    if name not in ENTRIES:
        raise Unregistered(f"unregister: {name!r} is no registered page{_registered_are()}")
    del ENTRIES[name]
    (OPS if name in OPS else OPTIMIZERS).remove(name)
    for forget in _remembered:
        forget()


@contextmanager
def registered(*records: Page, family: str | None = None) -> Iterator[None]:
    """Register pages while a block runs, and take away those that the block brought."""
    new = [record for record in records if record.name not in ENTRIES]
    try:
        for record in records:
            register(record, family=family)
        yield
    finally:
        for record in new:
            if record.name in ENTRIES:
                unregister(record.name)


def address(name: str) -> str | None:
    """Return what finds a registered page in another process: ``module:name``.

    None stands for a page of the book, which needs none, and for one that no module registers.
    """
    entry = ENTRIES.get(name)
    return None if entry is None or entry.module is None else f"{entry.module}:{name}"


def addresses(names: Iterable[str]) -> tuple[str, ...]:
    """Return the addresses of the registered pages among some names.

    Unregistered says of a page that only this process knows how another one could.
    """
    own = [name for name in dict.fromkeys(names) if name in ENTRIES]
    for name in own:
        if ENTRIES[name].module is None:
            raise Unregistered(
                f"{name!r} is registered in this process alone, and another one cannot know it. "
                "Save its record in a module, say mypages.py, which calls "
                f"equivalence.register({name}), and import that; or ask for no other process "
                "(jobs=0, no recording)"
            )
    return tuple(found for name in own if (found := address(name)) is not None)


def bring(where: str) -> None:
    """Import what registers a page, by its address or by the name of a module.

    Unregistered says that there is no such module, or that it does not register the page.
    """
    module, _, name = where.partition(":")
    if name and name in ENTRIES and ENTRIES[name].module == module:
        return
    imported(where, module, Unregistered)
    if name and name not in ENTRIES:
        raise Unregistered(
            f"{where}: importing {module} registers no page {name!r}{_registered_are()}"
        )


def where(name: str) -> dict[str, str]:
    """Return what the JSON of a case says of a page beside its name: where it is registered."""
    found = address(name)
    return {} if found is None else {"page": found}


def found(case: Mapping[str, Any]) -> None:
    """Import the page of a case, if its JSON says where that is registered."""
    if "page" in case:
        bring(str(case["page"]))


def owner(name: str) -> str:
    """Say whose a page is: the book's, a module's, or this process's alone."""
    return (ENTRIES[name].module or "this process") if name in ENTRIES else BOOK


def family_named(op: Op) -> str | None:
    """Return the family that was named for an op when it was registered."""
    entry = ENTRIES.get(op.name)
    return entry.family if entry is not None and OPS[op.name] is op else None


def _importing() -> str | None:
    """Return the module whose import is under way, None where nothing could import it again."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    name = "__main__" if frame is None else frame.f_globals.get("__name__", "__main__")
    file = getattr(sys.modules.get(name), "__file__", None)
    runs = frame is not None and frame.f_code.co_filename == file
    return name if runs and name != "__main__" else None


def _whose(name: str) -> str:
    return f"which {owner(name)} registers" if name in ENTRIES else "a page of the book"


def _registered_are() -> str:
    return f"; there are {', '.join(ENTRIES)}" if ENTRIES else "; none is registered"
