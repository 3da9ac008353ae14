"""Designed programs in which every op follows every other: each reads what one of them returned."""

from __future__ import annotations

from random import Random

import torch

import fast
from equivalence.cases.families.family import Picks
from equivalence.sessions.dags.growing import NAMES, Growing, pool
from equivalence.sessions.dags.text import Program
from spec.ops import OPS

EXTENTS = (2, 3)
"""The extents of the parameters, of which there is one of every shape."""

TRIES = 60
"""How often an op is tried behind another, each time at other operands."""

FEW = 4
"""How often an op is tried at the same numbers."""

MOST = 40
"""How many steps a designed program has at most, without its loss."""


BY_NUMBERS = "no numbers of it lie where this is defined, or small enough"
BY_SHAPE = "no result of it has a shape that this reads"


def readers(first: str) -> list[str]:
    """Return the ops that may read what an op returns: numbers, or the places of them."""
    if OPS[first].kind == "positions":
        return [name for name in NAMES if OPS[name].index_ranges]
    return [name for name in NAMES if len(OPS[name].inputs) > len(OPS[name].index_inputs)]


def programs(first: str, precision: str, seed: int = 0) -> tuple[list[Program], dict[str, str]]:
    """Return programs in which all ops read a result of the first, and why some never do.

    What the first returns differs: its operands are drawn anew where an op found nothing to do.
    """
    random = Random(f"{first} {seed}")
    dtype = fast.Session("aten", precision, "cpu").options.compute
    missing, found = readers(first), []
    why = dict.fromkeys(missing, BY_SHAPE)
    for _ in range(TRIES):
        growing = Growing(params := pool(EXTENTS, 3, random.randrange(2**16), dtype),
                          range(len(params)), precision)  # fmt: skip
        begin = _first(growing, first, random)
        if begin is None:
            continue
        met = [name for name in missing[:MOST] if _follows(growing, name, begin, random)]
        missing = [name for name in missing if name not in met]
        heads = [k for k in range(begin, len(growing.refs)) if growing.own(k)]
        if met and heads:
            found.append(growing.finished(heads, seed))
        missing = missing[MOST:] + missing[:MOST]
        if not missing:
            break
        if growing.own(begin):
            # A half is in every domain, and small: what reads it does not by its numbers alone.
            growing.values[begin] = torch.full_like(growing.values[begin], 0.5)
            reads = [name for name in missing if growing.found(name, _picks(random), begin)]
            why |= dict.fromkeys(reads, BY_NUMBERS)
    return found, {name: why[name] for name in missing}


def _first(growing: Growing, name: str, random: Random) -> int | None:
    """Add the first op, at operands that it finds."""
    for _ in range(FEW):
        node = growing.grow(name, _picks(random))
        if node is not None and growing.values[node].numel():
            return node
    return None


def _follows(growing: Growing, name: str, onto: int, random: Random) -> bool:
    """Add an op that reads a certain node, if it finds other operands beside it."""
    return any(growing.grow(name, _picks(random), onto) is not None for _ in range(FEW))


def _picks(random: Random) -> Picks:
    return random.randrange(256), random.randrange(256), random.randrange(256)
