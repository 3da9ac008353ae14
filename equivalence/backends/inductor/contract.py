"""What our pages promise when Inductor compiles them: the family "inductor", on a CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from equivalence.backends.contracts import base
from equivalence.backends.torch.functions import TORCH
from equivalence.worlds.contract import Contract, ContractRule


def _compiled(op: str, dtype: str) -> Contract:
    return base("inductor", op, dtype, TORCH)


FAMILIES: Mapping[str, ContractRule] = {"inductor": _compiled}
"""The rule of Inductor's code, by the name that `declared` knows it by."""
