"""Cases: a few words that denote one call of one operation, and the tensors they stand for.

A `CaseSpec` is compact: shapes, attributes, and for every tensor a recipe (value regime, seed,
layout).  It is what strategies draw, what a failure prints, what JSON carries and what shrinking
makes smaller; `equivalence.cases.built` turns it into guarded tensors, always the same ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from equivalence import registry
from equivalence.cases.fills.indices import INDEX_REGIMES, MASK_REGIMES
from equivalence.cases.fills.regimes import REGIMES
from equivalence.cases.fills.turns import BY_TURNS
from equivalence.cases.guard import EVERY_LAYOUT
from equivalence.dtypes import DTYPES
from equivalence.registry import OPS
from spec.op import Integers, Op, Type

Shape = tuple[int, ...]

TORCH: dict[str, torch.dtype] = {name: getattr(torch, d.torch) for name, d in DTYPES.items()}
"""The torch dtypes of tensors by name."""

RESULTS = {**TORCH, "int64": torch.int64}
"""Those of results, which may be positions."""

DIRECTIONS = ("value", "vjp", "jvp")

ENOUGH = 8
"""A case counts towards its row only with this many judged elements."""

EVERY_REGIME = (*REGIMES, *BY_TURNS, *INDEX_REGIMES, *MASK_REGIMES)
"""Those of real numbers, of indices and of masks, the plainest of each first."""


WORDS = ("seed", "counter")
"""Attributes of random ops that are words of 64 bits."""

CALLING_PATTERNS = ("alone", "again", "repeated", "late", "shared", "overlapping")
"""In what circumstances a call is made, plainest first; a right backend notices none of them.

* again: the same call was made just before.
* repeated: the same tensors held other numbers in a call just before.
* late: results are judged after another call of the same form, and after its inputs are gone.
* shared: real tensors of one shape, cotangent and tangents included, are one and the same tensor.
* overlapping: real tensors are different views of one allocation, each an element further on.
"""

OTHERWISE = "otherwise"
"""Just before, calls of the same op came with the same shapes and other attributes, dtypes and
strides; what a cache keeps under too short a name is taken for this call's."""

EVERY_CALLING = (*CALLING_PATTERNS, OTHERWISE)


def counts(judged: int) -> bool:
    """Say whether a case with so many judged elements counts towards its row."""
    return judged >= ENOUGH


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one tensor is filled and laid out."""

    regime: str = "integers"
    seed: int = 0
    layout: str = "contiguous"


@dataclass(frozen=True, slots=True)
class CaseSpec:
    """One call of one operation, described in a few words."""

    op: str
    direction: str
    dtype: str
    shapes: tuple[Shape, ...]
    recipes: tuple[Recipe, ...]
    attrs: tuple[tuple[str, Any], ...] = ()
    cotangent: Recipe | None = None
    tangent: Recipe | None = None
    calling: str = "alone"

    def seeds(self) -> list[tuple[str, Recipe]]:
        """Name the recipe of the cotangent, or that of every tangent, if the case has one."""
        named = (("cotangent", self.cotangent), ("tangent", self.tangent))
        return [(name, recipe) for name, recipe in named if recipe is not None]

    def attributes(self) -> dict[str, Any]:
        """Return the attributes as keyword arguments."""
        return dict(self.attrs)

    def types(self) -> tuple[Type, ...]:
        """Return the inputs' types, as the page's type rule takes them."""
        return OPS[self.op].types_at(*self.shapes)

    def output_shape(self) -> Shape:
        """Return the result's shape; Rejected where the case breaks a constraint.

        It is that of the one result of the record, in which several are joined.
        """
        return tuple(OPS[self.op].type_rule(*self.types(), **self.attributes()).shape)

    def results(self) -> Mapping[str, Type]:
        """Return the types of all results by name; a lone one is called ``result``."""
        return OPS[self.op].types_of_results(*self.types(), **self.attributes())

    def cotangents(self) -> list[tuple[str, Shape]]:
        """Return the position and the shape of each result's cotangent."""
        lone = OPS[self.op].results is None
        return [
            ("cotangent" if lone else f"cotangent of {name}", tuple(each.shape))
            for name, each in self.results().items()
        ]

    def to_json(self) -> str:
        """Return the case as one line of JSON."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    def to_dict(self) -> dict[str, Any]:
        """Return the case as plain data."""
        plain: dict[str, Any] = {
            "op": self.op,
            **registry.where(self.op),
            "direction": self.direction,
            "dtype": self.dtype,
            "shapes": [list(shape) for shape in self.shapes],
            "recipes": [_plain_recipe(recipe) for recipe in self.recipes],
        }
        if self.attrs:
            plain["attrs"] = {name: _listed(value) for name, value in self.attrs}
        plain.update({name: _plain_recipe(recipe) for name, recipe in self.seeds()})
        if self.calling != "alone":
            plain["calling"] = self.calling
        return plain


def attribute_pairs(attrs: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return attributes in the hashable form that a case holds."""
    return tuple((name, _tupled(attrs[name])) for name in sorted(attrs))


def case_from_dict(plain: Mapping[str, Any]) -> CaseSpec:
    """Read a case back from plain data; ValueError says what is wrong with it."""
    missing = [key for key in ("op", "direction", "dtype", "shapes", "recipes") if key not in plain]
    if missing:
        raise ValueError(f"a case needs {', '.join(missing)}; got the keys {sorted(plain)}")
    seeds = {key: plain.get(key) for key in ("cotangent", "tangent")}
    registry.found(plain)
    case = CaseSpec(
        op=plain["op"],
        direction=plain["direction"],
        dtype=plain["dtype"],
        shapes=tuple(tuple(int(n) for n in shape) for shape in plain["shapes"]),
        recipes=tuple(read_recipe(item) for item in plain["recipes"]),
        attrs=attribute_pairs(plain.get("attrs", {})),
        **{key: None if item is None else read_recipe(item) for key, item in seeds.items()},
        # Cases of schema 1 say "manner".
        calling=plain.get("calling", plain.get("manner", "alone")),
    )
    _check(case)
    return case


def _check(case: CaseSpec) -> None:
    """Refuse a description that names what does not exist."""
    for kind, name, known in (
        ("op", case.op, OPS),
        ("direction", case.direction, DIRECTIONS),
        ("dtype", case.dtype, DTYPES),
        ("calling", case.calling, EVERY_CALLING),
    ):
        if name not in known:
            raise ValueError(f"unknown {kind} {name!r}; known: {', '.join(known)}")
    if len(case.shapes) != len(case.recipes):
        raise ValueError(
            f"a case needs one recipe per input; got {len(case.recipes)} for {len(case.shapes)}"
        )
    given = (case.cotangent is not None, case.tangent is not None)
    if given != (case.direction == "vjp", case.direction == "jvp"):
        raise ValueError("a vjp case has a cotangent, a jvp case has a tangent, a value neither")


def _plain_recipe(recipe: Recipe) -> list[Any]:
    return [recipe.regime, recipe.seed, recipe.layout]


def read_recipe(item: Sequence[Any]) -> Recipe:
    """Read a recipe back from plain data."""
    regime, seed, layout = item
    if regime not in EVERY_REGIME:
        raise ValueError(f"unknown regime {regime!r}; known: {', '.join(EVERY_REGIME)}")
    if layout not in EVERY_LAYOUT:
        raise ValueError(f"unknown layout {layout!r}; known: {', '.join(EVERY_LAYOUT)}")
    return Recipe(regime, int(seed), layout)


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value


def _tupled(value: Any) -> Any:
    return tuple(_tupled(item) for item in value) if isinstance(value, list | tuple) else value


def size_key(case: CaseSpec) -> tuple[int, ...]:
    """Order cases: fewer axes, then fewer elements, then plainer numbers, layouts, attributes."""
    recipes = (*case.recipes, *(recipe for _, recipe in case.seeds()))
    words = (value for name, value in case.attrs if name in WORDS)
    shapes = (*case.shapes, case.attributes().get("shape", ()))
    return (
        sum(len(shape) for shape in shapes),
        sum(math.prod(shape) for shape in shapes),
        sum(EVERY_REGIME.index(recipe.regime) for recipe in recipes),
        sum(EVERY_LAYOUT.index(recipe.layout) for recipe in recipes),
        EVERY_CALLING.index(case.calling),
        len(case.attrs),
        sum(recipe.seed for recipe in recipes),
        sum(words),
    )


def describe(case: CaseSpec) -> str:
    """Return the case as a reader writes it: ``matmul(fp32[2,3], fp32[3,4])``."""
    inputs = [str(type_).replace("real", case.dtype) for type_ in case.types()]
    attrs = [f"{name}={value!r}" for name, value in case.attrs]
    calling = "" if case.calling == "alone" else f", {case.calling}"
    return f"{case.op}({', '.join((*inputs, *attrs))}) {case.direction}{calling}"


def dtype_at(op: str, k: int, dtype: str) -> torch.dtype:
    """Return the dtype in which a backend receives an input."""
    if k in OPS[op].mask_inputs:
        return torch.bool
    return torch.int64 if k in OPS[op].index_inputs else TORCH[dtype]


def dtype_of_value(op: str, attrs: Mapping[str, Any], dtype: str) -> torch.dtype:
    """Return the dtype of an op's value, and of its tangents and cotangents."""
    if OPS[op].kind == "positions":
        return RESULTS["int64"]
    return TORCH[attrs["to"] if OPS[op].converts else dtype]


def dtype_of_result(case: CaseSpec) -> torch.dtype:
    """Return the dtype in which a backend hands results over: gradients in that of the inputs."""
    if case.direction == "vjp":
        return TORCH[case.dtype]
    return dtype_of_value(case.op, case.attributes(), case.dtype)


def handed(op: str, attrs: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """Return attributes as a backend receives them: an op that makes numbers is told its dtype."""
    place = {"dtype": TORCH[dtype]} if OPS[op].kind == "source" else {}
    return {**attrs, **place}


def integers_of(case: CaseSpec, k: int) -> Integers:
    """Return what an index input of a case may hold, which its page says."""
    return OPS[case.op].integers(k, *case.types(), **case.attributes())


def integers_at(op: Op, k: int, shapes: Sequence[Shape], attrs: Mapping[str, Any]) -> Integers:
    """Return what an index input of a call may hold."""
    return op.integers(k, *op.types_at(*shapes), **attrs)
