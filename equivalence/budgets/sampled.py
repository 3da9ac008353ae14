"""Entries of a large result one by one: the pages of `spec` on Bounded scalars, as far as needed.

Extents are `Listed`, so that an entry costs what that entry needs; what several of them need, such
as a row's maximum and sum, is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from equivalence.budgets.arrays import Call
from equivalence.registry import OPS
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import Bounded, constant, exact, stored
from equivalence.worlds.contract import Contract, of_result
from equivalence.worlds.vectorized.extents import Listed
from spec.op import AnyTensor
from spec.tensor import tabulate


def lifted(numbers: npt.NDArray[Any], arithmetic: Arithmetic) -> AnyTensor:
    """Return a tensor that reads exact numbers, indices or truth values from an array."""
    plain = numbers.dtype.kind != "f"

    def entry(*index: Any) -> Any:
        found = numbers[index].item()
        return found if plain else exact(arithmetic, found)[0]

    return tabulate(tuple(map(Listed, numbers.shape)), entry)


def entries_at(
    call: Call, k: int, places: Sequence[tuple[int, ...]], contract: Contract
) -> list[Bounded]:
    """Say what a contract allows at some places of result k of a call."""
    back = call.cotangent is not None
    contract = of_result(contract, OPS[call.op], call.attributes, back)
    arithmetic = Arithmetic(contract)
    (*_, found) = [
        result
        for at, result in enumerate(
            call.results(Listed, lambda x: lifted(x, arithmetic), constant(arithmetic, 0))
        )
        if at == k
    ]
    assert found is not None
    entries = (found[place] for place in places)
    return [stored(x if isinstance(x, Bounded) else constant(arithmetic, x)) for x in entries]
