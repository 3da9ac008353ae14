"""Wishes: some levels that a case of a row is to meet, and how the others are chosen.

A design meets pairs of the levels that a family names. A rule that holds for every row wishes for
more: for three levels at once, or for extents that no family names. A wish names some levels; the
others are the plainest ones with which the page accepts the call and the call shows something.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from equivalence.cases.covering import Levels
from equivalence.cases.domains import regimes
from equivalence.cases.families.family import Call, Family
from equivalence.cases.families.meeting import SEEDS, SIGHT, column, enough_is_judged
from equivalence.cases.families.signatures import Shape, Signature, results
from equivalence.cases.families.table import family_of
from equivalence.cases.guard import is_own
from spec.op import Op

GENERIC = ("factors", "normal", "nonzero", "positive", "past_minus_one", "truths", "indices")
"""The regimes of numbers that are nothing special, of which every input has one."""

SEEN = tuple(rule for rule in SIGHT if rule is not enough_is_judged)
"""What a call needs to show anything; few elements show it, too, though they do not count."""

EXTENTS = ("rows", "inner", "groups", "size", "columns", "classes")
"""The factors that are extents, of a family whose calls have no long axis among others."""


@dataclass(frozen=True)
class Wish:
    """Levels that a case is to meet.

    turn is the seed of its tensors, from which regimes take turns. everywhere says that every dtype
    has the case; else the dtypes of a backend share the cases of a rule out.
    """

    levels: Mapping[str, Any]
    turn: int = 0
    everywhere: bool = False


@dataclass(frozen=True)
class Wishing:
    """An op in a direction, whose calls are wished for."""

    op: Op
    direction: str
    known: dict[tuple[Any, ...], Levels | None] = field(default_factory=dict, compare=False)

    @cached_property
    def family(self) -> Family:
        """The family of the op."""
        return family_of(self.op)

    @cached_property
    def structure(self) -> Mapping[str, Any]:
        """The levels of what makes a call."""
        return self.family.factors(self.op)

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """The factors of the regimes of real tensors: inputs, then the cotangent or tangent."""
        inputs = range(2 if self.op.variadic else len(self.op.inputs))
        real = [f"regime_{k}" for k in inputs if k not in self.op.index_inputs]
        return (*real, *(["seed_regime"] if self.direction in SEEDS else []))

    @property
    def has_long_axis(self) -> bool:
        """Whether calls have a rank and a long axis, rather than extents by name."""
        return "rank" in self.structure and "extent" in self.structure

    @property
    def extents(self) -> list[str]:
        """The factors that are extents by name."""
        return [name for name in EXTENTS if name in self.structure]

    def row(self, wish: Mapping[str, Any]) -> Levels | None:
        """Return all levels of a case that meets a wish, None where no call does."""
        key = tuple(sorted(wish.items(), key=lambda pair: pair[0]))
        if key not in self.known:
            self.known[key] = self._row(wish)
        return self.known[key]

    def call(self, levels: Levels) -> Call | None:
        """Return the call of some levels, None where the page refuses it."""
        signature = self.family.call(self.op, self.direction, levels)
        made = results(self.op, signature)
        if made is None:
            return None
        return Call(self.op, self.direction, *signature, made, levels)

    def signature(self, levels: Levels) -> Signature:
        """Return the shapes and attributes of a row."""
        return self.family.call(self.op, self.direction, levels)

    def shape_of(self, levels: Levels, tensor: str) -> Shape:
        """Return the shape of a tensor, which is told by the factor of its regime.

        It is () where a call of fewer inputs has no such tensor.
        """
        shapes, _ = signature = self.signature(levels)
        if tensor == "seed_regime" and self.direction == "vjp":
            return (results(self.op, signature) or ((),))[0]
        k = 0 if tensor == "seed_regime" else int(tensor.rpartition("_")[2])
        return shapes[k] if k < len(shapes) else ()

    def _row(self, wish: Mapping[str, Any]) -> Levels | None:
        first: Levels | None = None
        for levels in self._structures(wish):
            call = self.call(levels)
            if call is None:
                continue
            full = self._with_recipes(call, wish)
            if all(rule(call._replace(levels=full)) for rule in (*SEEN, *self.family.shows)):
                return full
            first = full if first is None else first
        return first

    def _structures(self, wish: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield what makes a call: the plainest levels, then those with one that is not."""
        plain = {name: levels[0] for name, levels in self.structure.items()} | {
            name: level for name, level in wish.items() if not _is_recipe(name)
        }
        yield plain
        for name, levels in self.structure.items():
            if name not in wish:
                yield from ({**plain, name: level} for level in levels[1:])

    def _with_recipes(self, call: Call, wish: Mapping[str, Any]) -> dict[str, Any]:
        """Add what is usual of every tensor; of a layout that is not its own, the plainest."""
        inputs = 2 if self.op.variadic else len(self.op.inputs)
        suited = regimes(self.op, inputs, call.attributes)
        levels = {**call.levels, "calling": wish.get("calling", "alone")}
        shapes: dict[str, Shape] = {}
        for k, shape in enumerate(call.shapes):
            shapes.setdefault(f"layout_{column(self.op, k)}", shape)
        for k in range(inputs):
            usual = next((one for one in GENERIC if one in suited[k]), suited[k][0])
            levels[f"regime_{k}"] = wish.get(f"regime_{k}", usual)
            levels[f"layout_{k}"] = _own(shapes.get(f"layout_{k}", ()), wish, f"layout_{k}")
        if self.direction in SEEDS:
            shape = (call.results if self.direction == "vjp" else (*call.shapes, ()))[0]
            levels["seed_regime"] = wish.get("seed_regime", "normal")
            levels["seed_layout"] = _own(shape, wish, "seed_layout")
        return levels


def _is_recipe(name: str) -> bool:
    return name == "calling" or "regime" in name or "layout" in name


def _own(shape: Shape, wish: Mapping[str, Any], name: str) -> str:
    layout: str = wish.get(name, "contiguous")
    return layout if is_own(shape, layout) else "contiguous"
