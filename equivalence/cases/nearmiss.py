"""Near-misses: calls that break exactly one constraint of a page, which the page refuses.

They stand on the page, as REFUSED.  Where none of them passes an end of the range of an index
input, a call that does is made of what the page says of the range.  The reference refuses with the
constraint's label; our own backends must name the same label; any other backend may say what it
likes, or accept the call, unless it says that it checks constraints.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from equivalence.cases.call import TORCH, Shape, dtype_at, handed, integers_at
from equivalence.cases.guard import LAYOUTS, Guarded, Trespass, controlled, guard
from equivalence.registry import OPS, remembering
from spec.op import Integers, Op, Rejected
from spec.refusals import Miss
from spec.tensor import Nested, tensor

if TYPE_CHECKING:
    from equivalence.cases.families.signatures import Signature

ENDS = ("lowest", "highest")
"""The ends of a range."""

WORDS = range(-(2**63), 2**63)
"""The integers that a tensor can hold."""


@remembering
def misses(name: str) -> tuple[Miss, ...]:
    """Return the near-misses of a page, and those past an end of a range that it leaves out."""
    op = OPS[name]
    return (*op.refused, *(miss for k in op.integer_inputs for miss in _past_the_ends(op, k)))


def _past_the_ends(op: Op, k: int) -> Iterator[Miss]:
    """Yield calls in which an integer of input k passes an end that no miss of the page passes.

    Families, which draw, are asked only where an end is left: a replay comes without Hypothesis.
    """
    label = op.index_ranges[op.integer_inputs.index(k)].label
    known = [_nested_call(op, miss) for miss in op.refused if miss.label == label]
    passed = {end for call, data in known for end in _ends(integers_at(op, k, *call), data[k])}
    if len(passed) == len(ENDS):
        return
    from equivalence.cases.families.table import family_of

    calls = [call for call in family_of(op).singles(op) if _has_integers(op, call)]
    if not calls:
        return
    shapes, attributes = smallest = min(calls, key=lambda call: sum(map(math.prod, call[0])))
    allowed = integers_at(op, k, *smallest)
    for number in (allowed.lowest - 1, allowed.highest + 1):
        if number in WORDS and _ends(allowed, [number]) - passed:
            inputs = [_plain(op, at, shape, smallest) for at, shape in enumerate(shapes)]
            inputs[k].view(-1)[0] = number
            yield Miss(label, tuple(x.tolist() for x in inputs), attributes)


def _nested_call(op: Op, miss: Miss) -> tuple[Signature, list[Any]]:
    """Return the shapes and attributes of a near-miss, and the entries of each input."""
    inputs = [tensor(nested) for nested in miss.inputs]
    return (tuple(x.shape for x in inputs), dict(miss.attributes)), [x.data for x in inputs]


def _ends(allowed: Integers, data: Sequence[int]) -> set[str]:
    """Say past which ends of a range some integers lie."""
    out = [number for number in data if number not in allowed]
    return {ENDS[number > allowed.highest] for number in out}


def _has_integers(op: Op, call: Signature) -> bool:
    """Say whether the page accepts a call, whose inputs all have entries that they may hold."""
    ranges = (integers_at(op, k, *call) for k in op.integer_inputs)
    from equivalence.cases.families.signatures import results

    accepted = results(op, call) is not None and all(map(math.prod, call[0]))
    return accepted and all(allowed.lowest <= allowed.highest for allowed in ranges)


def _plain(op: Op, k: int, shape: Shape, call: Signature) -> torch.Tensor:
    """Return an input of a call: ones, or truths, or the lowest integers."""
    if k in op.integer_inputs:
        return torch.full(shape, integers_at(op, k, *call).lowest)
    return torch.full(shape, True if k in op.mask_inputs else 1.0)


def describe(op: str, miss: Miss) -> str:
    """Return the call in one line."""
    inputs = ", ".join(map(str, miss.inputs))
    attrs = "".join(f", {name}={value!r}" for name, value in miss.attributes.items())
    return f"{op}({inputs}{attrs}) breaking {miss.label}"


def words_of_reference(op: str, miss: Miss) -> str:
    """Return the words by which the reference refuses a call; empty where it accepts it."""
    try:
        OPS[op].check(*map(tensor, miss.inputs), **miss.attributes)
    except Rejected as refusal:
        return str(refusal)
    return ""


def refused_by_reference(op: str, miss: Miss) -> str | None:
    """Return what is wrong with the reference's refusal, or None where it names the label."""
    said = words_of_reference(op, miss)
    if not said:
        return f"the reference accepts {describe(op, miss)}"
    return _mislabelled(op, miss, Rejected(said))


def passes_a_range(op: str, miss: Miss) -> bool:
    """Say whether an integer of a call lies outside the range that the page names."""
    return miss.label in {stated.label for stated in OPS[op].index_ranges}


REFUSED, ACCEPTED, MISLABELLED, WROTE = "refused", "accepted", "mislabelled", "wrote"
"""What a backend does with a call that it must refuse."""


def reaction(
    op: str, miss: Miss, backend: Any, dtype: str, labelled: bool, device: str = "cpu"
) -> tuple[str, str]:
    """Make a call that breaks a constraint; return what the backend does, and what is wrong.

    The inputs lie in guard arenas, of which nothing may change, whether the backend refuses or not.
    """
    inputs = [_placed(op, k, nested, dtype, device) for k, nested in enumerate(miss.inputs)]
    found = ACCEPTED, f"{backend.name} accepts {describe(op, miss)}"
    try:
        with controlled():
            backend.value(op, [item.view for item in inputs], handed(op, miss.attributes, dtype))
    except Exception as refusal:
        wrong = _mislabelled(op, miss, refusal) if labelled else None
        found = (REFUSED, "") if wrong is None else (MISLABELLED, wrong)
    try:
        for k, item in enumerate(inputs):
            item.check(f"input {k}")
    except Trespass as trespass:
        return WROTE, f"{describe(op, miss)}: {trespass}"
    return found


def shapes_of(miss: Miss) -> list[Shape]:
    """Return the shapes of the inputs of a call."""
    return [tuple(tensor(nested).shape) for nested in miss.inputs]


def _placed(op: str, k: int, nested: Nested, dtype: str, device: str) -> Guarded:
    """Put an input in the row's dtype; what stands for indices keeps what its entries are."""
    read: torch.Tensor = torch.tensor(nested)
    if k not in OPS[op].index_inputs:
        read = read.to(TORCH[dtype])
    elif not read.numel():
        read = read.to(dtype_at(op, k, dtype))
    return guard(read.reshape(-1), tuple(read.shape), read.dtype, LAYOUTS[0], device)


def _mislabelled(op: str, miss: Miss, refusal: Exception) -> str | None:
    """Compare a refusal's words with the label of the constraint that was broken."""
    if str(refusal).startswith(f"{op} {miss.label}:"):
        return None
    return f"{describe(op, miss)} was refused as {type(refusal).__name__}: {refusal}"
