"""Which numbers of a call one element of its result depends on: the page is asked.

The page runs on extents whose entries are computed when they are asked for. The tensors that it is
given note which of their entries it reads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from equivalence.cases.built import Built
from equivalence.registry import OPS

if TYPE_CHECKING:
    from equivalence.budgets.arrays import Call
    from equivalence.worlds.contract import Contract

Index = tuple[int, ...]

MOST_ENTRIES = 2**12
"""Of larger calls nobody asks, as it would take seconds."""


Needed = Mapping[str, frozenset[Index]]
"""The indices that were read, by the position of their tensor in the case."""


def call_of(built: Built) -> Call:
    """Return the call of a case, as the arrays take it."""
    from equivalence.budgets.arrays import Call
    from equivalence.budgets.reading import numbers

    case = built.case
    directed = case.direction == "jvp"
    return Call(
        case.op,
        [numbers(view) for view in built.views()],
        case.attributes(),
        None if built.cotangent is None else numbers(built.cotangent),
        [None if t is None else numbers(t.view) for t in built.tangents] if directed else None,
    )


def needed(built: Built, result: int, place: Index, contract: Contract) -> Needed | None:
    """Return what an entry of a result depends on; None where that is not known.

    Numbers that are not finite are replaced for this, as only the indices count.
    """
    call = call_of(built)
    arrays = [*call.inputs, *([] if call.cotangent is None else [call.cotangent])]
    if sum(x.size for x in arrays) > MOST_ENTRIES or OPS[call.op].kind == "source":
        return None
    try:
        return _read(built, call, result, place, contract)
    except Exception:
        # A page that refuses to run so is no fault of the case, and the failure is shown without.
        return None


def _read(built: Built, call: Call, result: int, place: Index, contract: Contract) -> Needed:
    """Run the page for one entry, and note what it reads."""
    from equivalence.worlds.arithmetic import Arithmetic
    from equivalence.worlds.bounded import constant, exact
    from equivalence.worlds.vectorized.extents import Listed
    from spec.op import AnyTensor
    from spec.tensor import tabulate

    arithmetic = Arithmetic(contract)
    read: dict[int, set[Index]] = {}

    def lift(numbers: npt.NDArray[Any]) -> AnyTensor:
        seen = read.setdefault(len(read), set())
        plain = numbers.dtype.kind != "f"
        known = numbers if plain else np.nan_to_num(numbers, nan=1.0, posinf=2.0, neginf=-2.0)

        def entry(*index: Any) -> Any:
            at = tuple(int(k) for k in index)
            seen.add(at)
            found = known[at].item()
            return found if plain else exact(arithmetic, found)[0]

        return tabulate(tuple(map(Listed, numbers.shape)), entry)

    tensor = call.results(Listed, lift, constant(arithmetic, 0))[result]
    assert tensor is not None
    _ = tensor[place]
    return _by_position(built, list(read.values()))


def _by_position(built: Built, read: Sequence[set[Index]]) -> dict[str, frozenset[Index]]:
    """Name the tensors in the order in which a page is given them."""
    inputs = [f"input {k}" for k in range(len(built.inputs))]
    found = {name: frozenset(each) for name, each in zip(inputs, read, strict=False)}
    rest = list(read[len(inputs) :])
    if built.cotangents:
        found |= _apart(built, rest[0])
    tangents = [f"tangent {k}" for k, item in enumerate(built.tangents) if item is not None]
    return found | {name: frozenset(each) for name, each in zip(tangents, rest, strict=False)}


def _apart(built: Built, read: set[Index]) -> dict[str, frozenset[Index]]:
    """Return what was read of each cotangent; those of several results come flat and joined."""
    case = built.case
    if OPS[case.op].results is None:
        return {case.cotangents()[0][0]: frozenset(read)}
    found: dict[str, frozenset[Index]] = {}
    start = 0
    for position, shape in case.cotangents():
        size = math.prod(shape)
        own = [k - start for (k,) in read if start <= k < start + size]
        places = (tuple(map(int, np.unravel_index(k, shape))) if shape else () for k in own)
        found[position] = frozenset(places)
        start += size
    return found
