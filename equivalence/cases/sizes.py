"""Large cases: the call of one size, and the numbers that it bears.

How the calls of a family grow, and how far, its own file says (`equivalence.cases.families`); for
an interpreted backend the size is read from its launches (`equivalence.measure.grids`).

Regimes of numbers take turns. *Reals* are judged by bounds; sums of many terms leave little of
them, so they stay out of the longest reductions. *Integers* are judged to the bit: every partial
sum, in any order, is a number of the format, so that a missing term, a term taken twice or a factor
rounded to a narrower format shows in full. *Offset* integers lie close around a large number, above
and below it alike. They are for what subtracts a mean: their sums are exact in any order, so that
only what is no plain sum errs, and a square that was taken before the mean was subtracted shows.
*Every* argument, of what takes one number at a time, is all numbers of a format of 16 bits, and as
many of each binade of a wider one, as far as a step does not overflow where the result does not:
a curve that is right at drawn arguments may be wrong where its pieces meet.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from equivalence.cases.built import Built, dtype_at_position
from equivalence.cases.call import (
    TORCH,
    CaseSpec,
    Recipe,
    Shape,
    attribute_pairs,
    case_from_dict,
    dtype_at,
    integers_of,
)
from equivalence.cases.domains import domain
from equivalence.cases.families.growing import SIZED_REGIMES, Growth
from equivalence.cases.families.table import family_of
from equivalence.cases.fills.regimes import EVERY
from equivalence.cases.guard import Guarded, core_shape, guard
from equivalence.cases.updates.spec import UpdateSpec, update_from_dict
from equivalence.dtypes import DTYPES
from equivalence.registry import OPS


@dataclass(frozen=True, slots=True)
class SizedCase:
    """One large call: a case whose numbers are of a regime of this file."""

    case: CaseSpec
    regime: str

    def to_json(self) -> str:
        """Return the case as one line of JSON."""
        return json.dumps({**self.case.to_dict(), "sized": self.regime}, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class SizedUpdate:
    """Steps on many elements: a case whose numbers are drawn for large tensors, standard normal."""

    case: UpdateSpec

    def to_json(self) -> str:
        """Return the case as one line of JSON."""
        plain = {**json.loads(self.case.to_json()), "sized": "reals"}
        return json.dumps(plain, separators=(",", ":"))


def sized_from_dict(plain: Mapping[str, Any]) -> SizedCase | SizedUpdate:
    """Read a case back from plain data; ValueError says what is wrong with it."""
    if plain["sized"] not in SIZED_REGIMES:
        raise ValueError(f"unknown regime {plain['sized']!r}; known: {', '.join(SIZED_REGIMES)}")
    if "optimizer" in plain:
        return SizedUpdate(update_from_dict(plain))
    return SizedCase(case_from_dict(plain), plain["sized"])


def growths(op: str) -> tuple[Growth, ...]:
    """Return how calls of an op grow: as those of its family."""
    page = OPS[op]
    return family_of(page).growths(page)


def sized(growth: Growth, n: int, op: str, direction: str, dtype: str, regime: str) -> SizedCase:
    """Return the case of one size."""
    shapes, attributes = growth.call(OPS[op], n)
    layouts = ("contiguous",) if regime == "integers" else ("padded", "transposed", "contiguous")
    recipes = tuple(Recipe("integers", n, layouts[k % len(layouts)]) for k in range(len(shapes)))
    seed = Recipe("integers", n)
    case = CaseSpec(
        op,
        direction,
        dtype,
        shapes,
        recipes,
        attribute_pairs(attributes),
        cotangent=seed if direction == "vjp" else None,
        tangent=seed if direction == "jvp" else None,
    )
    return SizedCase(case, regime)


MOST_ADDED = 2**12
"""About how many entries along a longer axis are not zero, of what meets large factors."""


MOST_CARRIED = 2**6
"""About how many are not zero of what is added up with products of factors."""

MOST_UNEVEN = 6
"""About how many entries along a longer axis are no signs, of factors."""


class Numbers:
    """The numbers of one large case."""

    def __init__(self, sized: SizedCase) -> None:
        """Remember the case."""
        self.case, self.regime = sized.case, sized.regime
        self.op = OPS[sized.case.op]
        self.bearing = family_of(self.op).bearing
        store = DTYPES[sized.case.dtype].store
        self.precision, self.most_exponent = store.precision, store.max_exponent
        self.dtype = TORCH[sized.case.dtype]
        # A step may form a fourth power, and multiply by a small number.
        far = DTYPES[sized.case.dtype].compute.max_exponent // 4
        self.most = min(store.max_finite / 16, 2.0**far)

    def _source(self, position: str) -> np.random.Generator:
        words = f"{self.case.op} {self.case.shapes} {self.regime} {position}"
        return np.random.default_rng(zlib.crc32(words.encode()))

    def of_input(self, k: int, shape: Shape) -> Any:
        """Return the numbers of an input."""
        source = self._source(f"input {k}")
        if k in self.op.mask_inputs:
            return source.random(shape) < 0.5
        if k in self.op.index_inputs:
            return self._indices(source, k, shape)
        where = domain(self.op, k, self.case.attributes())
        if self.regime == "integers" or (self.regime == "offset" and k > 0):
            return self._integers(source, shape, k, where)
        if self.regime == "offset":
            half = source.integers(-7, 8, (*shape[:-1], shape[-1] // 2))
            rest = np.zeros((*shape[:-1], shape[-1] % 2))
            return 2.0 ** (min(self.precision, 13) - 1) + np.concatenate([half, -half, rest], -1)
        if self.regime == EVERY:
            return self._every(source, shape, where)
        found = self._spread(source, shape, where, self.bearing.spread(self.op, k))
        return -np.abs(found) if k == 0 and self.bearing.below(self.op) else found

    def _integers(self, source: np.random.Generator, shape: Shape, k: int, where: str) -> Any:
        if where == "factors":
            return self._units(source, shape)
        found = self._whole(source, shape, self._most(k))
        if where == "positive":
            found = np.abs(found)
        if side := self.bearing.side(self.op):
            return side * np.abs(found)
        return self._thinned(source, found) if k > 0 else found

    def of_direction(self, position: str, shape: Shape) -> Any:
        """Return the numbers of a cotangent or a tangent.

        Where they are added along a long axis, as gradients of what all rows share, most of them
        are exact zeros: that leaves the others their bounds, and the integers' sums exact.
        """
        source = self._source(position)
        if self.regime == "integers":
            found = self._whole(source, shape, 1 if self.bearing.added else 3)
        else:
            # A lone cotangent may be divided by many terms, and must not vanish by that.
            found = source.standard_normal(shape) + (0.0 if shape else 2.0**10)
        return self._thinned(source, np.asarray(found))

    def _thinned(self, source: np.random.Generator, found: Any) -> Any:
        longest = max(found.shape, default=0)
        carried = self.bearing.carried(self.op)
        most = MOST_CARRIED if carried else MOST_ADDED
        if (self.bearing.shared or carried) and longest > most:
            found[source.random(found.shape) > most / longest] = 0.0
        return found

    def _most(self, k: int) -> int:
        """Return the largest magnitude of an input's integers, so that all sums are exact.

        Where nothing is added they are odd and as wide as the format.
        """
        most = self.bearing.most(self.op, k, self.most_exponent)
        return self._wide() if most is None else most

    def _wide(self) -> int:
        # Beyond what any narrower format holds; fp64 is told from fp32 by 26 bits. A product of
        # two, and a sum of products with -1, 0 and 1, stay in the range of the format.
        if self.precision > 24 and self.bearing.added:
            return (1 << 26) - 1
        room = self.most_exponent - 6 if self.bearing.added else self.most_exponent // 2
        return (1 << min(self.precision, 12, room)) - 1

    def _whole(self, source: np.random.Generator, shape: Shape, most: int) -> Any:
        if most == self._wide() and most > 3:
            odd = 2 * source.integers(most // 4, most // 2 + 1, shape) + 1
            return (odd * source.choice((-1, 1), shape)).astype(np.float64)
        return source.integers(-most, most + 1, shape).astype(np.float64)

    def _units(self, source: np.random.Generator, shape: Shape) -> Any:
        """Draw signs, among which a few numbers are 2, 1/2 or 3: all products are exact."""
        found = source.choice((-1.0, 1.0), shape)
        few = source.random(shape) < MOST_UNEVEN / max(shape, default=1)
        return np.where(few, found * source.choice((2.0, 0.5, 2.0, 0.5, 3.0), shape), found)

    def _spread(self, source: np.random.Generator, shape: Shape, where: str, factor: float) -> Any:
        """Draw reals within a domain; a factor spreads those that may lie anywhere."""
        normal = source.standard_normal(shape)
        if where == "positive":
            return np.abs(normal) + 0.125
        if where == "past_minus_one":
            return np.abs(normal) - 0.875
        if where == "nonzero":
            return normal + np.copysign(0.125, normal)
        return factor * normal

    def _every(self, source: np.random.Generator, shape: Shape, where: str) -> Any:
        """Go through all patterns of bits, or through as many of each leading one, and repeat."""
        bits = 8 * self.dtype.itemsize
        free = max(0, bits - (math.prod(shape) - 1).bit_length())
        patterns = np.arange(1 << (bits - free), dtype=np.uint64) << np.uint64(free)
        if free:
            patterns += source.integers(0, 1 << free, patterns.shape, dtype=np.uint64)
        words = torch.from_numpy(patterns.astype(f"u{self.dtype.itemsize}").view(f"i{bits // 8}"))
        numbers = words.view(self.dtype).double().numpy()
        least = {"positive": 0.0, "past_minus_one": -1.0}.get(where, -np.inf)
        kept = (np.abs(numbers) <= self.most) & (numbers > least)
        if where == "nonzero":
            kept &= numbers != 0
        return np.resize(numbers[kept], shape)

    def _indices(self, source: np.random.Generator, k: int, shape: Shape) -> Any:
        """Draw every integer about as often; where the loss is a mean, no row is ignored."""
        allowed = integers_of(self.case, k)
        found = source.integers(allowed.lowest, allowed.highest + 1, shape)
        given = {**self.op.attributes, **self.case.attributes()}
        if allowed.also and given.get("reduction", "none") == "none":
            found[source.random(shape) < 1 / 8] = allowed.also[0]
        return found


def build_sized(sized: SizedCase, device: str = "cpu") -> Built:
    """Construct the tensors that a large case denotes."""
    case, numbers = sized.case, Numbers(sized)
    integer = OPS[case.op].index_inputs

    def placed(values: Any, shape: Shape, recipe: Recipe, dtype: torch.dtype) -> Guarded:
        assert core_shape(shape, recipe.layout) == shape
        return guard(
            torch.from_numpy(np.ascontiguousarray(values)), shape, dtype, recipe.layout, device
        )

    inputs = tuple(
        placed(numbers.of_input(k, shape), shape, recipe, dtype_at(case.op, k, case.dtype))
        for k, (shape, recipe) in enumerate(zip(case.shapes, case.recipes, strict=True))
    )
    own = TORCH[case.dtype]
    if case.cotangent is not None:
        seeds = tuple(
            placed(
                numbers.of_direction(position, shape),
                shape,
                case.cotangent,
                dtype_at_position(case, position),
            )
            for position, shape in case.cotangents()
        )
        return Built(case, inputs, seeds)
    if case.tangent is None:
        return Built(case, inputs)
    tangents = tuple(
        None
        if k in integer
        else placed(numbers.of_direction(f"tangent {k}", shape), shape, case.tangent, own)
        for k, shape in enumerate(case.shapes)
    )
    return Built(case, inputs, (), tangents)


def elements(case: CaseSpec) -> int:
    """Count the entries of the largest tensor of a case."""
    shapes = (*case.shapes, case.output_shape())
    most: int = max(math.prod(shape) for shape in shapes)
    return most
