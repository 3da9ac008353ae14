"""Chapter 3. Refusals: sentences that name the rule, what came, and what would be accepted.

Who misspells a name, or writes an operator that is not offered, is told what to write. Such a
refusal is also the error that Python would have raised, so that `hasattr`, and whoever catches a
TypeError, go on as ever.

>>> print(refuse("matmul C2", "the inner extents are equal", "3 and 4"))
matmul C2: the inner extents are equal; got 3 and 4
>>> print(unknown("shop", "tea", "oolnog", ["oolong", "assam"]))
shop: there is no tea 'oolnog'; the nearest are oolong
"""

# This file is longer than the guide because all kinds of refusals stand in one place.
from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NoReturn, TypeGuard, TypeVar

C = TypeVar("C", bound=type)
R = TypeVar("R")
V = TypeVar("V")


NEAR = 0.7
"""How much of two names is the same, of 1, where one may be a slip of the other."""

MANY = 20
"""How many names of a table a sentence may list; of a longer one it says what lists them."""


class Rejected(ValueError):
    """The caller broke a rule; the message names it, what came, and what would be accepted."""


def refuse(label: str, rule: str, came: object) -> Rejected:
    """Build a refusal: the label of the constraint, the rule, and what came instead."""
    return Rejected(f"{label}: {rule}; got {came}")


def need_finite(who: str, **attributes: float) -> None:
    """Refuse an attribute that is infinite or no number; who is the label of the constraint."""
    for name, given in attributes.items():
        if not abs(given) < math.inf:
            raise refuse(who, f"{name} is finite", given)


@dataclass(frozen=True)
class Miss:
    """One call that breaks exactly one constraint of a page, which everybody must refuse.

    label is the constraint's, such as "C2"; inputs are nested lists, as those of an Edge, which
    may hold the wrong kind of entries where that is what the constraint forbids.
    """

    label: str
    inputs: tuple[Any, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Unknown(Rejected, AttributeError, KeyError):
    """A name that stands for nothing here; the message has the names that are nearest to it."""

    def __str__(self) -> str:
        """Show the sentence; a KeyError alone would show it in quotes."""
        return str(self.args[0])


class Unsupported(Rejected, TypeError):
    """An operator that is not offered; the message says what to write."""


class Misfit(Rejected, TypeError):
    """A call that a method cannot take; the message says which arguments it takes."""


class OutOfRange(Rejected, IndexError):
    """A place outside of a tensor; Python's own loops end by an IndexError."""


class Unmoved(UserWarning):
    """A step has updated no parameter; the message says why."""


def outside() -> int:
    """Return the level of the caller's own line, for a warning: how far above it the book ends."""
    frame, depth = inspect.currentframe(), 0
    while frame is not None and frame.f_globals["__name__"].startswith("spec."):
        frame, depth = frame.f_back, depth + 1
    return max(depth, 1)


def unknown(who: str, what: str, name: object, known: Iterable[str], lists: str = "") -> Unknown:
    """Build the refusal of a name: the nearest that are known; if none is, what lists all, or all.

    A name that differs in its capitals only is the nearest.
    """
    names = list(known)
    near = nearest(name, names) if isinstance(name, str) else []
    every = lists or f"there are {', '.join(names) or 'none'}"
    rest = f"the nearest are {', '.join(near)}" if near else every
    return Unknown(f"{who}: there is no {what} {name!r}; {rest}")


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Return which of the names this one may be a slip of."""
    every = list(dict.fromkeys(names))
    same = [one for one in every if one.lower() == name.lower()]
    return same or get_close_matches(name.lower(), every, cutoff=NEAR)


class Table(dict[str, V]):
    """A table by name, in reading order, that answers a name it has not with the nearest."""

    def __init__(
        self, what: str, rows: Mapping[str, V], answer: Callable[..., Unknown] = unknown
    ) -> None:
        """Say what the rows are, enter them, and say how a name that is none is answered."""
        super().__init__(rows)
        self._what, self._answer = what, answer

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse a row that is asked for as an attribute, saying how it is written."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self[name]
        raise Unknown(f"{self._what}s: a row is found by its name: write [{name!r}]; got .{name}")

    def __missing__(self, name: object) -> NoReturn:
        """Refuse a name that is not in the table."""
        lists = f"list({self._what.upper()}S) has all names" if len(self) > MANY else ""
        raise self._answer(f"{self._what}s", self._what, name, self, lists)


_BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "matmul": "@",
    "pow": "**",
    "floordiv": "//",
    "mod": "%",
    "and": "&",
    "or": "|",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
}
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}

SIGNS = {
    **{f"__{r}{name}__": f"x {sign} y" for name, sign in _BINARY.items() for r in ("", "r")},
    **{f"__{name}__": f"x {sign} y" for name, sign in _COMPARISONS.items()},
    "__abs__": "abs(x)",
    "__array__": "numpy.array(x)",
    "__bool__": "the truth of x",
    "__complex__": "complex(x)",
    "__contains__": "y in x",
    "__delitem__": "del x[i]",
    "__divmod__": "divmod(x, y)",
    "__float__": "float(x)",
    "__getitem__": "x[i]",
    "__index__": "x as an index",
    "__int__": "int(x)",
    "__invert__": "~x",
    "__len__": "len(x)",
    "__neg__": "-x",
    "__rdivmod__": "divmod(x, y)",
    "__round__": "round(x)",
    "__setitem__": "x[i] = y",
}
"""Python's methods for what a reader may write, and how it is written."""


def hints(instead: Mapping[Any, str]) -> Callable[[C], C]:
    """Return a decorator: a class refuses these operators, saying what to write instead.

    Type checkers see nothing of it, and go on reporting them.
    """

    def add(owner: C) -> C:
        for method, remedy in instead.items():
            setattr(owner, method, _refusal(f"{SIGNS[method]} is not offered; {remedy}"))
        return owner

    return add


def _refusal(sentence: str) -> Callable[..., Any]:
    def refused(self: object, *others: object, **_: object) -> Any:
        # A ref answers for both operands.
        kinds = {type(other) for other in others} - {type(self)}
        if any(getattr(kind, "_answers_for_both", False) for kind in kinds):
            return NotImplemented
        raise Unsupported(f"{type(self).__name__}: {sentence}")

    return refused


def need_name(who: str, name: object) -> None:
    """Refuse what is no name; None says that there is none."""
    if name is not None and not isinstance(name, str):
        raise refuse(who, "a name is a str", repr(name))


def number_shown(x: object) -> str:
    """Show what came in the place of a number; a schedule is a function that was not called."""
    if callable(x):
        return "a function: call a schedule with the number of the step, as in lr=schedule(step)"
    return repr(x)


def need(who: str, rule: str, kind: type, came: object) -> None:
    """Refuse what is not of a kind, under the rule."""
    if not isinstance(came, kind):
        raise refuse(who, rule, repr(came))


def need_id(who: str, id: object, count: int) -> None:
    """Refuse what is no place among so many entries, counted from 0."""
    if not isinstance(id, int) or not 0 <= id < count:
        raise refuse(who, f"ids lie in [0, {count})", repr(id))


def called(who: str, rule: str, program: Callable[..., R], *arguments: Any) -> R:
    """Call a program, or refuse what is none, or takes other arguments, under the rule."""
    if not callable(program):
        raise refuse(who, rule, type(program).__name__)
    try:
        inspect.signature(program).bind(*arguments)
    except TypeError:
        several = "1 argument" if len(arguments) == 1 else f"{len(arguments)} arguments"
        takes = inspect.signature(program).parameters.values()
        names = ", ".join(str(one.replace(annotation=one.empty)) for one in takes)
        came = f"a function that takes {len(takes)}: ({names})"
        raise refuse(who, f"{rule}; here it is given {several}", came) from None
    except ValueError:
        pass  # Some of Python's own functions do not say what they take.
    return program(*arguments)


def members(x: object) -> Iterator[str]:
    """Yield the public names of an object."""
    return (name for name in dir(x) if not name.startswith("_"))


def listed(who: str, rule: str, given: object) -> list[Any]:
    """Return as a list what can be gone through, or refuse; a mapping or a text is no list."""
    if _is_row(given):
        return list(given)
    raise refuse(who, rule, type(given).__name__)


def _is_row(x: object) -> TypeGuard[Iterable[Any]]:
    return isinstance(x, Iterable) and not isinstance(x, (Mapping, str, bytes))
