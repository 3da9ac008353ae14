"""Chapter 4. Answers: calls in other libraries' words, and calls that do not fit.

What NumPy and PyTorch call an argument is taken where it means the same, and so are numbers of
NumPy. Any other call that a method cannot take is answered by what it takes.

>>> @answering
... class Shop:
...     def tea(self, kind, *, axes=None):
...         return kind, axes
>>> Shop().tea("assam", dim=0)
('assam', (0,))
>>> Shop().tea()
Traceback (most recent call last):
spec.refusals.Misfit: tea: kind is missing; it takes kind, and by name axes=None
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from fractions import Fraction
from functools import wraps
from numbers import Integral, Real
from types import FunctionType
from typing import Any, TypeVar, cast

from spec.refusals import Misfit

C = TypeVar("C", bound=type)

SAME = {
    "axes": ("axis",),
    "axis": ("axes",),
    "dim": ("axis", "axes"),
    "dims": ("axes",),
    "keepdim": ("keepdims",),
}
"""What NumPy and PyTorch call an argument, and what it may be called here."""


def as_python(x: Any) -> Any:
    """Return a number of NumPy as the number of Python that it is; anything else is unchanged."""
    if isinstance(x, float):
        return float(x)
    if not isinstance(x, Real) or isinstance(x, (int, Fraction)):
        return x
    if isinstance(x, Integral):
        return int(x)
    near, other = float(x), cast("Any", x)
    return near if near == x or near != near else Fraction(*other.as_integer_ratio())


INNER = ("apply",)
"""Methods that others call for every op: those answer already, and this would cost each op."""


def answering(owner: C) -> C:
    """Let the public methods of a class take NumPy's and PyTorch's names for their arguments.

    A number of NumPy is taken as the number of Python that it is. What else does not fit their
    signatures is a Misfit, which is also a TypeError. That holds for the methods that it inherits,
    too, where they are written.
    """
    for kind in owner.__mro__:
        for name, method in list(vars(kind).items()):
            if isinstance(method, FunctionType) and name[0] != "_" and name not in INNER:
                setattr(kind, name, _answered(method))
    return owner


def _answered(method: Any) -> Any:
    if getattr(method, "answers", False):
        return method

    @wraps(method)
    def call(self: Any, *inputs: Any, **given: Any) -> Any:
        inputs = tuple(map(as_python, inputs))
        given = {name: _plain(value) for name, value in given.items()}
        try:
            return method(self, *inputs, **given)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # The method took the call, and something in it failed.
        return method(self, *inputs, **_renamed(method, inputs, given))

    call.answers = True  # type: ignore[attr-defined]
    return call


def _plain(value: Any) -> Any:
    """Return what holds numbers of NumPy, alone or in a row, with Python's in their places."""
    if type(value) in (tuple, list):
        return type(value)(map(as_python, value))
    return as_python(value)


def _renamed(method: Any, inputs: tuple[Any, ...], given: dict[str, Any]) -> dict[str, Any]:
    """Call arguments as the method does, or refuse a call that it cannot take even so."""
    takes = list(inspect.signature(method).parameters.values())[1:]
    names = [parameter.name for parameter in takes]
    found: dict[str, Any] = {}
    for name, value in given.items():
        own = next((other for other in SAME.get(name, ()) if other in names), name)
        if own in given and own != name:
            raise Misfit(f"{method.__name__}: {name} is what is called {own} here; got both")
        found[own] = (value,) if own == "axes" and isinstance(value, Integral) else value
    wrong = _misfit(takes, len(inputs), found)
    if wrong:
        raise Misfit(f"{method.__name__}: {wrong}; {_takes(takes)}")
    return found


_BESIDE = ("indices", "mask")
"""Inputs that may stand before an op's first ref: they are integers or truth values."""


def call_of(ops: type, name: str) -> str | None:
    """Return how an op is called of a ref x, with all that it needs; None of what takes no ref."""
    method = getattr(ops, name, None)
    if not isinstance(method, FunctionType) or name in INNER:
        return None
    takes = list(inspect.signature(method).parameters.values())[1:]
    needed = [one for one in takes if one.default is one.empty]
    several = any(one.kind is one.VAR_POSITIONAL for one in takes)
    placed = [one.name for one in needed if one.kind is one.POSITIONAL_OR_KEYWORD]
    placed = ["x", "y"] if several else placed
    refs = [k for k, one in enumerate(placed) if one not in _BESIDE]
    if not refs:
        return None
    if "x" not in placed:
        placed[refs[0]] = "x"
    named = [f"{one.name}={one.name}" for one in needed if one.kind is one.KEYWORD_ONLY]
    return f"ops.{name}({', '.join([*placed, *named])})"


def _misfit(takes: list[inspect.Parameter], count: int, given: Mapping[str, Any]) -> str:
    """Say what of a call does not fit, or nothing."""
    placed = [one for one in takes if one.kind is one.POSITIONAL_OR_KEYWORD]
    named = [one for one in takes if one.kind is one.KEYWORD_ONLY]
    several = any(one.kind is one.VAR_POSITIONAL for one in takes)
    strange = [name for name in given if name not in {one.name for one in (*placed, *named)}]
    if strange:
        return f"there is no argument {strange[0]!r}"
    if count > len(placed) and not several:
        return f"{count} arguments without a name are too many"
    twice = [one.name for one in placed[:count] if one.name in given]
    if twice:
        return f"{twice[0]} came twice, with and without its name"
    lacking = (one for one in (*placed[count:], *named) if one.default is one.empty)
    missing = [one.name for one in lacking if one.name not in given]
    return f"{missing[0]} is missing" if missing else ""


def _takes(takes: list[inspect.Parameter]) -> str:
    """Say which arguments a method takes, and what they are if they are left out."""
    shown = {
        one: one.name if one.default is one.empty else f"{one.name}={one.default!r}"
        for one in takes
    }
    by_name = [text for one, text in shown.items() if one.kind is one.KEYWORD_ONLY]
    others = [text for one, text in shown.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    several = [f"any number of {one.name}" for one in takes if one.kind is one.VAR_POSITIONAL]
    own = ", ".join(several or others or ["no argument"])
    return f"it takes {own}{', and by name ' if by_name else ''}{', '.join(by_name)}"
