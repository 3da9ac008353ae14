"""Chapter 34. Several results: an op that returns more than one tensor.

The record of an op has one result, on which every chapter and every world relies.
An op of several results has them all in it: each is flattened, and they are joined in order.
So a cotangent of it is one cotangent of each result, flattened and joined in the same order.
Only who talks to others about the results takes them apart again.

>>> from spec.op import Type
>>> from spec.ops import OPS
>>> from spec.tensor import tensor
>>> def types(x):
...     return {"squares": x, "total": Type(())}
>>> def program(ops, x):
...     return ops.square(x), ops.sum(x)
>>> op = several("squares_and_total", types, program, (OPS["square"], OPS["sum"]))
>>> op(tensor([2, 3])), unpacked(op(tensor([2, 3])), op.results(Type((2,))))
(Tensor([4, 9, 5]), {'squares': Tensor([4, 9]), 'total': Tensor(5)})
>>> op.vjp((tensor([2, 3]),), tensor([1, 1, 10]))
(Tensor([14, 16]),)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from spec.composite import composite
from spec.kinds import IndexFacts
from spec.op import AnyTensor, Misstated, Op, Type
from spec.ops import OPS
from spec.scalar import Extent
from spec.shape import size

Types = Mapping[str, Type]
"""The types of an op's results by name, in order."""


def several(
    name: str,
    types: Callable[..., Types],
    program: Callable[..., Sequence[Any]],
    uses: tuple[Op, ...],
    *,
    mask_inputs: tuple[int, ...] = (),
    **facts: Unpack[IndexFacts],
) -> Op:
    """Make a composite of several results, all real numbers of one dtype.

    types(*types, **attributes) is the type rule: it returns the types of the results by name.
    program(ops, *inputs, **attributes) is that of a composite, and returns a tuple of the results.

    A primitive has one result. One that has several is a composite of primitives, one for each
    result, which may be the page's own: they stand in `uses` like others.
    """
    steps = {op.name: op for op in (*uses, OPS["reshape"], OPS["concat"])}
    for op in uses:
        if steps[op.name] is not op:
            raise Misstated(f"{name}: a step of its own is called {op.name!r}, as a page is")

    def results(*given: Type, **attributes: Any) -> Types:
        return _checked(name, types(*given, **attributes))

    def type_rule(*given: Type, **attributes: Any) -> Type:
        return Type((sum(size(each.shape) for each in results(*given, **attributes).values()),))

    @functools.wraps(program)
    def packed(ops: Any, *inputs: Any, **attributes: Any) -> Any:
        found = program(ops, *inputs, **attributes)
        if not isinstance(found, tuple) or not found:
            rule = "the program returns a tuple of the results, in the order of their types"
            came = "an empty one" if found == () else type(found).__name__
            raise Misstated(f"{name}: {rule}; got {came}")
        return ops.concat(*(ops.reshape(x, shape=(size(x.shape),)) for x in found), axis=0)

    own = composite(
        name, type_rule, packed, tuple(steps.values()), mask_inputs=mask_inputs, **facts
    )
    return replace(own, results=results)


def _checked(name: str, found: object) -> Types:
    """Return the types of results, or say what they have to be."""
    if not isinstance(found, Mapping) or not found:
        rule = 'the type rule returns the types of the results by name, {"z": x, "mean": ...}'
        came = "an empty mapping" if found == {} else type(found).__name__
        raise Misstated(f"{name}: {rule}; got {came}")
    for result, each in found.items():
        if not isinstance(each, Type) or each.index or each.mask:
            came = str(each) if isinstance(each, Type) else type(each).__name__
            raise Misstated(
                f"{name}: every result is of real numbers; {result!r} is {came}. "
                "Write two pages: one of the numbers, and one of the positions"
            )
    return found


def unpacked(packed: AnyTensor, types: Types) -> dict[str, AnyTensor]:
    """Take the results apart, each in its own shape."""
    cut, shaped = OPS["slice"].value, OPS["reshape"].value
    found: dict[str, AnyTensor] = {}
    start: Extent = 0
    for name, each in types.items():
        length = size(each.shape)
        flat = cut(packed, axis=0, start=start, length=length)
        found[name], start = shaped(flat, shape=each.shape), start + length
    return found


def written(op: Op) -> Callable[..., tuple[Any, ...]]:
    """Return the program of an op of several results as its author wrote it."""
    found: Callable[..., tuple[Any, ...]] = _program(op).__wrapped__  # type: ignore[attr-defined]
    return found


@functools.cache
def lone(op: Op, k: int) -> Op:
    """Return the record of one result of several, which leaves the others out."""
    program = _program(op)

    def types(*given: Type, **attributes: Any) -> Type:
        assert op.results is not None, f"{op.name} has one result"
        return list(op.results(*given, **attributes).values())[k]

    @functools.wraps(program)
    def one(ops: Any, *inputs: Any, **attributes: Any) -> Any:
        return written(op)(ops, *inputs, **attributes)[k]

    return composite(
        op.name, types, one, op.uses, index_inputs=op.index_inputs, mask_inputs=op.mask_inputs
    )


def _program(op: Op) -> Callable[..., Any]:
    assert op.results is not None and op.program is not None, f"{op.name} has one result"
    return op.program
