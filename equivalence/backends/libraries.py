"""The libraries that ship with the suite: what their contracts promise, and where they differ.

`declared(family)` returns the rule that gives the contract of an op (or optimizer) at a dtype; the
families are "torch", "aten", "inductor" and "jax" (on a CPU), "torch-device" and "aten-device" (on
a GPU), "triton-interpreted" and "triton-device"; "generic" takes nothing over from any library.
What the others allow beside it, a contract says in `granted`. `granted(library, ops=...)` takes
over, for some ops, what a library does, and is generic elsewhere.
A dtype is "fp32", "bf16", "fp16", "fp64", or "tf32" for float32 tensors on tensor cores.

Each library has a folder here: its implementation (`backend`), the rules of its families
(`contract`), the errors of its elementary functions (`functions`), its own programs (`forms`), and
its known differences (`findings.toml`).

>>> declared("aten")("softmax", "bf16").rung, declared("torch")("softmax", "bf16").rung
('f32-acc+1 store', 'bf16-intermediates')
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

from equivalence.backends.fast.contract import FAMILIES as OF_FAST
from equivalence.backends.grants import GENERIC, generic, granting, telling
from equivalence.backends.inductor.contract import FAMILIES as OF_INDUCTOR
from equivalence.backends.jax.contract import FAMILIES as OF_JAX
from equivalence.backends.torch.contract import FAMILIES as OF_TORCH
from equivalence.budgets.findings import Finding, read
from equivalence.worlds.contract import ContractRule

_LIBRARIES: Mapping[str, ContractRule] = {**OF_TORCH, **OF_JAX, **OF_FAST, **OF_INDUCTOR}

FAMILIES: Mapping[str, ContractRule] = {
    **{family: telling(family, rule) for family, rule in _LIBRARIES.items()},
    GENERIC: generic,
}
"""The rules of all libraries, by family; what is not generic says so."""

NONE: Mapping[str, Collection[str]] = {}
"""No function of a library is called on the way."""

FINDINGS = "findings.toml"
"""The file in a library's folder that holds its known differences."""


def declared(family: str) -> ContractRule:
    """Return the contract rule of a family; ValueError names those that there are."""
    if family not in FAMILIES:
        raise ValueError(f"no declared contracts for {family!r}; there are {', '.join(FAMILIES)}")
    return FAMILIES[family]


def granted(
    library: str, *, ops: Collection[str] = (), calling: Mapping[str, Collection[str]] = NONE
) -> ContractRule:
    """Return contracts that are generic, but for some ops, which take over what a library does.

    Forms, flushing, steps in storage and the errors of functions are taken over, and the findings
    of a backend of the library's name excuse the same failures. calling names, by op, functions of
    the library that the op calls on its way: their flushing and errors are taken over. The report
    says what was granted. ValueError names a library, an operation or an optimizer that is
    not known.
    """
    return granting(library, _LIBRARIES, ops, calling)


@cache
def shipped() -> tuple[Finding, ...]:
    """Return the findings that ship with the suite, library by library."""
    files = sorted(Path(__file__).parent.glob(f"*/{FINDINGS}"))
    return tuple(finding for file in files for finding in read(file))
