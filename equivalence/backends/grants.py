"""What a contract takes over from a library, beside the page and its generic freedom.

A stranger's contract starts at the page: `generic` has the formats of the dtype, elementary
functions as accurate as torch's, and the freedom of a program that is as stable as the page. What
else a library does (other programs, flushing, steps in storage) is granted to a stranger who names
the ops for which it is taken over, and the report says so.

>>> from equivalence.backends.libraries import granted
>>> rule = granted("torch", ops=("bce_with_logits",))
>>> rule("bce_with_logits", "fp32").granted
('torch: forms (1 - t) x - log_sigmoid(x)',)
>>> rule("softmax", "fp32").granted, rule("softmax", "fp32").name
((), 'generic softmax fp32')
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from equivalence.backends.contracts import base
from equivalence.backends.names import unknown_calls
from equivalence.backends.torch.functions import TORCH
from equivalence.worlds.contract import Contract, ContractRule

GENERIC = "generic"
"""The family of contracts that take nothing over."""


def generic(op: str, dtype: str) -> Contract:
    """Return the contract of a stranger who takes nothing over: the page, rounded once."""
    return base(GENERIC, op, dtype, TORCH, "stable")


def differences(library: str, taken: Contract, plain: Contract) -> tuple[str, ...]:
    """Say in words what a contract of a library allows beside a plain one."""
    return tuple(f"{library}: {part}" for part in _differences(taken, plain))


def _differences(taken: Contract, plain: Contract) -> Iterator[str]:
    forms = [form.name for form in taken.forms]
    if forms:
        yield f"forms {', '.join(forms)}"
    if taken.flush != plain.flush:
        yield f"subnormal numbers may be flushed ({taken.flush})"
    if taken.division != plain.division:
        yield f"divisions are {taken.division!r}"
    if taken.steps != plain.steps:
        yield f"steps pass the format of {taken.steps}"
    if taken.accumulate != plain.accumulate and taken.accumulate is not None:
        yield f"sums are taken in {taken.accumulate.short}"
    if (taken.dot_inputs, taken.dot_rounding) != (plain.dot_inputs, plain.dot_rounding):
        format = taken.compute if taken.dot_inputs is None else taken.dot_inputs
        yield f"factors of products are read in {format.short}"
    for name in ("store_rounding", "accumulate_rounding"):
        found = getattr(taken, name)
        if found != getattr(plain, name):
            yield f"{name.replace('_', ' ')} is {found}"
    coarser = [f for f in sorted(taken.functions) if taken.function(f) != plain.function(f)]
    if coarser:
        yield f"errors of {', '.join(coarser)}"
    casts = sorted(taken.casts)
    if casts:
        yield f"casts to {', '.join(casts)}"


def telling(library: str, rule: ContractRule) -> ContractRule:
    """Return a rule whose contracts say what they take over from a library."""

    def told(op: str, dtype: str) -> Contract:
        contract = rule(op, dtype)
        return replace(contract, granted=differences(library, contract, generic(op, dtype)))

    return told


def granting(
    library: str,
    rules: Mapping[str, ContractRule],
    ops: Collection[str],
    calling: Mapping[str, Collection[str]],
) -> ContractRule:
    """Return the rule that takes over, for some ops, what a library does; others are generic.

    calling names, by op, the library's functions that the op calls on its way. ValueError names
    what is unknown.
    """
    if library not in rules:
        raise ValueError(f"nothing can be granted from {library!r}; there are {', '.join(rules)}")
    for what, given in (("ops", ops), *((f"calling[{op!r}]", of) for op, of in calling.items())):
        if isinstance(given, str):
            raise ValueError(
                f"{what} is a sequence of names, got the text {given!r}; write ({given!r},)"
            )
    unknown = unknown_calls((*ops, *calling, *(name for of in calling.values() for name in of)))
    if unknown:
        raise ValueError(f"granted from {library}: {unknown}")
    names, told = frozenset(ops), telling(library, rules[library])

    def rule(op: str, dtype: str) -> Contract:
        contract = generic(op, dtype)
        if op in names:
            contract = replace(told(op, dtype), findings=(library,))
        for called in calling.get(op, ()):
            contract = calls(library, called, contract, rules[library](called, dtype))
        return contract

    return rule


FLUSHES = ("none", "outputs", "inputs_outputs")
"""What may happen to subnormal numbers, the least first."""


def calls(library: str, called: str, contract: Contract, of_called: Contract) -> Contract:
    """Let one step of an op be a function of a library: it may flush, and err, as that does.

    An intermediate result that is flushed there is a step of the op, so its budget holds the loss.
    """
    flush = max(contract.flush, of_called.flush, key=FLUSHES.index)
    coarser = {
        name: error
        for name, error in of_called.functions.items()
        if (error.relative, error.absolute)
        > (contract.function(name).relative, contract.function(name).absolute)
    }
    parts = [
        *([f"subnormal numbers may be flushed ({flush})"] if flush != contract.flush else []),
        *([f"errors of {', '.join(sorted(coarser))}"] if coarser else []),
    ]
    return replace(
        contract,
        flush=flush,
        functions={**contract.functions, **coarser},
        granted=(*contract.granted, *(f"{library}'s {called}: {part}" for part in parts)),
    )
