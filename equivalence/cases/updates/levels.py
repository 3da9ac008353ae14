"""What each setting of an optimizer's case is chosen from, plainest first, and which choices agree.

A wrong optimizer hides at the library's defaults, so the hyper-parameters go where each mistake
shows, and the page itself says where that is: decay up to 1, betas down to 0, eps from 1e-12 to 1
against gradients of its size, many updates before the first, norms that are clipped and norms that
are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from equivalence.cases.call import Shape, attribute_pairs
from equivalence.cases.guard import LAYOUTS, place
from equivalence.cases.updates.spec import Group, Places
from equivalence.registry import OPTIMIZERS

GRADIENTS = ("normal", "integers", "mixed", "zeros", "small", "tiny", "nothing", "offset")

PARAMETERS = ("normal", "integers", "mixed", "zeros", "offset")

WRITABLE = tuple(layout for layout in LAYOUTS if all(place((2, 3, 5), layout).strides))
"""The layouts in which no two elements share memory, as a parameter's may not."""

_NORMS = (None, 1e-7, 1.0)
"""A bound of 1e-7 meets small gradients, where what guards the division by the norm counts."""

_STARTS = (0, 1, 9, 300, 100_000)
"""How many updates parameters are taken to have had, where that makes a difference."""

SCALES = (1.0, 1024.0, 48.0)
"""How many times too large gradients come: a power of two, and one whose inverse is rounded."""

CHOICES: dict[str, dict[str, tuple[Any, ...]]] = {
    name: {
        **page.tried,
        **({"start_step": _STARTS} if page.counted else {}),
        "max_norm": _NORMS,
    }
    for name, page in OPTIMIZERS.items()
}
"""What each hyper-parameter is drawn from, plainest first."""

SHAPES: Mapping[str, tuple[Shape, ...]] = {
    "one": ((3, 5),),
    "square": ((4, 4), (4,), (4, 4)),
    "five": ((3, 5), (1,), (2, 1, 3), (3, 5), ()),
    "forty": tuple(((1,), (2,), (2, 2), (1,))[k % 4] for k in range(40)),
    "blocks": ((3, 1025), (1023,), (1025,), (2, 3)),
    "large": ((4, 3), (250, 400), (2, 3)),
}
"""The parameters of a case by the name of their class."""

GROUPS = ("together", "last", "each")
"""All parameters alike; the last with one hyper-parameter of its own; all in turn in one of four
groups that differ in everything."""

GAPS = ("none", "some", "first", "all", "late", "zeros")
"""Who gets no gradient when; at "zeros" it is one of zeros, for everybody."""


def gaps(kind: str, parameters: int) -> tuple[Places, Places, int]:
    """Return the places without a gradient, those of zeros, and how many steps show them."""
    every, last = range(parameters), parameters - 1
    if kind == "some":
        return tuple((1, k) for k in every if k % 2 or parameters == 1), (), 3
    if kind == "first":
        return ((0, 0),), (), 3
    if kind == "all":
        return tuple((1, k) for k in every), (), 3
    if kind == "late":
        return tuple((step, last) for step in range(3)), (), 4
    return (), tuple((1, k) for k in every if kind == "zeros"), 2


def permitted_pairs(optimizer: str, hyper: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Make settings acceptable that were drawn one by one."""
    return attribute_pairs(OPTIMIZERS[optimizer].permitted(hyper))


def plainest(optimizer: str) -> dict[str, Any]:
    """Take the first choice of every hyper-parameter."""
    return {name: among[0] for name, among in OPTIMIZERS[optimizer].tried.items()}


def remembering(optimizer: str) -> dict[str, Any]:
    """Take the first of all choices but for one, if need be, so that there is some state."""
    page, hyper = OPTIMIZERS[optimizer], plainest(optimizer)
    changed = ({**hyper, name: v} for name, among in page.tried.items() for v in among)
    return next((found for found in (hyper, *changed) if page.stateful(found)), hyper)


def other_choices(optimizer: str, hyper: Mapping[str, Any], name: str) -> list[Any]:
    """List what else a hyper-parameter may be beside all others."""
    page = OPTIMIZERS[optimizer]
    kept = page.permitted({**plainest(optimizer), **hyper})
    others = [value for value in page.tried[name] if value != hyper[name]]
    return [v for v in others if page.permitted({**kept, name: v}) == {**kept, name: v}]


def groups(
    optimizer: str, kind: str, hyper: Mapping[str, Any], parameters: int, number: int
) -> tuple[Group, ...]:
    """Return the groups of a kind; number chooses where there is a choice."""
    if kind == "last" and parameters > 1:
        return _last_alone(optimizer, hyper, parameters, number)
    if kind == "each" and parameters > 1:
        return tuple(
            (tuple(range(group, parameters, 4)), _turned(optimizer, hyper, group))
            for group in range(1, min(4, parameters))
        )
    return ()


def _last_alone(
    optimizer: str, hyper: Mapping[str, Any], parameters: int, number: int
) -> tuple[Group, ...]:
    """Put the last parameter in a group that differs in one hyper-parameter."""
    found = {name: other_choices(optimizer, hyper, name) for name in OPTIMIZERS[optimizer].tried}
    names = [name for name, others in found.items() if others]
    if not names:
        return ()
    name = names[number % len(names)]
    others = found[name]
    return (((parameters - 1,), ((name, others[number // len(names) % len(others)]),)),)


def _turned(optimizer: str, hyper: Mapping[str, Any], group: int) -> tuple[tuple[str, Any], ...]:
    """Take for every hyper-parameter the choice that comes so many places after its own."""
    turned = {
        name: among[(among.index(hyper[name]) + group) % len(among)]
        for name, among in OPTIMIZERS[optimizer].tried.items()
    }
    return permitted_pairs(optimizer, turned)
