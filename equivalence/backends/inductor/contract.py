"""What our pages promise when Inductor compiles them: the family "inductor", on a CPU.

It starts where the ATen twins start, since it is they that are compiled. Fusion only drops
roundings to storage, and takes sums in another order, which every contract allows. What is called
for a function is another matter (`functions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from equivalence.backends.contracts import base
from equivalence.backends.fast.forms import passing_storage
from equivalence.backends.inductor.functions import functions_in
from equivalence.worlds.contract import Contract, ContractRule

FLAGS_WHY = (
    "fast.compiled.inductor.OPTIONS: -ffp-contract=off, so that products and sums stay two steps; "
    "torch/_inductor/cpp_builder.py: -fno-unsafe-math-optimizations, so that subnormal numbers stay"
)


def _compiled(op: str, dtype: str) -> Contract:
    contract = passing_storage(base("inductor", op, dtype, {}), op)
    functions, sources = functions_in(contract.compute), (*contract.sources, FLAGS_WHY)
    return replace(contract, functions=functions, sources=sources)


FAMILIES: Mapping[str, ContractRule] = {"inductor": _compiled}
"""The rule of Inductor's code, by the name that `declared` knows it by."""
