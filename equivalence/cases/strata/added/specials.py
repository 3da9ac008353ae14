"""Every kind of special number, at every spot of a row, in rows of every size class.

Of rows whose entries meet, each has one kind at one spot; where entries do not meet, each row has
another kind at each spot. Rows are independent, so that one case has several of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from equivalence.cases.built import axis_of_rows
from equivalence.cases.call import integers_at
from equivalence.cases.covering import Levels
from equivalence.cases.families.meeting import SEEDS
from equivalence.cases.families.signatures import Shape, Signature
from equivalence.cases.fills.turns import KINDS, TURNS
from equivalence.cases.strata.added.wishes import Wish, Wishing
from spec.op import Op, Rejected
from spec.tensor import Tensor

SHORT, BLOCK = 11, 37
LONG = {"value": 1033, "vjp": 521, "jvp": 521}
"""The lengths of rows: within a vector, beyond a block, and beyond several; derivatives cost more.
None is a multiple of a vector, and behind the last full block there is more than the last entry."""

LONGER = 1.4
"""How much longer the rows of a result may be: what is padded or joined grows."""

ROWS = 5
"""How many rows a case has."""


def specials(wishing: Wishing) -> Iterator[Wish]:
    """Wish for rows of special numbers in every real tensor."""
    for tensor in wishing.tensors:
        for length in (SHORT, BLOCK, LONG[wishing.direction]):
            found = with_rows(wishing, tensor, length)
            if found is None:
                continue
            wish, rows = found
            meet = rows > 1 and entries_meet(wishing, tensor)
            regime, turns = ("specials", TURNS) if meet else ("specials_together", len(KINDS))
            for turn in range(0, turns, rows):
                yield Wish({**wish, tensor: regime}, turn)


def with_rows(
    wishing: Wishing, tensor: str, length: int, rows: int = ROWS
) -> tuple[Mapping[str, Any], int] | None:
    """Return a wish for a call in which a tensor has rows of a length, and how many.

    Of several calls it is that with most rows; where a tensor is one row, others are few, if a call
    of few shows anything.
    """
    best: tuple[Mapping[str, Any], int] | None = None
    for wish in _shapes(wishing, length, rows):
        levels = wishing.row(wish)
        own = 0 if levels is None else _length(wishing, levels, tensor)
        if levels is None or not length <= own < LONGER * length:
            continue
        count = math.prod(wishing.shape_of(levels, tensor)) // own
        if best is None or count > best[1]:
            best = wish, count
    if best is not None and best[1] == 1 and rows > 2:
        return with_rows(wishing, tensor, length, rows=2) or best
    return best


def _shapes(wishing: Wishing, length: int, rows: int) -> Iterator[dict[str, Any]]:
    """Yield wishes for calls with one long extent, the likeliest to have rows first."""
    open_: dict[str, Any] = {}
    if "reduction" in wishing.structure:
        open_["reduction"] = "none"
    for more in (open_, {}) if open_ else ({},):
        if wishing.has_long_axis:
            yield {"rank": 2, "extent": length, "rows": rows, **more}
            yield {"rank": 2, "extent": 2, "rows": length, **more}
            yield {"rank": 1, "extent": length, **more}
            if "inputs" in wishing.structure:
                yield {"rank": 2, "extent": length, "rows": rows, "inputs": 1, **more}
            read = wishing.structure.get("length", ("",))[0]
            if isinstance(read, int):
                yield {"rank": 2, "extent": rows, "rows": rows, "length": length, **more}
            if "indices" in wishing.structure:
                yield {"rank": 2, "extent": rows, "rows": rows, "indices": (length,), **more}
        names = () if wishing.has_long_axis else wishing.extents
        for name in names:
            others = [other for other in names if other != name]
            for k in range(max(len(others), 1)):
                few = {other: rows if at == k else 2 for at, other in enumerate(others)}
                yield {name: length, **few, **more}


def _length(wishing: Wishing, levels: Levels, tensor: str) -> int:
    """Return the length of the rows of a tensor, 0 where it has none."""
    shapes, attributes = wishing.signature(levels)
    shape = wishing.shape_of(levels, tensor)
    return shape[axis_of_rows(attributes, shapes, shape)] if shape else 0


def entries_meet(wishing: Wishing, tensor: str) -> bool:
    """Say whether entries of a row of a tensor meet each other in a result.

    Those of a cotangent do where those of the input do, if it has the rows of the input.
    """
    of = wishing.tensors[0] if tensor == "seed_regime" else tensor
    if not of.startswith("regime_"):
        return False
    found = with_rows(wishing, of, SHORT)
    levels = None if found is None else wishing.row(found[0])
    if levels is None:
        return False
    signature = wishing.signature(levels)
    if tensor == "seed_regime" and wishing.direction in SEEDS:
        same_rank = len(wishing.shape_of(levels, tensor)) == len(signature[0][0])
        return same_rank and _meet(wishing.op, _frozen(signature), int(of.rpartition("_")[2]))
    return _meet(wishing.op, _frozen(signature), int(of.rpartition("_")[2]))


_Frozen = tuple[tuple[Shape, ...], tuple[tuple[str, Any], ...]]


def _frozen(signature: Signature) -> _Frozen:
    return signature[0], tuple(signature[1].items())


@cache
def _meet(op: Op, frozen: _Frozen, k: int) -> bool:
    """Say whether one NaN in an input makes several entries of a result NaN, or one of a few."""
    shapes, attributes = frozen[0], dict(frozen[1])
    inputs: list[Any] = []
    for at, shape in enumerate(shapes):
        plain: Any = 1.0
        if at in op.mask_inputs:
            plain = True
        elif at in op.index_inputs:
            plain = integers_at(op, at, shapes, attributes).lowest
        inputs.append(Tensor(shape, [plain] * math.prod(shape)))
    spoiled = list(inputs[k].data)
    spoiled[-1] = math.nan
    inputs[k] = Tensor(shapes[k], spoiled)
    try:
        made = op.value(*inputs, **attributes).data
    except (ArithmeticError, Rejected, TypeError, ValueError, AttributeError):
        return True
    nans = sum(isinstance(x, float) and math.isnan(x) for x in made)
    return nans > 1 or len(made) < len(inputs[k].data)
