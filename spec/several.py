"""Chapter 12. Several results: an op that returns more than one tensor.

The record of an op has one result, on which every chapter and every world relies.
An op of several results has them all in it: each is flattened, and they are joined in order.
So a cotangent of it is one cotangent of each result, flattened and joined in the same order.
Only who talks to others about the results takes them apart again.

>>> from spec.kinds import pointwise, same_shape
>>> from spec.tensor import tensor
>>> def square(x):
...     return x.map(lambda a: a * a)
>>> square = pointwise("square", lambda x: same_shape("square", x), square, lambda a: (2 * a,))
>>> def types(x):
...     return {"squares": x, "fourth": x}
>>> def program(ops, x):
...     return ops.square(x), ops.square(ops.square(x))
>>> op = several("even_powers", types, program, (square,))
>>> op(tensor([2, 3])), unpacked(op(tensor([2, 3])), op.results(Type((2,))))
(Tensor([4, 9, 16, 81]), {'squares': Tensor([4, 9]), 'fourth': Tensor([16, 81])})
>>> op.vjp((tensor([2, 3]),), tensor([1, 1, 10, 0]))
(Tensor([324, 6]),)
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from operator import add
from typing import Any, Unpack, cast

from spec.axes import sum_at
from spec.composite import composite
from spec.kinds import IndexFacts, jointly_linear
from spec.op import AnyTensor, Misstated, Op, Type
from spec.scalar import Extent, sum_terms
from spec.shape import Shape, offset, size, unravel
from spec.tensor import Tensor, tabulate

Types = Mapping[str, Type]
"""The types of an op's results by name, in order."""


def _join(*xs: AnyTensor) -> AnyTensor:
    """Flatten the tensors, and read each entry from the one that its position falls into."""
    lengths = [size(x.shape) for x in xs]
    *starts, total = accumulate(lengths, initial=0)

    def entry(k: Extent) -> Any:
        def read(m: int, j: Extent) -> Any:
            return xs[m][unravel(xs[m].shape, j)]

        def found(m: int) -> Any:
            position = functools.partial(add, starts[m])
            return sum_at(k, (lengths[m],), position, functools.partial(read, m))

        if all(isinstance(n, int) for n in (k, *starts)):
            m = bisect_right(starts, k) - 1
            return read(m, k - starts[m])
        # A symbol may fall into any of them, so it is a sum over all, with deltas.
        return sum_terms([found(m) for m in range(len(xs))])

    return tabulate((total,), entry)


def _cut(joined: AnyTensor, shapes: Sequence[Shape]) -> tuple[AnyTensor, ...]:
    """Take tensors of such shapes out of what they are joined in, in order."""

    def part(start: Extent, shape: Shape) -> AnyTensor:
        if all(isinstance(n, int) for n in (start, *shape, *joined.shape)):
            return Tensor(shape, joined.data[start : start + size(shape)])
        return tabulate(shape, lambda *i: joined[(start + offset(shape, i),)])

    starts = accumulate(map(size, shapes), initial=0)
    return tuple(part(start, shape) for start, shape in zip(starts, shapes, strict=False))


def _parted(cotangent: AnyTensor, *xs: AnyTensor) -> tuple[AnyTensor, ...]:
    """Take a cotangent of what is joined apart, as the tensors are."""
    return _cut(cotangent, [x.shape for x in xs])


JOIN = jointly_linear(
    "join",
    lambda *xs: Type((sum(size(x.shape) for x in xs),)),
    _join,
    _parted,
)
"""The last step of every op of several results, which only few pages are."""


def several(
    name: str,
    types: Callable[..., Types],
    program: Callable[..., Sequence[Any]],
    uses: tuple[Op, ...],
    *,
    mask_inputs: tuple[int, ...] = (),
    buffers: tuple[int, ...] = (),
    **facts: Unpack[IndexFacts],
) -> Op:
    """Make a composite of several results, all real numbers of one dtype.

    types(*types, **attributes) is the type rule: it returns the types of the results by name.
    program(ops, *inputs, **attributes) is that of a composite, and returns a tuple of the results.
    buffers are the inputs that are state of a session; what becomes of them are the last results.

    A primitive has one result. One that has several is a composite of primitives, one for each
    result, which may be the page's own: they stand in `uses` like others.
    """
    if any(op.name == JOIN.name for op in uses):
        raise Misstated(f"{name}: a step of its own is called 'join', as what joins the results is")

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
        return ops.join(*found)

    own = composite(name, type_rule, packed, (*uses, JOIN), mask_inputs=mask_inputs, **facts)
    return replace(own, results=results, buffers=buffers)


def _checked(name: str, found: object) -> Types:
    """Return the types of results, or say what they have to be."""
    came = "an empty mapping" if found == {} else type(found).__name__
    if not isinstance(found, Mapping) or not found:
        rule = 'the type rule returns the types of the results by name, {"z": x, "mean": ...}'
        raise Misstated(f"{name}: {rule}; got {came}")
    named = cast("Mapping[str, Any]", found)
    for result, each in named.items():
        if not isinstance(each, Type) or each.index or each.mask:
            came = str(each) if isinstance(each, Type) else type(each).__name__
            raise Misstated(
                f"{name}: every result is of real numbers; {result!r} is {came}. "
                "Write two pages: one of the numbers, and one of the positions"
            )
    return named


def unpacked(packed: AnyTensor, types: Types) -> dict[str, AnyTensor]:
    """Take the results apart, each in its own shape."""
    return dict(zip(types, _cut(packed, [each.shape for each in types.values()]), strict=True))


def apart(
    ops: Any,
    joined: Any,
    op: Op,
    inputs: Sequence[Any],
    attributes: Mapping[str, Any],
    count: int | None = None,
) -> tuple[Any, ...]:
    """Let an interpreter take the results of a call apart, the first so many, by ops of its own."""
    shapes = [each.shape for each in types_of(op, inputs, attributes).values()]
    starts = accumulate(map(size, shapes), initial=0)
    return tuple(
        ops.reshape(ops.slice(joined, axis=0, start=start, length=size(shape)), shape=shape)
        for start, shape in zip(starts, shapes[:count], strict=False)
    )


def types_of(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Types:
    """Return the types of the results of a call on whatever has shapes."""
    types = op.types_at(*(tuple(x.shape) for x in inputs))
    return op.types_of_results(*types, **attributes)


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
