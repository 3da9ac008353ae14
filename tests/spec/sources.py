"""A page's independent source: what its record names elsewhere, computed on tensors of torch.

A statement is an expression of the page's own names, so that reading it takes no table. Where torch
says the same thing in other words, whatever the function, the rule stands here:

* None for axes are all of them, written out;
* a reduction along some axes is one along the single axis that they make, which torch also has
  where they are none, while an empty tuple of axes means all of them to torch;
* numbers by class are a tensor, and a format is a dtype.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from inspect import Parameter, signature
from math import prod
from operator import attrgetter
from typing import Any

import mpmath
import numpy
import torch
from torch import Tensor

from equivalence.cases.call import TORCH
from spec.op import Op

LIBRARIES = {"torch": torch, "numpy": numpy, "mpmath": mpmath}

DIGITS = 60
"""Those of mpmath's numbers: many more than a double has."""


def found(dotted: str) -> Any:
    """Return what a dotted name stands for; its modules are imported as far as they go."""
    root, *rest = dotted.split(".")
    for k in range(1, len(rest)):
        try:
            importlib.import_module(".".join((root, *rest[:k])))
        except ImportError:
            break
    return attrgetter(".".join(rest))(importlib.import_module(root))


def call_of(statement: str | None) -> ast.Call | None:
    """Return the call that a statement is; None of a name, which promises no values."""
    parsed = None if statement is None else ast.parse(statement, mode="eval").body
    return parsed if isinstance(parsed, ast.Call) else None


def name_of(statement: str) -> str:
    """Return the name of the function in a statement."""
    called = call_of(statement)
    return statement if called is None else ast.unparse(called.func)


def expression(op: Op) -> str | None:
    """Return what has the value of every call of an op; None where the record names nothing."""
    said = op.elsewhere
    if said is None:
        return None
    return said.formula or (said.torch if call_of(said.torch) else None)


def value(op: Op, inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> Tensor:
    """Compute a call by the source that the record names; tensors are of fp64, or of indices."""
    text = expression(op)
    assert text is not None, f"{op.name} names no source"
    names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    given = {n: d for n, d in op.attributes.items() if d is not Parameter.empty} | {**attributes}
    if "mpmath" in names:
        return _by_entry(text, op, inputs, given)
    if "numpy" in names:
        arrays = [x.numpy() for x in inputs]
        return torch.as_tensor(evaluated(text, named(op, arrays) | given))
    if {"axes", "keepdims"} <= set(op.attributes):
        return _along_one_axis(text, op, inputs[0], given)
    known = named(op, inputs) | told(op, given, inputs)
    if "called" in names:
        assert op.elsewhere is not None and op.elsewhere.torch is not None
        known["called"] = evaluated(op.elsewhere.torch, known)
    found: Tensor = evaluated(text, known)
    return found


def named(op: Op, inputs: Sequence[Any]) -> dict[str, Any]:
    """Return inputs by the page's names; those of a variadic op are one list."""
    return (
        {op.inputs[0]: list(inputs)} if op.variadic else dict(zip(op.inputs, inputs, strict=True))
    )


def told(op: Op, attributes: Mapping[str, Any], inputs: Sequence[Tensor]) -> dict[str, Any]:
    """Return attributes as torch wants them."""

    def one(name: str, value: Any) -> Any:
        if name == "axes" and value is None:
            return tuple(range(inputs[0].dim()))
        if name == "to" and op.converts:
            return TORCH[value]
        if "float" in annotation(op, name) and isinstance(value, tuple):
            return torch.tensor(value, dtype=torch.float64)
        return value

    return {name: one(name, value) for name, value in attributes.items()}


def annotation(op: Op, name: str) -> str:
    """Return how a page's value declares an attribute."""
    return str(signature(op.value).parameters[name].annotation)


def evaluated(text: str, names: Mapping[str, Any]) -> Any:
    """Evaluate an expression of a record."""
    return eval(text, {**LIBRARIES, **names})


def _along_one_axis(text: str, op: Op, x: Tensor, given: Mapping[str, Any]) -> Tensor:
    """Reduce along the single axis that some axes make."""
    axes = range(x.dim()) if given["axes"] is None else sorted(a % x.dim() for a in given["axes"])
    kept = [k for k in range(x.dim()) if k not in axes]
    extents = [x.shape[k] for k in kept]
    merged = x.permute((*kept, *axes)).reshape(*extents, prod(x.shape[k] for k in axes))
    known = {**given, op.inputs[0]: merged, "axes": -1, "keepdims": False}
    left: Tensor = evaluated(text, known)
    shape = [1 if k in axes else n for k, n in enumerate(x.shape)]
    return left.reshape(shape if given["keepdims"] else extents)


def _by_entry(text: str, op: Op, inputs: Sequence[Tensor], given: Mapping[str, Any]) -> Tensor:
    """Evaluate entry by entry, with many digits."""
    first = inputs[0]
    with mpmath.workdps(DIGITS):
        exact = {name: mpmath.mpf(v) if isinstance(v, float) else v for name, v in given.items()}
        rows = zip(*(x.flatten().tolist() for x in inputs), strict=True)
        entries = [
            float(evaluated(text, named(op, list(map(mpmath.mpf, row))) | exact)) for row in rows
        ]
    return torch.tensor(entries, dtype=torch.float64).reshape(first.shape)


def plain(value: Any) -> Any:
    """Return an attribute in floats, where it was drawn in fractions."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return float(value) if isinstance(value, Fraction) else value
