"""What is wrong with a contract: a field of another type than its record says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, get_args

from equivalence.worlds.contract import (
    Contract,
    Division,
    Flush,
    Form,
    Format,
    Freedom,
    FunctionError,
    Rounding,
)

Test = tuple[str, Callable[[Any], bool]]
"""What a field holds, in words, and whether a value is such."""


def _instance(kind: type, what: str) -> Test:
    return what, lambda value: isinstance(value, kind)


def _optional(test: Test) -> Test:
    return f"{test[0]} or None", lambda value: value is None or test[1](value)


def _one_of(literal: Any) -> Test:
    words = get_args(literal)
    return " or ".join(map(repr, words)), lambda value: value in words


def _each(kind: type, what: str) -> Test:
    return (
        f"a tuple of {what}",
        lambda value: isinstance(value, tuple) and all(isinstance(each, kind) for each in value),
    )


def _functions(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(error, FunctionError) for name, error in value.items()
    )


def _casts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(pair, tuple)
        and len(pair) == 2
        and pair[0] in get_args(Rounding)
        and pair[1] in get_args(Flush)
        for pair in value.values()
    )


_FORMAT = _instance(Format, "a Format, such as equivalence.FP32")
_ROUNDING = _one_of(Rounding)
_TESTS: Mapping[str, Test] = {
    "name": _instance(str, "a str"),
    "compute": _FORMAT,
    "store": _FORMAT,
    "store_rounding": _ROUNDING,
    "functions": ("a mapping of names to FunctionError, as ulps(2, source) makes one", _functions),
    "division": _one_of(Division),
    "flush": _one_of(Flush),
    "contraction": _instance(bool, "a bool"),
    "dot_inputs": _optional(_FORMAT),
    "dot_rounding": _ROUNDING,
    "steps": ("'compute' or 'storage'", lambda value: value in ("compute", "storage")),
    "accumulate": _optional(_FORMAT),
    "accumulate_rounding": _ROUNDING,
    "results": _optional(_FORMAT),
    "casts": ("a mapping of formats' names to pairs of a rounding and a flush", _casts),
    "freedom": _one_of(Freedom),
    "forms": _each(Form, "Form"),
    "sources": _each(str, "str"),
}
"""What each field may hold; one that is not named here may hold anything."""


def broken(contract: object) -> str:
    """Say what is wrong with what a contract rule returned; empty where nothing is."""
    if not isinstance(contract, Contract):
        return f"returned {type(contract).__name__}, where equivalence.Contract is wanted"
    for field in fields(contract):
        what, holds = _TESTS.get(field.name, ("", lambda value: True))
        value = getattr(contract, field.name)
        if not holds(value):
            return f"has {field.name}={value!r:.60}, where {what} is wanted"
    return ""
