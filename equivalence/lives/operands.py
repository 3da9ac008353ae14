"""The ops of the lifecycle machine: a small set, chosen so that every way of a cotangent occurs.

Handed on (add), scaled (mul), contracted (matmul), repeated (sum), added up (broadcast_to), moved
(permute), cut (concat), padded (slice), scattered (take), chosen (where), divided among ties (max),
drawn again (dropout), stopped (detach), and by a rule that saved its result (tanh), its input
(softmax) or tensors of its own (cross_entropy).

An op's operands are drawn as numbers, which are read modulo what the tape offers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from equivalence.lives.model import Entry

Operands = tuple[tuple[Any, ...], dict[str, Any]]
"""Ids of entries, or for indices a list of integers or the name of a natural; and attributes."""

Picks = tuple[int, int, int]

FACTOR = 64.0
"""The largest magnitude that is multiplied, so that a life stays within the range of fp32."""

TERM = 2.0**16
"""The largest magnitude that is added or compared."""

MOST_ENTRIES = 24
"""A tape with so many is long enough."""


def numbers(seed: int, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw quarters from -2 to 2, which every dtype holds, and whose products are exact."""
    draw = torch.Generator().manual_seed(seed)
    return (torch.randint(-8, 9, tuple(shape), generator=draw) / 4).to(dtype)


class Offer:
    """What a tape offers as operands."""

    def __init__(self, values: Mapping[int, Tensor], naturals: Sequence[list[int] | int]) -> None:
        """Offer entries, by their ids, and naturals."""
        self.naturals = naturals
        self.shapes = {here: tuple(value.shape) for here, value in values.items()}
        self._sizes = {h: float(v.abs().max()) if v.numel() else 0.0 for h, v in values.items()}

    def entry(
        self, pick: int, fits: Callable[[tuple[int, ...]], bool], most: float = TERM
    ) -> int | None:
        """Pick one of the latest entries that fit."""
        known = self.shapes.items()
        found = [here for here, shape in known if self._sizes[here] <= most and fits(shape)]
        return found[-1 - pick % len(found)] if found else None

    def indices(self, pick: int, extent: int) -> Any:
        """Pick a natural whose numbers lie in [0, extent), or write such numbers down."""
        found: list[Any] = [f"n{k}" for k, held in enumerate(self.naturals) if _below(held, extent)]
        if not found or pick % 4 == 0:
            found = [[pick % extent, 0], [(pick // 2) % extent], []]
        return found[pick // 4 % len(found)]

    def labels(self, pick: int, rows: int, classes: int) -> Any:
        """Pick a natural vector of so many labels, or write labels down."""
        found: list[Any] = [
            f"n{k}"
            for k, held in enumerate(self.naturals)
            if isinstance(held, list) and len(held) == rows and _below(held, classes)
        ]
        if not found or pick % 4 == 0:
            found = [[(pick + row) % classes for row in range(rows)]]
        return found[pick // 4 % len(found)]


def _below(held: list[int] | int, extent: int) -> bool:
    return all(k < extent for k in (held if isinstance(held, list) else [held]))


def _any(shape: tuple[int, ...]) -> bool:
    return True


def _unary(offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], _any)
    return None if x is None else ((x,), {})


def _pair(most: float) -> Callable[[Offer, Picks], Operands | None]:
    def choose(offer: Offer, picks: Picks) -> Operands | None:
        x = offer.entry(picks[0], _any, most)
        if x is None:
            return None
        return (x, offer.entry(picks[1], offer.shapes[x].__eq__, most)), {}

    return choose


def _reduction(offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], lambda shape: math.prod(shape) > 0)
    if x is None:
        return None
    rank = len(offer.shapes[x])
    axes = None if not rank or picks[1] % 3 == 0 else (picks[1] % rank,)
    return (x,), {"axes": axes, "keepdims": bool(picks[2] % 2)}


def _reshape(offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], _any)
    if x is None:
        return None
    size = math.prod(offer.shapes[x])
    shapes = [(size,), (1, size), (size, 1), tuple(reversed(offer.shapes[x]))]
    return (x,), {"shape": shapes[picks[1] % len(shapes)]}


def _permute(offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], lambda shape: len(shape) == 2)
    return None if x is None else ((x,), {"axes": (1, 0)})


def _broadcast(offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], lambda shape: math.prod(shape) <= 3)
    if x is None:
        return None
    shape = tuple(2 if n == 1 else n for n in offer.shapes[x])
    return (x,), {"shape": (2, *shape) if picks[1] % 2 or shape == offer.shapes[x] else shape}


def _take(offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], lambda shape: bool(shape) and shape[0] > 0)
    if x is None:
        return None
    return (x, offer.indices(picks[1], offer.shapes[x][0])), {"axis": 0}


def _softmax(offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], bool)
    return None if x is None else ((x,), {"axis": -1})


def _matmul(offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], lambda shape: len(shape) == 2, FACTOR)
    if x is None:
        return None
    inner = offer.shapes[x][1]
    y = offer.entry(picks[1], lambda shape: len(shape) == 2 and shape[0] == inner, FACTOR)
    return None if y is None else ((x, y), {})


def _linear(offer: Offer, picks: Picks) -> Operands | None:
    w = offer.entry(picks[0], lambda shape: len(shape) == 2, FACTOR)
    if w is None:
        return None
    rows, inner = offer.shapes[w]
    x = offer.entry(picks[1], lambda shape: shape[-1:] == (inner,), FACTOR)
    b = offer.entry(picks[2], lambda shape: shape == (rows,), FACTOR)
    return None if x is None or b is None else ((x, w, b), {})


def _cross_entropy(offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], lambda shape: len(shape) == 2 and shape[1] > 0)
    if x is None:
        return None
    labels = offer.labels(picks[1], *offer.shapes[x])
    return (x, labels), {"reduction": ("mean", "sum", "none")[picks[2] % 3]}


def _mse_loss(offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], lambda shape: math.prod(shape) > 0, FACTOR)
    if x is None:
        return None
    y = offer.entry(picks[1], offer.shapes[x].__eq__, FACTOR)
    return (x, y), {"reduction": ("mean", "sum", "none")[picks[2] % 3]}


def _where(offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], lambda shape: math.prod(shape) > 0)
    if x is None:
        return None
    shape = offer.shapes[x]
    draw = torch.Generator().manual_seed(picks[2])
    mask = torch.rand(shape, generator=draw) < 0.5
    return (mask.tolist(), x, offer.entry(picks[1], shape.__eq__)), {}


def _concat(offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], bool)
    if x is None:
        return None
    rest = offer.shapes[x][1:]
    y = offer.entry(picks[1], lambda shape: bool(shape) and shape[1:] == rest)
    return ((x, y, x) if picks[2] % 4 == 0 else (x, y)), {"axis": 0}


def _slice(offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], bool)
    if x is None:
        return None
    extent = offer.shapes[x][-1]
    start = picks[1] % (extent + 1)
    return (x,), {"axis": -1, "start": start, "length": picks[2] % (extent - start + 1)}


def _scatter_add(offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], lambda shape: bool(shape) and shape[0] > 0)
    if x is None:
        return None
    extent, *rest = offer.shapes[x]
    source = offer.entry(picks[1], lambda shape: bool(shape) and shape[1:] == tuple(rest))
    assert source is not None
    return (x, offer.labels(picks[2], offer.shapes[source][0], extent), source), {"axis": 0}


def _dropout(offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], _any)
    return None if x is None else ((x,), {"p": (0.5, 0.0, 1.0, 0.25)[picks[1] % 4], "seed": 7})


def _random(**attributes: Any) -> Callable[[Offer, Picks], Operands | None]:
    def choose(offer: Offer, picks: Picks) -> Operands | None:
        shape = ((3,), (2, 3), (), (0,))[picks[0] % 4]
        return (), {"shape": shape, "seed": picks[1], **attributes}

    return choose


OPERANDS: dict[str, Callable[[Offer, Picks], Operands | None]] = {
    "add": _pair(TERM),
    "mul": _pair(FACTOR),
    "sum": _reduction,
    "sub": _pair(TERM),
    "relu": _unary,
    "tanh": _unary,
    "detach": _unary,
    "reshape": _reshape,
    "permute": _permute,
    "broadcast_to": _broadcast,
    "take": _take,
    "max": _reduction,
    "softmax": _softmax,
    "matmul": _matmul,
    "linear": _linear,
    "cross_entropy": _cross_entropy,
    "maximum": _pair(TERM),
    "mean": _reduction,
    "mse_loss": _mse_loss,
    "where": _where,
    "concat": _concat,
    "slice": _slice,
    "scatter_add": _scatter_add,
    "dropout": _dropout,
    "bernoulli_mask": _random(keep_prob=0.5),
    "rand_uniform": _random(),
}
"""How each op finds its operands: a function of the offer, None where nothing fits."""


def kept(
    op: str, provider: str, inputs: Sequence[Any], entries: Sequence[Entry]
) -> tuple[int, int]:
    """Return the bytes and buffers that a rule keeps beside its inputs and its result.

    Statistics of rows, logarithms and counts are kept in fp32.
    """
    if op not in ("softmax", "cross_entropy"):
        return 0, 0
    shape = entries[inputs[0]].bits.shape
    rows = math.prod(shape[:-1])
    if op == "softmax":
        return (4 * 2 * rows, 2) if provider == "triton" else (0, 0)
    return (4 * 2 * rows + 4, 3) if provider == "triton" else (4 * shape.numel() + 4, 2)
