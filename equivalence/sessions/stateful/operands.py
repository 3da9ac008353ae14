"""What the ops of a run find as operands: every op of the table that its family finds any for.

So every way of a cotangent occurs: handed on, scaled, contracted, repeated, added up, moved, cut,
padded, scattered, chosen, divided among ties, drawn again, stopped; by rules that save their
result, their input, or tensors of their own.

An op's operands are drawn as numbers, which are read modulo what the tape offers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from equivalence.cases.domains import Domain
from equivalence.cases.families.family import FACTOR, TERM, Operands, Picks
from equivalence.cases.families.signatures import refusal
from equivalence.cases.families.table import family_of
from fast.device.dtypes import NAMED
from spec.ops import OPS

MOST_ENTRIES = 24
"""A tape with so many is long enough."""

EXPONENT = 4.0
"""The largest magnitude that is exponentiated, so that gradients stay small."""


class Offer:
    """What a tape offers as operands."""

    def __init__(
        self,
        entries: Mapping[int, Tensor],
        naturals: Sequence[list[int] | int],
        provider: str,
        precision: str,
        buffers: Sequence[Tensor] = (),
    ) -> None:
        """Offer entries, by their ids, naturals, and what named buffers hold, in a session.

        Ops take numbers of its precision; those of another are met by casts alone.
        """
        self.naturals, self._own, self._buffers = naturals, precision, buffers
        self._formats = [d.name for d in NAMED.values() if d.kernels or provider == "aten"]
        own = NAMED[precision].storage
        self._places = {h: value for h, value in entries.items() if not value.is_floating_point()}
        values = {here: value for here, value in entries.items() if value.dtype is own}
        others = entries.keys() - self._places.keys() - values.keys()
        self._wide = [
            here
            for here in others
            if torch.promote_types(entries[here].dtype, own) is entries[here].dtype
        ]
        self.shapes = {here: tuple(value.shape) for here, value in values.items()}
        self._lows = {h: float(v.min()) if v.numel() else 1.0 for h, v in values.items()}
        self._sizes = {h: float(v.abs().max()) if v.numel() else 0.0 for h, v in values.items()}
        self._least = {h: float(v.abs().min()) if v.numel() else 1.0 for h, v in values.items()}

    def entry(
        self,
        pick: int,
        fits: Callable[[tuple[int, ...]], bool],
        most: float = TERM,
        domain: Domain = "real",
    ) -> int | None:
        """Pick one of the latest entries that fit, of numbers up to a magnitude in a domain."""
        found = self.fitting(fits, most, domain)
        return found[-1 - pick % len(found)] if found else None

    def fitting(
        self, fits: Callable[[tuple[int, ...]], bool], most: float, domain: Domain
    ) -> list[int]:
        """List the entries that fit, of numbers up to a magnitude in a domain, the latest last."""
        return [
            here
            for here, shape in self.shapes.items()
            if self._sizes[here] <= most and self._lies_in(domain, here) and fits(shape)
        ]

    def _lies_in(self, domain: Domain, here: int) -> bool:
        """Say whether an entry keeps away from the edge of a domain."""
        if domain == "moderate":
            return self._sizes[here] <= EXPONENT
        if domain == "positive" and self._lows[here] <= 0:
            return False
        if domain == "past_minus_one":
            return self._lows[here] >= 0
        return domain in ("real", "factors") or self._least[here] >= 1 / FACTOR

    def indices(self, pick: int, extent: int) -> Any:
        """Pick integers of the tape that lie in [0, extent), or write such numbers down."""
        found: list[Any] = [f"n{k}" for k, held in enumerate(self.naturals) if _below(held, extent)]
        found += self.placed(lambda shape: True, extent)
        if not found or pick % 4 == 0:
            found = [[pick % extent, 0], [(pick // 2) % extent], []]
        return found[pick // 4 % len(found)]

    def labels(self, pick: int, rows: int, classes: int) -> Any:
        """Pick a vector of so many labels, or write labels down."""
        found: list[Any] = [
            f"n{k}"
            for k, held in enumerate(self.naturals)
            if isinstance(held, list) and len(held) == rows and _below(held, classes)
        ]
        found += self.placed((rows,).__eq__, classes)
        if not found or pick % 4 == 0:
            found = [[(pick + row) % classes for row in range(rows)]]
        return found[pick // 4 % len(found)]

    def positions(self, pick: int, shape: Sequence[int], extent: int) -> Any:
        """Pick integers in [0, extent), of a shape but for its first extent, or write such down."""
        found = self.placed(lambda s: bool(s) and s[1:] == tuple(shape[1:]), extent)
        if found and pick % 4:
            return found[pick // 4 % len(found)]
        draw = torch.Generator().manual_seed(pick)
        return torch.randint(extent, tuple(shape), generator=draw).tolist()

    def placed(self, fits: Callable[[tuple[int, ...]], bool], extent: int) -> list[Any]:
        """List the entries of integers in [0, extent) that fit."""
        places = self._places.items()
        return [here for here, x in places if fits(tuple(x.shape)) and bool((x < extent).all())]

    def cast(self, pick: int) -> tuple[int, str] | None:
        """Pick an entry and a format, so that what goes back fits the format it comes to.

        The session's own numbers go anywhere, those of a format that holds all of these come back,
        and a narrower format is an end: a program's contract knows nothing of its few digits.
        """
        small = [here for here in self.shapes if self._sizes[here] <= TERM]
        found = sorted([*small, *self._wide])
        if not found:
            return None
        here = found[-1 - pick % len(found)]
        to = self._own if here in self._wide else self._formats[pick // 4 % len(self._formats)]
        return here, to

    def shape_of(self, operand: Any) -> tuple[int, ...] | None:
        """Return the shape of what was picked, or written down; None of another format's number."""
        if isinstance(operand, int):
            placed = self._places.get(operand)
            return self.shapes.get(operand) if placed is None else tuple(placed.shape)
        if isinstance(operand, str) and operand[0] == "b":
            return tuple(self._buffers[int(operand[1:])].shape)
        held = self.naturals[int(operand[1:])] if isinstance(operand, str) else operand
        return tuple(torch.tensor(held).shape)

    def buffer(self, pick: int, shape: Sequence[int], domain: Domain = "real") -> str | None:
        """Pick a named buffer of a shape, whose numbers are above 0 where it has to be."""
        found = [
            f"b{k}"
            for k, held in enumerate(self._buffers)
            if held.shape == tuple(shape) and (domain == "real" or bool((held > 0).all()))
        ]
        return found[pick % len(found)] if found else None

    def mask(self, pick: int, shape: Sequence[int]) -> Any:
        """Write a mask down."""
        draw = torch.Generator().manual_seed(pick)
        return (torch.rand(tuple(shape), generator=draw) < 0.5).tolist()


def _below(held: list[int] | int, extent: int) -> bool:
    return all(k < extent for k in (held if isinstance(held, list) else [held]))


def operands(name: str, offer: Offer, picks: Picks, several: bool = False) -> Operands | None:
    """Find the operands of an op, None where nothing fits, or where the page refuses what does.

    A statement of a run enters one result, so that an op of several finds none, unless whoever asks
    takes one of the results: its sessions are those of random programs. What an op makes of buffers
    is no result of a session.
    """
    op = OPS[name]
    if op.results is not None and not (several or op.buffers):
        return None
    found = family_of(op).operands(op, offer, picks)
    if found is None or op.random:
        return found
    shapes = [offer.shape_of(operand) for operand in found[0]]
    known = tuple(shape for shape in shapes if shape is not None)
    refused = len(known) == len(shapes) and refusal(op, (known, found[1])) is not None
    return None if refused else found
