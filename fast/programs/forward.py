"""Forward mode on torch's dual tensors, through the backward rules of the pages' ATen twins."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from fast.device import bridge
from fast.errors import Rejected, Unavailable
from fast.ref import Ref
from fast.tape import LEAF, WRITES, Tape

Rule = Callable[..., tuple[Tensor | None, ...]]


@contextmanager
def level() -> Iterator[None]:
    """Let duals exist inside; torch has one level, so where there is one already it is Rejected."""
    if forward_ad._current_level >= 0:
        raise Rejected(
            "hvp: torch's forward mode has one level, and this call is inside another hvp, or "
            "inside a dual level of the caller's; call it before, and hand its result in"
        )
    _settle()
    with forward_ad.dual_level():
        yield


@cache
def _settle() -> None:
    """Make a first dual: torch then loads formulas by a way that it calls deprecated itself."""
    with warnings.catch_warnings(), forward_ad.dual_level():
        warnings.simplefilter("ignore", DeprecationWarning)
        dual(torch.zeros(()), torch.zeros(()))


def attach(who: str, ref: Ref, position: int, vector: Any) -> None:
    """Give a leaf the vector of its input as a tangent; what is none of its shape is Rejected."""
    value = ref.tape.values[ref.id]
    try:
        tangent = bridge.to_device(vector, value.dtype, value.device)
    except Rejected as error:
        raise Rejected(f"{who}: the vector of input {position}: {error}") from error
    if tangent.shape != value.shape:
        raise Rejected(
            f"{who}: the vector of input {position} has the input's shape {tuple(value.shape)}, "
            f"got {tuple(tangent.shape)}"
        )
    ref.tape.values[ref.id] = dual(value, tangent)


def lift_rules(tape: Tape) -> None:
    """Let every rule of a tape send dual cotangents back."""
    tape.rules = [
        rule if rule is None or rule is LEAF else (_forward(rule[0]), *rule[1:-1], _form(rule[-1]))
        for rule in tape.rules
    ]


def _form(form: Any) -> Any:
    """Return the form of a lifted rule, whose duals are written nowhere."""
    return None if form is WRITES else form


def dual(value: Tensor, tangent: Tensor) -> Tensor:
    """Pair a value with its tangent, for the present level of forward mode."""
    if value._is_view():
        # Entries of a view may share memory, which torch would write to once for each.
        value = value.clone(memory_format=torch.contiguous_format)
    made: Tensor = forward_ad.make_dual(value, tangent)  # type: ignore[no-untyped-call]
    return made


def split(paired: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the value, and the tangent if there is one."""
    value, tangent = forward_ad.unpack_dual(paired)  # type: ignore[no-untyped-call]
    return value, tangent


def _split_several(paired: Any) -> tuple[Any, Any]:
    """Split a cotangent, or those of several results, of which None stays None."""
    if not isinstance(paired, tuple):
        return split(paired)
    pairs = [(None, None) if one is None else split(one) for one in paired]
    values, tangents = zip(*pairs, strict=True)
    return values, None if all(one is None for one in tangents) else tangents


def _forward(vjp: Rule) -> Rule:
    """Make a rule of dual numbers from a page's VJP, which is linear in the cotangent.

    A page tests a cotangent for zero by its value alone, so that 0 + t e would be lost: the value
    and the tangent are sent back one after the other, each as a cotangent of its own.
    """

    def rule(saved: tuple[Any, ...], cotangent: Any, needs: tuple[bool, ...]) -> Any:
        value, tangent = _split_several(cotangent)
        found = vjp(_completed(saved), value, needs)
        if tangent is None:
            return found
        moved = vjp(_values(saved), tangent, needs)
        return tuple(
            None if one is None or other is None else _plus_tangent(one, other)
            for one, other in zip(found, moved, strict=True)
        )

    return rule


def _completed(saved: tuple[Any, ...]) -> tuple[Any, ...]:
    """Give numbers that stand still a tangent of zeros, if others that were saved beside move.

    The zero that torch puts in its place is one that some of its own formulas write to.
    """
    numbers = [isinstance(item, Tensor) and item.is_floating_point() for item in saved]
    pairs = [split(item) if number else None for item, number in zip(saved, numbers, strict=True)]
    if all(pair is None or pair[1] is None for pair in pairs):
        return saved
    return tuple(
        item if pair is None or pair[1] is not None else dual(item, torch.zeros_like(item))
        for item, pair in zip(saved, pairs, strict=True)
    )


def _plus_tangent(paired: Tensor, more: Tensor) -> Tensor:
    value, tangent = split(paired)
    return dual(value, more if tangent is None else tangent + more)


def _values(saved: Any) -> Any:
    """Return what was saved without its tangents."""
    if isinstance(saved, Tensor):
        return split(saved)[0]
    if isinstance(saved, (tuple, list)) and not isinstance(saved, torch.Size):
        return tuple(map(_values, saved))
    return saved


def unavailable(error: NotImplementedError) -> Unavailable:
    """Say which page called what torch cannot differentiate forward."""
    pages = [
        frame.f_globals["__name__"].rpartition(".")[2]
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__", "").startswith("fast.ops.")
    ]
    where = f"the op {pages[-1]}" if pages else "the program"
    return Unavailable(
        f"hvp: torch has no forward formula for a function that {where} calls; write the program "
        f"without it, or take a difference of two gradients. torch says: {error}"
    )
