"""What our pages promise when Inductor compiles them: the family "inductor", on a CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from equivalence.backends.contracts import FORMATS, base
from equivalence.backends.inductor.functions import functions_in
from equivalence.worlds.contract import Contract, ContractRule


def _compiled(op: str, dtype: str) -> Contract:
    compute, _ = FORMATS[dtype]
    return replace(base("inductor", op, dtype, functions_in(compute)), contraction=False)


FAMILIES: Mapping[str, ContractRule] = {"inductor": _compiled}
"""The rule of Inductor's code, by the name that `declared` knows it by."""
