"""Declarations as a backend writes them, read and checked before anything runs."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

from equivalence.cases.call import DIRECTIONS
from equivalence.cases.declared.calls import OPTIONS, attributes_of, tupled
from equivalence.cases.declared.part import ORDERS, Part, Predicate
from equivalence.cases.guard import LAYOUTS
from equivalence.registry import OPS

Declaration: TypeAlias = Part | Mapping[str, Any] | Predicate
"""What a backend writes of an op: a `Part`, a dictionary of its fields, or a predicate."""

KEYS = tuple(each.name for each in fields(Part))
"""The keys of a dictionary."""


class WrongDeclaration(ValueError):
    """A declaration names what does not exist; the message says what may be written."""


def read_declaration(name: str, written: object) -> Part | Predicate:
    """Return the declaration of an op or an optimizer; WrongDeclaration says what is wrong."""
    if isinstance(written, Mapping):
        _among(f"takes of {name}", "key", written, KEYS)
        written = Part(**written)
    if isinstance(written, Part):
        return _checked(name, written)
    if callable(written):
        return written
    raise WrongDeclaration(
        f"takes of {name} is a Part, a dictionary with keys of {', '.join(KEYS)}, or a predicate "
        f"on the types of a call; got {type(written).__name__}"
    )


def _checked(name: str, part: Part) -> Part:
    """Return a part whose collections are tuples."""
    where, optimizer = f"takes of {name}", name not in OPS
    given = part.attributes
    if not isinstance(given, Mapping):
        raise _form(where, "attributes", "a mapping of names to values", given)
    _among(where, "hyper-parameter" if optimizer else "attribute", given, attributes_of(name))
    attributes = {n: _values(f"{where}: attributes", n, values) for n, values in given.items()}
    for attribute, values in attributes.items():
        _tried(where, name, attribute, values)
    _own(where, part, optimizer)
    return Part(
        attributes,
        _integers(where, "ranks", part.ranks),
        _axes(where, part.axes),
        _names(where, "layouts", part.layouts, LAYOUTS),
        _orders(where, part.orders),
        _truth(where, part.empty),
        _names(where, "directions", part.directions, DIRECTIONS),
        _names(where, "options", part.options, OPTIONS),
    )


def _own(where: str, part: Part, optimizer: bool) -> None:
    """Refuse a field that says nothing of what the declaration is about."""
    name = where.rpartition(" ")[2]
    if not optimizer and part.options is not None:
        raise WrongDeclaration(f"{where}: options are those of an optimizer, and {name} is none")
    if optimizer and (part.directions is not None or part.axes is not None):
        raise WrongDeclaration(f"{where}: {name} is an optimizer, of which no direction or axis is")
    if part.axes is not None and not {"axis", "axes"} & {*attributes_of(name)}:
        raise WrongDeclaration(
            f"{where}: axes narrows the attribute axis or axes, of which {name} has none; "
            f"it has {', '.join(attributes_of(name)) or 'no attributes'}"
        )


def _tried(where: str, name: str, attribute: str, values: Sequence[Any]) -> None:
    """Refuse a word that the page never takes; of numbers it may take others than are tried."""
    among = OPS[name].tried.get(attribute, ()) if name in OPS else ()
    if among and all(isinstance(value, str) for value in among):
        _among(where, f"value of {attribute}", values, among)


def _among(where: str, what: str, names: Collection[Any], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, cutoff=0.5)
            rest = f"nearest: {', '.join(near)}" if near else f"there are {', '.join(known)}"
            raise WrongDeclaration(f"{where}: unknown {what} {name!r} ({rest})")


def _form(where: str, what: str, wanted: str, given: object) -> WrongDeclaration:
    return WrongDeclaration(f"{where}: {what} is {wanted}; got {given!r}")


def _values(where: str, what: str, given: object) -> tuple[Any, ...]:
    """Return a collection as a tuple; a text is one value, and no collection of its letters."""
    if isinstance(given, str) or not isinstance(given, Collection):
        raise _form(where, what, f"a collection, such as ({given!r},)", given)
    return tuple(tupled(value) for value in given)


def _integers(where: str, what: str, given: object) -> tuple[int, ...] | None:
    if given is None:
        return None
    found = _values(where, what, given)
    if not all(isinstance(n, int) and not isinstance(n, bool) for n in found):
        raise _form(where, what, "a collection of integers", given)
    return found


def _axes(where: str, given: object) -> tuple[int | tuple[int, ...], ...] | None:
    """Return single axes, and tuples of several axes or of none."""
    if given is None:
        return None
    found = _values(where, "axes", given)
    for axes in found:
        alone = axes if isinstance(axes, tuple) else (axes,)
        if not all(isinstance(n, int) and not isinstance(n, bool) for n in alone):
            raise _form(where, "axes", "a collection of integers, or of tuples of them", given)
    return found


def _names(where: str, what: str, given: object, known: Sequence[str]) -> tuple[str, ...] | None:
    if given is None:
        return None
    found = _values(where, what, given)
    _among(where, what.removesuffix("s"), found, known)
    return found


def _orders(where: str, given: object) -> tuple[str | tuple[int, ...], ...] | None:
    if given is None:
        return None
    found = _values(where, "orders", given)
    _among(where, "order", list(_words(found)), tuple(ORDERS))
    for order in found:
        if not isinstance(order, str) and sorted(order) != list(range(len(order))):
            raise _form(where, "an order", "a name or the axes 0, 1, ... in some order", order)
    return found


def _words(orders: Sequence[Any]) -> Iterator[Any]:
    """Yield what should be the name of an order: all but tuples of axes."""
    return (order for order in orders if not isinstance(order, tuple))


def _truth(where: str, given: object) -> bool:
    if not isinstance(given, bool):
        raise _form(where, "empty", "True or False", given)
    return given
