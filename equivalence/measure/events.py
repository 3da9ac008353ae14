"""What happens to an optimizer from outside between two steps, and that it happened.

What a handle does not offer is left out of the case, which says so: the steps are judged all the
same, from what the handle holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equivalence.cases.guard import Guarded, controlled
from equivalence.cases.updates.spec import Event, UpdateSpec
from equivalence.cases.updates.tensors import build_state, build_written
from equivalence.registry import OPTIMIZERS

OFFERS = {"set_lr": "set_lr", "load": "load", "write": "write", "write_state": "write"}
"""What a handle needs for an event."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of everything that an optimizer holds."""

    params: tuple[Tensor, ...]
    state: Mapping[str, tuple[Tensor | None, ...]]


def snapshot(handle: Any) -> Snapshot:
    """Copy what an optimizer holds, to the host, each tensor in memory of its own."""
    state = {
        field: tuple(None if t is None else _copied(torch.as_tensor(t)) for t in row)
        for field, row in handle.state().items()
    }
    return Snapshot(tuple(map(_copied, handle.params())), state)


def _copied(tensor: Tensor) -> Tensor:
    """Copy a tensor of any layout to the host, row-major."""
    source = tensor.detach()
    return torch.empty(source.shape, dtype=source.dtype).copy_(source)


def same_bits(old: Tensor | None, new: Tensor | None) -> bool:
    """Compare two tensors of a snapshot; a state that appears as zeros counts as none."""
    if old is None or new is None:
        present = new if old is None else old
        return present is None or not bool(torch.any(present != 0))
    if (old.shape, old.dtype) != (new.shape, new.dtype):
        return False
    one, other = (_copied(tensor).reshape(-1).view(torch.uint8) for tensor in (old, new))
    return torch.equal(one, other)


def lacking(handle: Any, case: UpdateSpec) -> tuple[str, ...]:
    """Name what a case asks of a handle that does not offer it."""
    wanted = [OFFERS[event.kind] for event in case.events]
    if case.grad_scale != 1.0:
        wanted.append("set_grad_scale")
    return tuple(
        dict.fromkeys(name for name in wanted if not callable(getattr(handle, name, None)))
    )


def happen(handle: Any, case: UpdateSpec, event: Event, counts: list[int], device: str) -> str:
    """Let something happen, and return what is wrong with what the handle holds then, if anything.

    The step counts are brought up to date. The tensors that the handle was given are overwritten.
    """
    before = snapshot(handle)
    expected: dict[tuple[str, int], Tensor] = {}
    if event.kind == "set_lr":
        with controlled():
            for group in range(len(case.groups) + 1):
                handle.set_lr(event.rate(group), group)
    elif event.kind == "load":
        counts[:] = [int(event.number) + k for k in range(len(counts))]
        moments = build_state(case, event, device)
        expected = _copies(moments)
        state: dict[str, Sequence[Any]] = {f: [t.view for t in row] for f, row in moments.items()}
        if OPTIMIZERS[case.optimizer].counted:
            state["step"] = list(counts)
            expected |= {("step", k): torch.tensor(count) for k, count in enumerate(counts)}
        with controlled():
            handle.load(state)
        _given_back(case, moments)
    else:
        given = _to_write(case, event, before, counts, device)
        expected = _copies(given)
        with controlled():
            for field, row in given.items():
                for k, item in row.items():
                    handle.write(k, field, item.view)
        _given_back(case, given)
    return _difference(before, snapshot(handle), expected, event.kind)


Rows = Mapping[str, Any]
"""Guarded tensors by their fields, and by the positions of parameters."""


def _to_write(
    case: UpdateSpec, event: Event, before: Snapshot, counts: Sequence[int], device: str
) -> Rows:
    """Return what an event writes: moments only where an update has made them."""
    if event.kind == "write":
        written = build_written(case, event, device)
        return {"parameter": {k: item for k, (_, item) in written.items()}}
    return {
        field: {
            k: item
            for k, item in enumerate(row)
            if counts[k] and before.state[field][k] is not None
        }
        for field, row in build_state(case, event, device).items()
    }


def _items(rows: Rows) -> list[tuple[str, int, Guarded]]:
    return [
        (field, k, item)
        for field, row in rows.items()
        for k, item in (row.items() if isinstance(row, dict) else enumerate(row))
    ]


def _copies(rows: Rows) -> dict[tuple[str, int], Tensor]:
    return {(field, k): _copied(item.view) for field, k, item in _items(rows)}


def _given_back(case: UpdateSpec, rows: Rows) -> None:
    """Check that tensors are as they were given, and let their owner overwrite them."""
    for field, k, item in _items(rows):
        item.check(f"{field} of parameter {k} as it was given")
        overwrite(item)


def overwrite(item: Guarded) -> None:
    """Put other numbers into a tensor that was given to a backend, as its owner may."""
    item.base.fill_(-77.0)


def _difference(
    before: Snapshot, after: Snapshot, expected: Mapping[tuple[str, int], Tensor], kind: str
) -> str:
    """Say what is not as it was, and was not to change, or is not what it was to become."""
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
                due = "what was given" if (field, k) in expected else "what it was before"
                return f"after {kind}, {field} of parameter {k} is not {due}"
    return ""


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    """Compare two counts, which may be of any dtype."""
    return int(0 if one is None else one) == int(0 if other is None else other)


def around(item: Guarded, held: Tensor, label: str) -> None:
    """Raise Trespass if memory around a parameter changed, or some of its own and not all.

    A handle may update a parameter where it was given: then that memory is the parameter.
    """
    place = item.placement
    core = item.base.as_strided(item.stored, place.strides, place.offset)
    before = item.before.view(item.base.dtype)
    original = before.as_strided(item.stored, place.strides, place.offset)
    if same_bits(_copied(core), _copied(held)):
        whole = item.base.clone()
        whole.as_strided(item.stored, place.strides, place.offset).copy_(original)
        Guarded(item.view, whole, item.before, place, item.stored).check(label)
    else:
        item.check(label)
