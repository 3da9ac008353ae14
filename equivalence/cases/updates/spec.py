"""A case of an optimizer, in a few words: parameters, some steps, and what comes between them.

An `UpdateSpec` is what a design holds, what a failure prints and what JSON carries, as a `CaseSpec`
is for calls; `equivalence.cases.updates.tensors` makes its tensors.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from equivalence import registry
from equivalence.cases.call import Recipe, Shape, attribute_pairs, read_recipe
from equivalence.dtypes import DTYPES
from equivalence.registry import OPTIMIZERS
from spec.optim.clip import Limits

OF_A_CASE = ("start_step", "max_norm", "grad_scale", "max_value")
"""What is drawn with the hyper-parameters and is none; a group may have bounds of its own."""

HANDINGS = ("fresh", "reused", "shared")
"""Whose tensors gradients are: new ones at each step, the same ones with other content, or one
tensor for all the parameters of a shape."""

EVENTS = (
    *("set_lr", "set_first_lr", "set_hyper", "set_grad_scale", "set_max_norm"),
    *("load", "write", "write_state"),
)
"""What may happen between two steps."""

COMPANY = ("alone", "otherwise")
"""Whether other handles of the same optimizer live beside a case's, and step before each step.

otherwise   they have parameters of the same shapes, one with other hyper-parameters, and one of
            another dtype
"""

Group = tuple[tuple[int, ...], tuple[tuple[str, Any], ...]]
"""The positions of a group's parameters, and the hyper-parameters that differ for them."""

PLAIN = Recipe()

Places = tuple[tuple[int, int], ...]
"""Pairs of a step and a parameter."""


@dataclass(frozen=True, slots=True)
class Event:
    """What happens before the step of a number.

    set_lr          group 0 goes on with the learning rate `number`, group j with number / (j + 1)
    set_first_lr    group 0 goes on with the learning rate `number`, and the others with their own
    set_hyper       every group goes on with the hyper-parameter `name` of `number`
    set_grad_scale  gradients come `number` times too large from now on
    set_max_norm    the gradients' norm is clipped to `number` from now on
    load            every parameter gets a state that `number` updates have made, and its position
                    more; the moments are drawn by the recipe
    write           every second parameter, from the first, gets numbers drawn by the recipe
    write_state     every moment that there is gets numbers drawn by the recipe
    """

    step: int
    kind: str
    number: float = 0.0
    recipe: Recipe = PLAIN
    name: str = ""

    def rate(self, group: int) -> float:
        """Return the learning rate that a group goes on with."""
        return self.number / (group + 1)

    def changed(self, group: int) -> dict[str, float]:
        """Return the hyper-parameters of a group that the event changes, by name."""
        if self.kind == "set_lr":
            return {"lr": self.rate(group)}
        if self.kind == "set_first_lr":
            return {} if group else {"lr": self.number}
        return {self.name: self.number} if self.kind == "set_hyper" else {}

    def plain(self) -> list[Any]:
        """Return the event as plain data, as `read_event` takes it."""
        found = [self.step, self.kind, self.number, _plain_recipe(self.recipe)]
        return [*found, self.name] if self.name else found


@dataclass(frozen=True, slots=True)
class UpdateSpec:
    """Some steps of an optimizer on some parameters, described in a few words.

    missing holds (step, parameter) pairs at which the parameter gets no gradient, and zeroed those
    at which it gets one of zeros; spoiled holds (step, parameter, what) where one entry of a
    gradient is no usual number: what is a kind of `KINDS`, with a place of `SPOTS` behind it if it
    is not the first entry ("nan", "-inf last").
    """

    optimizer: str
    dtype: str
    shapes: tuple[Shape, ...]
    parameters: Recipe
    gradients: Recipe
    hyper: tuple[tuple[str, Any], ...]
    steps: int = 3
    missing: Places = ()
    groups: tuple[Group, ...] = ()
    spoiled: tuple[tuple[int, int, str], ...] = ()
    zeroed: Places = ()
    events: tuple[Event, ...] = ()
    handing: str = "fresh"
    company: str = "alone"

    def __post_init__(self) -> None:
        """Let the parameters be matrices where the page says that all of them are."""
        if OPTIMIZERS[self.optimizer].matrices:
            object.__setattr__(self, "shapes", tuple(map(as_matrix, self.shapes)))

    def to_json(self) -> str:
        """Return the case as one line of JSON."""
        plain: dict[str, Any] = {
            "optimizer": self.optimizer,
            **registry.where(self.optimizer),
            "dtype": self.dtype,
            "shapes": self.shapes,
            "parameters": _plain_recipe(self.parameters),
            "gradients": _plain_recipe(self.gradients),
            "hyper": dict(self.hyper),
            "steps": self.steps,
            "missing": self.missing,
        }
        if self.groups:
            plain["groups"] = [[members, dict(pairs)] for members, pairs in self.groups]
        if self.events:
            plain["events"] = [event.plain() for event in self.events]
        if self.handing != HANDINGS[0]:
            plain["handing"] = self.handing
        if self.company != COMPANY[0]:
            plain["company"] = self.company
        plain |= {
            name: getattr(self, name) for name in ("zeroed", "spoiled") if getattr(self, name)
        }
        return json.dumps(plain, separators=(",", ":"))

    def group_of(self, parameter: int) -> int:
        """Return the number of a parameter's group; 0 is that of all whom no group names."""
        named = (g for g, (members, _) in enumerate(self.groups, 1) if parameter in members)
        return next(named, 0)

    def hyper_parameters(self, parameter: int, step: int = 0) -> dict[str, Any]:
        """Return the hyper-parameters by which a parameter takes a step, by name."""
        group = self.group_of(parameter)
        own = self.groups[group - 1][1] if group else ()
        found = {name: v for name, v in (*self.hyper, *own) if name not in OF_A_CASE}
        for event in self.events:
            if event.step <= step:
                found |= event.changed(group)
        return found

    def settings(self) -> dict[str, Any]:
        """Return what a backend's optimizer is made with."""
        found = {name: v for name, v in self.hyper if name != "max_norm" or v is not None}
        found.pop("grad_scale", None)
        if self.groups:
            found["groups"] = [{"params": m, **dict(pairs)} for m, pairs in self.groups]
        return found

    def before(self, step: int) -> list[Event]:
        """List what happens before a step."""
        return [event for event in self.events if event.step == step]

    def judged(self) -> set[int]:
        """Return the steps to judge: the first, the last, and fewer and fewer between them."""
        last = self.steps - 1
        return {k for k in range(self.steps) if k < 5 or k >= last - 1 or str(k).strip("0") == "1"}

    def max_norm_at(self, step: int) -> float | None:
        """Return what the gradients' norm is clipped to at a step."""
        return self._told("set_max_norm", step) or self.max_norm

    def grad_scale_at(self, step: int) -> float:
        """Return how many times too large the gradients come at a step."""
        return self._told("set_grad_scale", step) or self.grad_scale

    def limits(self, parameter: int, step: int) -> Limits:
        """Return what bounds a parameter's gradient at a step, and with whom it shares a norm."""
        group = self.group_of(parameter)
        own = dict(self.groups[group - 1][1]) if group else {}
        value = own.get("max_value", dict(self.hyper).get("max_value"))
        if "max_norm" in own:
            return Limits(own["max_norm"], value, group)
        return Limits(self.max_norm_at(step), value)

    def limits_at(self, step: int) -> list[Limits]:
        """Return what bounds each gradient of a step."""
        return [self.limits(k, step) for k in range(len(self.shapes))]

    def _told(self, kind: str, step: int) -> float | None:
        """Return what was set last, up to a step. Both arguments are above 0."""
        told = [event.number for event in self.events if event.kind == kind and event.step <= step]
        return told[-1] if told else None

    @property
    def max_norm(self) -> float | None:
        """What the gradients' norm is clipped to from the first step on."""
        found: float | None = dict(self.hyper).get("max_norm")
        return found

    @property
    def grad_scale(self) -> float:
        """How many times too large the gradients come from the first step on."""
        return float(dict(self.hyper).get("grad_scale", 1.0))

    @property
    def start_step(self) -> int:
        """How many updates the parameters are taken to have had."""
        return int(dict(self.hyper).get("start_step", 0))


def as_matrix(shape: Shape) -> Shape:
    """Return the shape of a matrix with as many entries: another shape may become a tall one."""
    if len(shape) == 2:
        return shape
    if len(shape) > 2:
        return math.prod(shape[1:]), shape[0]
    entries = math.prod(shape)
    return (entries // 2, 2) if entries and entries % 2 == 0 else (entries, 1)


def update_from_dict(plain: Mapping[str, Any]) -> UpdateSpec:
    """Read a case back from plain data; ValueError says what is wrong with it."""
    registry.found(plain)
    events = [read_event(event) for event in plain.get("events", ())]
    handing = plain.get("handing", HANDINGS[0])
    company = plain.get("company", COMPANY[0])
    for kind, name, known in (
        ("optimizer", plain.get("optimizer"), OPTIMIZERS),
        ("dtype", plain.get("dtype"), DTYPES),
        ("handing", handing, HANDINGS),
        ("company", company, COMPANY),
        *(("event", event.kind, EVENTS) for event in events),
    ):
        if name not in known:
            raise ValueError(f"unknown {kind} {name!r}; known: {', '.join(known)}")
    return UpdateSpec(
        optimizer=plain["optimizer"],
        dtype=plain["dtype"],
        shapes=tuple(tuple(int(n) for n in shape) for shape in plain["shapes"]),
        parameters=read_recipe(plain["parameters"]),
        gradients=read_recipe(plain["gradients"]),
        hyper=attribute_pairs(plain["hyper"]),
        steps=int(plain.get("steps", 3)),
        missing=_places(plain.get("missing", ())),
        groups=tuple(
            (tuple(map(int, members)), attribute_pairs(pairs))
            for members, pairs in plain.get("groups", ())
        ),
        spoiled=tuple((int(s), int(k), str(what)) for s, k, what in plain.get("spoiled", ())),
        zeroed=_places(plain.get("zeroed", ())),
        events=tuple(events),
        handing=handing,
        company=company,
    )


def read_event(plain: Sequence[Any]) -> Event:
    """Read an event back from plain data; that of an older suite has no name."""
    step, kind, number, recipe, *name = plain
    return Event(int(step), kind, number, read_recipe(recipe), *map(str, name[:1]))


def _plain_recipe(recipe: Recipe) -> list[Any]:
    return [recipe.regime, recipe.seed, recipe.layout]


def _places(pairs: Sequence[Sequence[int]]) -> Places:
    return tuple((int(step), int(k)) for step, k in pairs)


def recipes_of(case: UpdateSpec) -> list[tuple[str, Recipe]]:
    """Name the recipes of the parameters and of the gradients."""
    return [("parameters", case.parameters), ("gradients", case.gradients)]


def describe(case: UpdateSpec) -> str:
    """Return the case as a reader writes it."""
    shapes = [f"{case.dtype}[{','.join(map(str, s))}]" for s in case.shapes]
    more = f" and {len(shapes) - 4} more" if len(shapes) > 4 else ""
    hyper = ", ".join(f"{name}={value!r}" for name, value in case.hyper)
    groups = "".join(f", {dict(pairs)} for {list(members)}" for members, pairs in case.groups)
    events = "".join(
        f", {event.kind}{event.name and f' of {event.name}'} before step {event.step}"
        for event in case.events
    )
    handing = f", gradients {case.handing}" if case.handing != HANDINGS[0] else ""
    beside = ", beside other handles" if case.company != COMPANY[0] else ""
    return (
        f"{case.optimizer}({hyper}{groups}) on {', '.join(shapes[:4])}{more}, "
        f"{case.steps} steps{events}{handing}{beside}"
    )
