"""Calls that differ from a case in what a cache may forget: attributes, strides, dtypes.

The shapes of the inputs are those of the case. Each call differs in one respect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from equivalence.cases.call import TORCH, CaseSpec, attribute_pairs
from equivalence.registry import OPS
from spec.op import Op, Rejected

REDUCTIONS = ("mean", "sum", "none")


def otherwise(case: CaseSpec, dtypes: Collection[str]) -> Iterator[CaseSpec]:
    """Yield calls of the shapes of a case, as far as the page accepts them.

    dtypes are those in which the op is offered.
    """
    plain, rank = replace(case, calling="alone"), len(case.shapes[0]) if case.shapes else 0
    given = {**OPS[case.op].attributes, **case.attributes()}
    for name, value in given.items():
        for other in _others(OPS[case.op], name, value, rank):
            changed = {**case.attributes(), name: other}
            found = replace(plain, attrs=attribute_pairs(changed))
            if other != value and _accepted(found):
                yield found
    turned: dict[str, Any] = {
        name: replace(recipe, layout="transposed") for name, recipe in case.seeds()
    }
    recipes = tuple(replace(recipe, layout="transposed") for recipe in case.recipes)
    yield replace(plain, recipes=recipes, **turned)
    for dtype in TORCH:
        if dtype in dtypes and dtype != case.dtype:
            yield replace(plain, dtype=dtype)


def _accepted(case: CaseSpec) -> bool:
    """Say whether the page accepts a call."""
    try:
        case.results()
    except (Rejected, TypeError, ValueError):
        return False
    return True


def _others(op: Op, name: str, value: Any, rank: int) -> Iterator[Any]:
    """Yield other values of an attribute: those that the page tries, or those of its kind."""
    if name in op.tried:
        yield from op.tried[name]
        # The same names with other numbers, such as those of a chain's steps.
        if isinstance(value, tuple):
            yield doubled(value)
    elif name == "reduction":
        yield from REDUCTIONS
    elif name == "axis":
        yield from range(rank)
    elif name == "axes":
        yield from ((), None, *((k,) for k in range(rank)), tuple(reversed(range(rank))))
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1)
    elif isinstance(value, tuple):
        yield value[::-1]


def doubled(value: Any) -> Any:
    """Return nested tuples with other numbers, and the same words."""
    if isinstance(value, tuple):
        return tuple(map(doubled, value))
    return 2.0 * value if isinstance(value, float) else value
