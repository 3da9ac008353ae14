"""Events between two steps of an optimizer, and a check of their effects.

event           the caller's action                            the usual way in torch
set_lr          changes the learning rate of every group       a scheduler, `param_groups[g]["lr"]`
set_first_lr    changes the learning rate of group 0 alone     `param_groups[0]["lr"]`
set_hyper       changes another hyper-parameter of all groups  `param_groups[g]["weight_decay"]`
set_grad_scale  changes by what gradients are divided          `GradScaler.update`
set_max_norm    changes the bound of the gradients' norm       an argument of `clip_grad_norm_`
load            replaces the state of every parameter          `load_state_dict`
write           overwrites every second parameter              `copy_` under `no_grad`
write_state     overwrites every moment that the handle has    `copy_` on tensors of the state

A handle is a backend's optimizer with its parameters. After an event it must hold the given
numbers, and everything else must be unchanged. `Event` says which numbers each event gives.
A handle may lack a method of `OFFERS`. The events of this method are then left out of the case, and
the outcome says so. The steps are still judged, from the numbers that the handle holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equivalence.answers import in_memory, is_plain
from equivalence.cases.guard import Guarded, controlled
from equivalence.cases.updates.spec import EVENTS, Event, UpdateSpec
from equivalence.cases.updates.tensors import build_state, build_written
from equivalence.registry import OPTIMIZERS

OFFERS = {kind: kind for kind in EVENTS} | {"set_first_lr": "set_lr", "write_state": "write"}
"""The method that a handle needs for each kind of event."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of all parameters and states of an optimizer."""

    params: tuple[Tensor, ...]
    state: Mapping[str, tuple[Tensor | None, ...]]


def snapshot(handle: Any) -> Snapshot:
    """Copy all tensors of an optimizer to the host, each into memory of its own.

    Malformed names a tensor whose numbers are not those in memory.
    """
    state = {
        field: tuple(
            None if t is None else in_memory(torch.as_tensor(is_plain(f"{field} {k}", t)))
            for k, t in enumerate(row)
        )
        for field, row in handle.state().items()
    }
    params = enumerate(handle.params())
    return Snapshot(tuple(in_memory(is_plain(f"parameter {k}", t)) for k, t in params), state)


def same_bits(old: Tensor | None, new: Tensor | None) -> bool:
    """Compare two tensors of a snapshot bit by bit. A missing state equals a state of zeros.

    A NaN equals any other: the bits of its payload carry no number, and a conversion to another
    format and back changes them.
    """
    if old is None or new is None:
        present = new if old is None else old
        return present is None or not bool(torch.any(present != 0))
    if (old.shape, old.dtype) != (new.shape, new.dtype):
        return False
    one, other = (_bits(tensor) for tensor in (old, new))
    return torch.equal(one, other)


def _bits(tensor: Tensor) -> Tensor:
    """Return the bytes of a tensor's numbers, with one pattern for every NaN."""
    numbers = in_memory(tensor).reshape(-1)
    if numbers.is_floating_point():
        numbers.masked_fill_(numbers.isnan(), float("nan"))
    return numbers.view(torch.uint8)


def lacking(handle: Any, case: UpdateSpec) -> tuple[str, ...]:
    """Name the methods that a case needs and a handle does not have."""
    wanted = [OFFERS[event.kind] for event in case.events]
    if case.grad_scale != 1.0:
        wanted.append("set_grad_scale")
    return tuple(
        dict.fromkeys(name for name in wanted if not callable(getattr(handle, name, None)))
    )


def without(name: str) -> str:
    """Say that a method was not used."""
    return f"the use of {name}, since the handle has no such method"


Rows = Mapping[str, Mapping[int, Guarded]]
"""Guarded tensors, by their field and by the position of their parameter."""

Expected = dict[tuple[str, int], Tensor]
"""The new tensors that a handle must hold after an event, by field and position."""


def happen(handle: Any, case: UpdateSpec, event: Event, counts: list[int], device: str) -> str:
    """Let an event happen, and describe a tensor that the handle then holds wrongly.

    The description is empty if all tensors are right. A load changes the step counts. After an
    event the given tensors are overwritten, since they belong to the caller.
    """
    before = snapshot(handle)
    if event.kind.startswith("set_"):
        expected = _set(handle, case, event)
    elif event.kind == "load":
        expected = _load(handle, case, event, counts, device, before)
    else:
        expected = _write(handle, _to_write(case, event, before, counts, device))
    return _difference(before, snapshot(handle), expected, event.kind)


def _set(handle: Any, case: UpdateSpec, event: Event) -> Expected:
    """Change an argument of the steps. No tensor may change."""
    with controlled():
        tell(handle, case, event)
    return {}


def tell(handle: Any, case: UpdateSpec, event: Event) -> None:
    """Tell a handle the argument that an event changes, of every group that it changes."""
    if event.kind == "set_grad_scale":
        handle.set_grad_scale(event.number)
    elif event.kind == "set_max_norm":
        handle.set_max_norm(event.number)
    for group in range(len(case.groups) + 1):
        for name, number in event.changed(group).items():
            if event.kind == "set_hyper":
                handle.set_hyper(name, number, group)
            else:
                handle.set_lr(number, group)


def _load(
    handle: Any, case: UpdateSpec, event: Event, counts: list[int], device: str, before: Snapshot
) -> Expected:
    """Load a state, and return its tensors. The step counts of the state become current."""
    counts[:] = [int(event.number) + k for k in range(len(counts))]
    built = build_state(case, event, device, before.state)
    moments = {field: dict(enumerate(row)) for field, row in built.items()}
    expected = _copies(moments)
    state: dict[str, Sequence[Any]] = {
        field: [item.view for item in row.values()] for field, row in moments.items()
    }
    if OPTIMIZERS[case.optimizer].counted:
        state["step"] = list(counts)
        expected |= {("step", k): torch.tensor(count) for k, count in enumerate(counts)}
    with controlled():
        handle.load(state)
    _take_back(moments)
    return expected


def _write(handle: Any, given: Rows) -> Expected:
    """Write tensors into parameters or moments, and return copies of these tensors."""
    expected = _copies(given)
    with controlled():
        for field, row in given.items():
            for k, item in row.items():
                handle.write(k, field, item.view)
    _take_back(given)
    return expected


def _to_write(
    case: UpdateSpec, event: Event, before: Snapshot, counts: Sequence[int], device: str
) -> Rows:
    """Return the tensors of an event: for some parameters, or for the moments that there are."""
    if event.kind == "write":
        written = build_written(case, event, device)
        return {"parameter": {k: item for k, (_, item) in written.items()}}
    return {
        field: {
            k: item
            for k, item in enumerate(row)
            if counts[k] and before.state[field][k] is not None
        }
        for field, row in build_state(case, event, device, before.state).items()
        if field in before.state
    }


def _copies(rows: Rows) -> Expected:
    """Copy the numbers of guarded tensors."""
    return {
        (field, k): in_memory(item.view) for field, row in rows.items() for k, item in row.items()
    }


def _take_back(rows: Rows) -> None:
    """Check that the handle has not changed the given tensors, and overwrite them."""
    for field, row in rows.items():
        for k, item in row.items():
            item.check(f"{field} of parameter {k} as it was given")
            overwrite(item)


def overwrite(item: Guarded) -> None:
    """Overwrite a given tensor, as its owner may do after the call."""
    item.base.fill_(-77.0)


def _difference(
    before: Snapshot, after: Snapshot, expected: Mapping[tuple[str, int], Tensor], kind: str
) -> str:
    """Name a tensor that an event failed to change, or changed without permission."""
    fields: dict[str, tuple[Sequence[Tensor | None], ...]] = {
        "parameter": (before.params, after.params)
    }
    for field, row in before.state.items():
        fields[field] = (row, after.state.get(field, (None,) * len(row)))
    for field, (old, new) in fields.items():
        for k, (one, other) in enumerate(zip(old, new, strict=True)):
            wanted = expected.get((field, k), one)
            same = _equal(wanted, other) if field == "step" else same_bits(wanted, other)
            if not same:
                due = "the given numbers" if (field, k) in expected else "its numbers before"
                return f"after {kind}, {field} of parameter {k} differs from {due}"
    return ""


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    """Compare two step counts of any dtype. A missing count is 0."""
    return int(0 if one is None else one) == int(0 if other is None else other)


def around(item: Guarded, held: Tensor, label: str) -> None:
    """Raise Trespass if a handle wrote around a parameter, or into a part of it.

    A handle may update a parameter in its given memory. Then this memory holds the parameter, and
    only the memory around it must be unchanged.
    """
    place = item.placement
    core = item.base.as_strided(item.stored, place.strides, place.offset)
    before = item.before.view(item.base.dtype)
    original = before.as_strided(item.stored, place.strides, place.offset)
    if same_bits(in_memory(core), in_memory(held)):
        whole = item.base.clone()
        whole.as_strided(item.stored, place.strides, place.offset).copy_(original)
        Guarded(item.view, whole, item.before, place, item.stored).check(label)
    else:
        item.check(label)
