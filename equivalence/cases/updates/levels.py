"""The levels of an optimizer's case, the plainest first, and which of them suit each other.

A wrong optimizer may agree with the right one at the defaults of a library. So hyper-parameters
take values that show mistakes. The page of the optimizer names them in `tried`. A case adds some
settings that no page has: earlier updates, a bound of the norm, a scale of the gradients, groups,
and steps without a gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from equivalence import registry
from equivalence.cases.call import Shape, attribute_pairs
from equivalence.cases.guard import LAYOUTS, place
from equivalence.cases.updates.spec import OF_A_CASE, Group, Places
from equivalence.registry import OPTIMIZERS
from spec.op import Rejected

GRADIENTS = ("normal", "integers", "mixed", "zeros", "small", "tiny", "nothing", "offset")

PARAMETERS = ("normal", "integers", "mixed", "zeros", "offset")

WRITABLE = tuple(layout for layout in LAYOUTS if all(place((2, 3, 5), layout).strides))
"""The layouts of parameters: no two elements share memory."""

SLOW = 1e-3
"""Up to this rate, a thousand steps stay within the range of a narrow format."""

NORMS = (None, 1e-7, 1.0)
"""Bounds of the gradients' norm. At 1e-7 small gradients show the term that guards the division."""

STARTS = (0, 1, 9, 300, 100_000)
"""The numbers of updates that each parameter has had before the first step."""

SCALES = (1.0, 1024.0, 48.0)
"""Factors by which gradients are too large. The inverse of 1024 is exact; 1 / 48 is rounded."""


@registry.remembering
def choices(optimizer: str) -> Mapping[str, tuple[Any, ...]]:
    """Return the levels of every setting of an optimizer, the plainest first."""
    page = OPTIMIZERS[optimizer]
    starts = {"start_step": STARTS} if page.counted else {}
    return {**page.tried, **starts, "max_norm": NORMS}


SHAPES: Mapping[str, tuple[Shape, ...]] = {
    "one": ((3, 5),),
    "square": ((4, 4), (4,), (4, 4)),
    "five": ((3, 5), (1,), (2, 1, 3), (3, 5), ()),
    "forty": tuple(((1,), (2,), (2, 2), (1,))[k % 4] for k in range(40)),
    "blocks": ((3, 1025), (1023,), (1025,), (2, 3)),
    "large": ((4, 3), (250, 400), (2, 3)),
}
"""The shapes of a case's parameters, by the name of the level."""

LONG_SHAPES = ("blocks", "large")
"""Those with parameters of more than one block."""

GROUPS = ("together", "last", "each")
"""The groups of parameters with hyper-parameters of their own.

together   none of them
last       the last one, in one hyper-parameter
each       all of them: they lie in four groups, which differ in every hyper-parameter
"""

ANOTHER_RATE = 0.75
"""The rate that is set between two steps: it is no usual one."""

GAPS = ("none", "some", "first", "all", "late", "zeros")
"""Patterns of missing gradients. At "zeros" all parameters get a gradient of zeros once."""


def gaps(kind: str, parameters: int) -> tuple[Places, Places, int]:
    """Return the places without a gradient, the places with zeros, and the number of steps."""
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


def of_every_shape() -> tuple[str, ...]:
    """Name the optimizers that update parameters of every shape."""
    return tuple(name for name, page in OPTIMIZERS.items() if not page.matrices)


def permitted_pairs(optimizer: str, hyper: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return settings that the page accepts, as close to the given ones as possible.

    Settings of the case's own, such as the bound of a norm, stay as they are.
    """
    own = {name: value for name, value in hyper.items() if name in OF_A_CASE}
    given = {name: value for name, value in hyper.items() if name not in OF_A_CASE}
    return attribute_pairs({**OPTIMIZERS[optimizer].permitted(given), **own})


@registry.remembering
def settable(optimizer: str, chosen: frozenset[tuple[str, Any]], stateful: bool) -> bool:
    """Say whether settings that the page permits have these among them, and if so remember."""
    page, known = OPTIMIZERS[optimizer], dict(chosen)
    among = [(known[name],) if name in known else all_ for name, all_ in page.tried.items()]
    every = (dict(zip(page.tried, values, strict=True)) for values in product(*among))
    fit = (hyper for hyper in every if page.permitted(hyper) == hyper)
    return any(page.stateful(hyper) if stateful else True for hyper in fit)


def plainest(optimizer: str) -> dict[str, Any]:
    """Return the plainest level of every hyper-parameter."""
    return {name: among[0] for name, among in OPTIMIZERS[optimizer].tried.items()}


def remembering(optimizer: str) -> dict[str, Any]:
    """Return the plainest settings that have a state.

    At most one hyper-parameter differs from its plainest level.
    """
    page, hyper = OPTIMIZERS[optimizer], plainest(optimizer)
    changed = ({**hyper, name: v} for name, among in page.tried.items() for v in among)
    return next((found for found in (hyper, *changed) if page.stateful(found)), hyper)


def keeping(optimizer: str) -> dict[str, Any]:
    """Return the settings that keep as many moments as some do; the plainest of such settings."""
    page = OPTIMIZERS[optimizer]
    hyper = remembering(optimizer)
    for name, among in page.tried.items():
        for value in among:
            changed = page.permitted({**hyper, name: value})
            if {*page.kept(changed)} > {*page.kept(hyper)}:
                hyper = changed
    return hyper


def small_rate(optimizer: str) -> dict[str, float]:
    """Return the learning rate `lr` for many steps, if the optimizer has one.

    It is the largest tried rate of at most `SLOW`, or else the smallest above 0.
    """
    rates = sorted(rate for rate in OPTIMIZERS[optimizer].tried.get("lr", ()) if rate > 0)
    slow = [rate for rate in rates if rate <= SLOW]
    return {"lr": slow[-1] if slow else rates[0]} if rates else {}


def accepted(optimizer: str, name: str, wished: float) -> float:
    """Return the wished value of a hyper-parameter, or the largest tried one if it is refused."""
    page = OPTIMIZERS[optimizer]
    try:
        page.hyper(**page.permitted({**plainest(optimizer), name: wished}))
    except Rejected:
        return float(max(page.tried[name]))
    return wished


def other_choices(optimizer: str, hyper: Mapping[str, Any], name: str) -> list[Any]:
    """Return the other levels of a hyper-parameter that the page accepts beside the settings."""
    page = OPTIMIZERS[optimizer]
    kept = page.permitted({**plainest(optimizer), **hyper})
    others = [value for value in page.tried[name] if value != hyper[name]]
    return [v for v in others if page.permitted({**kept, name: v}) == {**kept, name: v}]


def another(optimizer: str, hyper: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings that differ from the given ones in all that the page lets differ."""
    tried = OPTIMIZERS[optimizer].tried
    changed = {
        n: next((v for v in all_ if v != hyper.get(n)), all_[0]) for n, all_ in tried.items()
    }
    return dict(permitted_pairs(optimizer, changed))


@registry.remembering
def first_alone(optimizer: str) -> frozenset[str]:
    """Name the hyper-parameters that only a first step reads, such as what a sum begins with.

    The last gradients have the other sign than those before, and sizes of which some turn a mean.
    """
    page, kept = OPTIMIZERS[optimizer], keeping(optimizer)
    numbers = ([1.0] * 4, [1.0] * 4, [-0.5, -0.05, -2e-3, -5e-4])
    one, before, last = map(page.as_parameter, numbers)

    def later(hyper: Mapping[str, Any]) -> Any:
        state = page.init(one)
        for _ in range(2):
            _, state = page.update(one, before, state, page.hyper(**kept))
        return page.update(one, last, state, page.hyper(**page.permitted({**kept, **hyper})))

    def read(name: str) -> bool:
        return any(repr(later({name: v})) != repr(later({})) for v in page.tried[name])

    return frozenset(name for name in page.tried if not read(name))


def changes(
    optimizer: str, hyper: Mapping[str, Any], grouped: Sequence[Group]
) -> list[tuple[str, float]]:
    """Return the numbers to which a hyper-parameter may change between the steps of every group.

    They are tried ones, of which the page accepts each beside the settings of each group, and after
    which the same groups remember something. A learning rate has events of its own. What only a
    state begins with is none of them: a handle may take it in when it is made.
    """
    page, own = OPTIMIZERS[optimizer], permitted_pairs(optimizer, dict(hyper))
    every = [{**dict(own), **dict(pairs)} for pairs in ((), *(pairs for _, pairs in grouped))]

    def fits(name: str, value: Any) -> bool:
        changed = [{**settings, name: value} for settings in every]
        return all(
            page.permitted(new) == new and page.stateful(new) == page.stateful(old)
            for old, new in zip(every, changed, strict=True)
        )

    return [
        (name, value)
        for name, among in page.tried.items()
        for value in among
        if name not in ("lr", *first_alone(optimizer))
        and type(value) is float
        and value != dict(own)[name]
        and fits(name, value)
    ]


def groups(
    optimizer: str, kind: str, hyper: Mapping[str, Any], parameters: int, number: int
) -> tuple[Group, ...]:
    """Return the groups of a level. The number of the case chooses among several ways."""
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
    """Return a group of the last parameter alone, which differs in one hyper-parameter."""
    found = {name: other_choices(optimizer, hyper, name) for name in OPTIMIZERS[optimizer].tried}
    names = [name for name, others in found.items() if others]
    if not names:
        return ()
    name = names[number % len(names)]
    others = found[name]
    return (((parameters - 1,), ((name, others[number // len(names) % len(others)]),)),)


def _turned(optimizer: str, hyper: Mapping[str, Any], group: int) -> tuple[tuple[str, Any], ...]:
    """Return settings that take every hyper-parameter `group` levels further."""
    turned = {
        name: among[(among.index(hyper[name]) + group) % len(among)]
        for name, among in OPTIMIZERS[optimizer].tried.items()
    }
    return permitted_pairs(optimizer, turned)
