"""Einstein's sums: products of any number of tensors, with named axes; the twin of spec.einsum.

Every axis has a label. A label that the result lacks is summed over, and a label that several
operands have is one axis of all of them. Operands are multiplied from left to right, as products of
matrices or of batches of them.

E1  the equation has letters, commas, spaces, one "->", and at most one "..." in each term.
E2  there are as many terms as operands, and each has a label for every axis of its operand.
E3  an axis of the result is an axis of some operand, and stands there once.
E4  axes of one label have one extent.
E5  operands have one dtype.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fast.errors import Rejected

Shape = tuple[int, ...]

Labels = tuple[str, ...]

DOTS = "..."


def refuse(label: str, rule: str, came: object) -> Rejected:
    """Build a refusal: the label of the constraint, the rule, and what came instead."""
    return Rejected(f"{label}: {rule}; got {came}")


def terms(equation: Any, shapes: Sequence[Shape]) -> tuple[list[Labels], Labels]:
    """Return the labels of each operand's axes and of the result's, or refuse by E1, E2 or E3.

    The axes under "..." are labelled from the last one on, so that those of several operands meet.
    """
    if type(equation) is not str or equation.count("->") != 1:
        rule = 'an equation names the axes of operands and of the result, such as "ij,jk->ik"'
        raise refuse("einsum E1", rule, repr(equation))
    left, right = equation.replace(" ", "").split("->")
    given = left.split(",")
    if len(given) != len(shapes):
        rule = "there is a term for each operand"
        raise refuse("einsum E2", rule, f"{len(given)} terms and {len(shapes)} operands")
    found = [_labels(term, len(shape)) for term, shape in zip(given, shapes, strict=True)]
    known = [label for own in found for label in own]
    # A list, here and below: torch.compile follows no generator into max or prod.
    under = max([0, *(int(label[1:]) for label in known if label[0] == ".")])
    letters = right.replace(DOTS, "")
    result = _labels(right, len(letters) + (under if right != letters else 0))
    for label in result:
        if label not in known or result.count(label) > 1:
            rule = "an axis of the result is one of an operand, and stands there once"
            raise refuse("einsum E3", rule, f"{_word(label)} in {equation!r}")
    return found, result


def _labels(term: str, rank: int) -> Labels:
    """Return the label of each axis of a term."""
    front, dots, behind = term.partition(DOTS)
    letters = front + behind
    if not all(letter.isascii() and letter.isalpha() for letter in letters):
        rule = 'a term has letters, and "..." once at most'
        raise refuse("einsum E1", rule, repr(term))
    under = rank - len(letters)
    if under < 0 or (under and not dots):
        rule = "a term has a label for each axis of its operand"
        raise refuse("einsum E2", rule, f"{term!r} for {rank} axes")
    return (*front, *(f".{k}" for k in range(under, 0, -1)), *behind)


def _word(label: str) -> str:
    return repr(label if label[0] != "." else DOTS)


def contracted(equation: str, operands: Sequence[Any]) -> Any:
    """Run an equation on refs of a session; Rejected says which constraint is broken."""
    if not operands:
        raise refuse("einsum E2", "there is an operand at least", "none")
    shapes = [tuple(x.shape) for x in operands]
    named, result = terms(equation, shapes)
    _extents(named, shapes)
    if len({x.dtype for x in operands}) > 1:
        came = " and ".join(str(x.dtype) for x in operands)
        raise refuse("einsum E5", "operands have one dtype", came)
    parts = [_distinct(x, own) for x, own in zip(operands, named, strict=True)]
    x, own = parts[0]
    for k, (y, others) in enumerate(parts[1:], 1):
        later = {*result, *(label for _, more in parts[k + 1 :] for label in more)}
        x, own = _summed(x, own, {*others, *later})
        y, others = _summed(y, others, {*own, *later})
        x, own = _product(x, own, y, others, later)
    x, own = _summed(x, own, {*result})
    return _ordered(x, own, result)


def _extents(named: Sequence[Labels], shapes: Sequence[Shape]) -> None:
    """Refuse axes of one label that differ (E4)."""
    known: dict[str, int] = {}
    for own, shape in zip(named, shapes, strict=True):
        for label, extent in zip(own, shape, strict=True):
            if known.setdefault(label, extent) != extent:
                came = f"{_word(label)} of {known[label]} and of {extent}"
                raise refuse("einsum E4", "axes of one label have one extent", came)


def _distinct(x: Any, own: Labels) -> tuple[Any, Labels]:
    """Take the diagonal of axes that have the same label, until no two have."""
    for label in dict.fromkeys(own):
        while own.count(label) > 1:
            one = own.index(label)
            other = own.index(label, one + 1)
            rest = [k for k in range(len(own)) if k not in (one, other)]
            n, kept = x.shape[one], tuple(x.shape[k] for k in rest)
            ops = x.session
            x = ops.permute(x, axes=(one, other, *rest))
            x = ops.reshape(x, shape=(n * n, *kept))
            x = ops.take(x, [k * (n + 1) for k in range(n)], axis=0)
            own = (label, *(own[k] for k in rest))
    return x, own


def _summed(x: Any, own: Labels, kept: set[str]) -> tuple[Any, Labels]:
    """Sum over the axes that nobody needs."""
    gone = tuple(k for k, label in enumerate(own) if label not in kept)
    if not gone:
        return x, own
    return x.session.sum(x, axes=gone), tuple(label for label in own if label in kept)


def _product(x: Any, own: Labels, y: Any, others: Labels, later: set[str]) -> tuple[Any, Labels]:
    """Multiply two operands: places of a batch, rows, columns, and the axes summed over."""
    both = [label for label in own if label in others]
    lead = tuple(label for label in both if label in later)
    inner = tuple(label for label in both if label not in later)
    rows = tuple(label for label in own if label not in both)
    columns = tuple(label for label in others if label not in both)
    extents = {**dict(zip(own, x.shape, strict=True)), **dict(zip(others, y.shape, strict=True))}

    def size(labels: Labels) -> int:
        return math.prod([extents[label] for label in labels])

    x, y = _ordered(x, own, (*lead, *rows, *inner)), _ordered(y, others, (*lead, *inner, *columns))
    if not (inner or rows or columns):
        return x.session.mul(x, y), lead
    batch = (size(lead),) if lead else ()
    x = _laid(x, (*batch, size(rows), size(inner)))
    y = _laid(y, (*batch, size(inner), size(columns)))
    z = x.session.bmm(x, y) if lead else x.session.matmul(x, y)
    found = (*lead, *rows, *columns)
    return _laid(z, tuple(extents[label] for label in found)), found


def _ordered(x: Any, own: Labels, wanted: Labels) -> Any:
    """Bring axes into an order."""
    axes = tuple(own.index(label) for label in wanted)
    return x if own == wanted else x.session.permute(x, axes=axes)


def _laid(x: Any, shape: Shape) -> Any:
    """Lay a ref out in a shape, where it has another."""
    return x if x.shape == shape else x.session.reshape(x, shape=shape)
