"""What a backend returned: its form, and its numbers as they lie in memory.

A subclass of torch.Tensor decides in Python what its reader sees. Then nobody could say that the
numbers that were judged are those that a program goes on with. So a result is a plain tensor (a
Parameter, a view and an expanded tensor are), and its numbers are copied through its strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

PLAIN: tuple[type, ...] = (Tensor, Parameter)
"""The types whose numbers are those in memory."""


class Malformed(TypeError):
    """What a backend returned has not the form that is wanted of it."""


def gradients(op: str, found: object, inputs: int) -> list[Tensor | None]:
    """Return what a VJP gave as a list, or say that a list with an entry per input is wanted."""
    if isinstance(found, Sequence) and not isinstance(found, str):
        return [is_plain(f"vjp of {op}, entry {k}", one) for k, one in enumerate(found)]
    entries = "one entry" if inputs == 1 else f"{inputs} entries"
    raise Malformed(
        f"vjp of {op} returned {type(found).__name__}; wanted is a list with one gradient per "
        f"input, None at inputs of indices and of masks: here, {entries}"
    )


def several(call: str, found: object, names: Sequence[str]) -> list[Any]:
    """Return the results of an op of several as a list, or say that one tensor each is wanted."""
    came = type(found).__name__
    if isinstance(found, Sequence) and not isinstance(found, str):
        if len(found) == len(names):
            pairs = zip(names, found, strict=True)
            return [is_plain(f"{call}, result {name}", one) for name, one in pairs]
        came = f"{len(found)} results"
    results = f"here, {len(names)}: {', '.join(names)}"
    raise Malformed(
        f"{call} returned {came}; wanted is a tuple with one tensor per result: {results}"
    )


def is_plain(what: str, found: Any) -> Any:
    """Return what came, unless it is a tensor whose numbers are not those in memory.

    What is no tensor at all is left to whoever knows what is due. Malformed names the type.
    """
    if not isinstance(found, Tensor):
        return found
    if type(found) not in PLAIN:
        kind = f"{type(found).__module__}.{type(found).__qualname__}"
        raise Malformed(
            f"{what}: expected a torch.Tensor, got the subclass {kind}, whose code decides what a "
            "reader sees; return result.as_subclass(torch.Tensor), a Parameter or a view"
        )
    if found.layout is not torch.strided or found.is_meta:
        kind = "meta" if found.is_meta else str(found.layout).removeprefix("torch.")
        raise Malformed(f"{what}: expected a dense tensor, got a {kind} one; return its to_dense()")
    return found


def in_memory(found: Tensor) -> Tensor:
    """Return a plain copy of a tensor on the host, row-major, read through its strides."""
    source = found.detach().resolve_neg().resolve_conj()
    if type(source) is Tensor:
        return torch.empty(source.size(), dtype=source.dtype).copy_(source)
    # A subclass would decide what copy_ reads: a plain tensor reads its storage instead.
    storage, place = source.untyped_storage(), source.storage_offset()
    bare = torch.empty(0, dtype=source.dtype, device=source.device)
    bare.set_(storage, place, source.size(), source.stride())
    return torch.empty(source.size(), dtype=source.dtype).copy_(bare)
