"""Data between processes: what a worker sends is JSON, and the receiver says what it may be.

A worker runs code of a stranger. To unpickle what it sends would let that code run in the caller.
So a worker sends plain data, and the receiver builds from it a value of the form that it expects:
the return type of the task, or the type of a question's answer. Whatever does not fit is refused.

>>> made(tuple[int, ...], plain((1, 2)))
(1, 2)
>>> made(int, plain("1"))
Traceback (most recent call last):
equivalence.workers.data.NotOfForm: expected int, got '1'
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import cache
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

Plain: TypeAlias = Any
"""None, a truth value, a number, a string, or lists and dictionaries (by strings) of such."""


class NotOfForm(ValueError):
    """Data is not of the form that the receiver expects, or a value has no form as data."""


def plain(value: object) -> Plain:
    """Return a value as plain data; NotOfForm says what has no form as data."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Fraction):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        own = [field.name for field in fields(value) if field.init]
        return {name: plain(getattr(value, name)) for name in own}
    if isinstance(value, Mapping):
        return {_key(key): plain(held) for key, held in value.items()}
    if isinstance(value, Set):
        return [plain(held) for held in sorted(value)]
    if isinstance(value, list | tuple):
        return [plain(held) for held in value]
    raise NotOfForm(f"a value of type {type(value).__name__} is not sent between processes")


def _key(key: object) -> str:
    """Return the key of a dictionary, which is a string."""
    if isinstance(key, str):
        return key
    raise NotOfForm(f"a dictionary is sent by its strings, and has a key {key!r}")


def made(form: Any, data: Plain) -> Any:
    """Return the value of a form that data stands for; NotOfForm says what does not fit."""
    if form in (Any, object):
        return data
    origin, of = get_origin(form), get_args(form)
    if origin in (Union, UnionType):
        return _one_of(of, data)
    if origin is Literal:
        return data if data in of else _refuse(form, data)
    if is_dataclass(form):
        return _record(form, data)
    if origin in _BUILT:
        return _BUILT[origin](form, of, data)
    if form is Fraction:
        return Fraction(_single(str, data))
    return _single(form, data)


def _single(form: Any, data: Plain) -> Any:
    """Return a number, a string, a truth value or None, which must be of one type."""
    if form is None or form is NoneType:
        return data if data is None else _refuse(form, data)
    if form is float and type(data) is int:
        return float(data)
    return data if type(data) is form else _refuse(form, data)


def _one_of(forms: Sequence[Any], data: Plain) -> Any:
    """Return the value by the first form that fits."""
    for form in forms:
        try:
            return made(form, data)
        except NotOfForm:
            continue
    return _refuse(" | ".join(map(_name, forms)), data)


def _record(form: Any, data: Plain) -> Any:
    """Return a dataclass, each of whose fields must be there and of its type."""
    hints = _hints(form)
    if not isinstance(data, dict) or data.keys() != hints.keys():
        return _refuse(form, data)
    return form(**{name: made(hint, data[name]) for name, hint in hints.items()})


@cache
def _hints(form: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields."""
    hints = get_type_hints(form)
    return {field.name: hints[field.name] for field in fields(form) if field.init}


def _listed(form: Any, of: Sequence[Any], data: Plain) -> Any:
    """Return a list, or a set, of values of one form."""
    if not isinstance(data, list):
        return _refuse(form, data)
    found = [made(of[0], held) for held in data]
    return frozenset(found) if get_origin(form) is frozenset else found


def _tuple(form: Any, of: Sequence[Any], data: Plain) -> Any:
    """Return a tuple of values of one form, or of one form each."""
    if not isinstance(data, list):
        return _refuse(form, data)
    forms = [of[0]] * len(data) if of[-1:] == (...,) else [*of]
    if len(forms) != len(data):
        return _refuse(form, data)
    return tuple(made(own, held) for own, held in zip(forms, data, strict=True))


def _mapping(form: Any, of: Sequence[Any], data: Plain) -> Any:
    """Return a dictionary of values of one form, by strings."""
    if not isinstance(data, dict):
        return _refuse(form, data)
    return {name: made(of[1], held) for name, held in data.items()}


_BUILT: Mapping[Any, Callable[[Any, Sequence[Any], Plain], Any]] = {
    **dict.fromkeys((list, Sequence, frozenset), _listed),
    tuple: _tuple,
    **dict.fromkeys((dict, Mapping), _mapping),
}


def _refuse(form: Any, data: Plain) -> Any:
    said = repr(data)
    raise NotOfForm(f"expected {_name(form)}, got {said if len(said) < 80 else said[:77] + '...'}")


def _name(form: Any) -> str:
    return form if isinstance(form, str) else getattr(form, "__name__", str(form))


def returned(function: Callable[..., Any]) -> Any:
    """Return the type that a task says that it returns; NotOfForm where it says none."""
    said = getattr(function, "__annotations__", {}).get("return")
    if said is None:
        raise NotOfForm(f"{function!r} does not say what it returns, so no worker can send it")
    # Only this annotation is looked up: those of the arguments may be known to type checkers alone.
    only = SimpleNamespace(__annotations__={"return": said})
    return get_type_hints(only, globalns=getattr(function, "__globals__", {}))["return"]


def written(value: object) -> bytes:
    """Return a value as bytes without a line break."""
    return json.dumps(plain(value)).encode()


def read(data: bytes) -> Plain:
    """Return plain data; NotOfForm says that bytes are none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NotOfForm(f"expected JSON, got {data[:60]!r}") from error
