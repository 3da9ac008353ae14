"""Large cases: by the family of an op, what grows, and how far.

Kernels fail where a block ends and beyond: in the second block of a grid, in the second step of a
loop, past 65,535 programs, past the columns that fit into registers. So each family names the axes
along which its calls grow. `full` sizes are those of real models; `near` ones lie just beyond
what the fixed strata reach; for an interpreted backend the size is read from its launches
(`equivalence.measure.grids`).

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

# This file is longer than the guide because what grows, by family, stands in one table.

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from equivalence.cases.built import Built, dtype_at_position
from equivalence.cases.call import (
    IGNORE_INDEX,
    TORCH,
    CaseSpec,
    Recipe,
    Shape,
    attribute_pairs,
    case_from_dict,
    dtype_at,
    index_range,
)
from equivalence.cases.domains import domain, usual
from equivalence.cases.families.family import Signature
from equivalence.cases.families.table import family_of
from equivalence.cases.fills import EVERY
from equivalence.cases.guard import Guarded, core_shape, guard
from equivalence.dtypes import DTYPES
from equivalence.registry import OPS
from spec.op import Op

REGIMES = ("integers", "reals", "offset", EVERY)

ROWS = 65_601
"""More rows than a grid's second axis has programs, and no multiple of a tile."""

MOST_AMPLE = 2**20 + 2**16
"""How many elements the inputs of a large case have at most where time is short."""


@dataclass(frozen=True)
class Growth:
    """One way to grow: the call of a size, and the sizes that are full and near.

    regimes says which numbers suit it: no reals where a sum of them would leave no bound.
    """

    what: str
    call: Callable[[Op, int], Signature]
    full: int
    near: int
    regimes: tuple[str, ...] = ("integers", "reals")

    def ample(self, op: Op) -> int:
        """Return the largest size, up to more rows than a grid may have, that costs little.

        A longer inner extent costs more than its elements tell.
        """
        size = min(self.full, ROWS)
        elements = sum(math.prod(shape) for shape in self.call(op, size)[0])
        return size if elements <= MOST_AMPLE and self.what != "inner" else self.near


@dataclass(frozen=True, slots=True)
class SizedCase:
    """One large call: a case whose numbers are of a regime of this file."""

    case: CaseSpec
    regime: str

    def to_json(self) -> str:
        """Return the case as one line of JSON."""
        return json.dumps({**self.case.to_dict(), "sized": self.regime}, separators=(",", ":"))


def sized_from_dict(plain: Mapping[str, Any]) -> SizedCase:
    """Read a case back from plain data; ValueError says what is wrong with it."""
    if plain["sized"] not in REGIMES:
        raise ValueError(f"unknown regime {plain['sized']!r}; known: {', '.join(REGIMES)}")
    return SizedCase(case_from_dict(plain), plain["sized"])


def _alike(shape: Callable[[int], Shape]) -> Callable[[Op, int], Signature]:
    def call(op: Op, n: int) -> Signature:
        attributes = {
            "seed": 7,
            "counter": 2**32 + 1,
            "shape": shape(n),
            "p": 0.5,
            "keep_prob": 0.5,
        }
        own = {name: value for name, value in attributes.items() if name in op.attributes}
        return (shape(n),) * len(op.inputs), {**own, **usual(op)}

    return call


def _fixed(
    shapes: Callable[[int], tuple[Shape, ...]], **attributes: Any
) -> Callable[..., Signature]:
    """Return calls whose attributes do not grow; those that the op has not are left out."""

    def call(op: Op, n: int) -> Signature:
        return shapes(n), {k: v for k, v in attributes.items() if k in op.attributes}

    return call


def _grown(
    shapes: Callable[[int], tuple[Shape, ...]], attributes: Callable[[int], dict[str, Any]]
) -> Callable[..., Signature]:
    return lambda op, n: (shapes(n), attributes(n))


def _normed(shape: Callable[[int], Shape]) -> Callable[[Op, int], Signature]:
    return lambda op, n: ((shape(n), *((shape(n)[-1],) for _ in op.inputs[1:])), {})


def _in_rows(shape: Callable[[int], Shape], axis: int) -> Callable[[Op, int], Signature]:
    return lambda op, n: ((shape(n),) * (1 + len(op.mask_inputs)), {"axis": axis})


WHOLE, SPREAD = ("integers",), ("reals",)

GROWTHS: Mapping[str, tuple[Growth, ...]] = {
    "elementwise": (
        Growth("elements", _alike(lambda n: (n,)), 2**22, 24_601),
        Growth("rows", _alike(lambda n: (n, 9)), ROWS, 2_731),
    ),
    "random": (Growth("elements", _alike(lambda n: (n,)), 2**20 + 1, 24_601),),
    "reductions": (
        Growth("columns", _fixed(lambda n: ((8, n),), axes=(1,)), 2**17, 2**13, WHOLE),
        Growth("rows", _fixed(lambda n: ((n, 16),), axes=(1,)), ROWS, 2_731),
        Growth("outer", _fixed(lambda n: ((n, 8),), axes=(0,)), 2**17, 2**12, WHOLE),
        Growth("inner", _fixed(lambda n: ((8, n),), axes=(0,)), 2**17, 2**12 + 5, WHOLE),
        Growth("elements", _fixed(lambda n: ((n,),), axes=None), 2**22, 2**15, WHOLE),
    ),
    "positions": (
        Growth("columns", _fixed(lambda n: ((8, n),), axis=1), 2**17, 2**13),
        Growth("rows", _fixed(lambda n: ((n, 16),), axis=1), ROWS, 2_731),
        Growth("outer", _fixed(lambda n: ((n, 8),), axis=0), 2**17, 2**12),
        Growth("elements", _fixed(lambda n: ((n, 4),), axis=None), 2**20, 2**13),
    ),
    "broadcasts": (
        Growth("columns", _grown(lambda n: ((n,),), lambda n: {"shape": (8, n)}), 2**17, 8_201),
        Growth("rows", _grown(lambda n: ((n, 1),), lambda n: {"shape": (n, 16)}), ROWS, 2_731),
        Growth(
            "outer", _grown(lambda n: ((16,),), lambda n: {"shape": (n, 16)}), ROWS, 2_731, WHOLE
        ),
    ),
    "reshapes": (
        Growth("rows", _grown(lambda n: ((n, 16),), lambda n: {"shape": (16, n)}), ROWS, 2_731),
        Growth(
            "elements", _grown(lambda n: ((4 * n,),), lambda n: {"shape": (n, 4)}), 2**20, 8_201
        ),
    ),
    "flattenings": (
        Growth("rows", _fixed(lambda n: ((n, 16),), start=0), ROWS, 2_731),
        Growth("columns", _fixed(lambda n: ((2, 4, n),), start=1), 2**16, 4_101),
    ),
    "flips": (
        Growth("rows", _fixed(lambda n: ((n, 16),), axes=(0,)), ROWS, 2_731),
        Growth("columns", _fixed(lambda n: ((8, n),), axes=(1,)), 2**17, 8_201),
        Growth("elements", _fixed(lambda n: ((n,),), axes=None), 2**20, 24_601),
    ),
    "paddings": (
        Growth("rows", _fixed(lambda n: ((n, 16),), before=(1, 0), after=(2, 1)), ROWS, 2_731),
        Growth("columns", _fixed(lambda n: ((8, n),), before=(0, 3), after=(0, 2)), 2**17, 8_201),
    ),
    "permutations": (
        Growth("rows", _grown(lambda n: ((n, 16),), lambda n: {"axes": (1, 0)}), ROWS, 2_731),
        Growth(
            "middle", _grown(lambda n: ((33, n, 31),), lambda n: {"axes": (2, 0, 1)}), 1_025, 33
        ),
    ),
    "slices": (
        Growth(
            "rows",
            _grown(lambda n: ((n, 16),), lambda n: {"axis": 0, "start": 1, "length": n - 2}),
            ROWS,
            2_731,
        ),
        Growth(
            "columns",
            _grown(lambda n: ((8, n),), lambda n: {"axis": 1, "start": 3, "length": n - 5}),
            2**17,
            8_201,
        ),
    ),
    "concatenations": (
        Growth("rows", _fixed(lambda n: ((n, 8), (3, 8), (n + 7, 8)), axis=0), ROWS, 2_731),
        Growth("columns", _fixed(lambda n: ((8, n + 1), (8, n - 1)), axis=1), 2**16, 4_101),
    ),
    "stacks": (
        Growth("rows", _fixed(lambda n: ((n, 8),) * 3, axis=1), ROWS, 2_731),
        Growth("columns", _fixed(lambda n: ((4, n),) * 2, axis=2), 2**16, 4_101),
    ),
    "triangles": (
        Growth("rows", _grown(lambda n: ((n, 16),), lambda n: {"diagonal": -n // 2}), ROWS, 2_731),
        Growth(
            "columns", _grown(lambda n: ((8, n),), lambda n: {"diagonal": n // 2}), 2**17, 8_201
        ),
    ),
    "picks": (
        Growth("rows", _fixed(lambda n: ((n, 16), (n // 16, 16)), axis=0), ROWS, 2_731),
        Growth("columns", _fixed(lambda n: ((8, n), (8, n // 16)), axis=1), 2**17, 4_101),
        Growth("indices", _fixed(lambda n: ((513, 16), (n, 16)), axis=0), 2**13 + 1, 1_025),
    ),
    "lookups": (
        Growth("rows", _fixed(lambda n: ((n // 16,), (n, 16))), ROWS, 2_731),
        Growth("columns", _fixed(lambda n: ((7,), (8, n))), 2**17, 4_101),
        Growth("indices", _fixed(lambda n: ((n,), (513, 16))), 2**13 + 1, 1_025),
    ),
    "classes": (
        Growth("rows", _fixed(lambda n: ((n,),), classes=9), ROWS, 2_731),
        Growth("columns", _grown(lambda n: ((8,),), lambda n: {"classes": n}), 2**17, 8_201),
    ),
    "gathers": (
        Growth("rows", _fixed(lambda n: ((n, 16), (n // 16,)), axis=0), ROWS, 2_731),
        Growth("columns", _fixed(lambda n: ((8, n), (n // 16,)), axis=1), 2**17, 4_101),
        Growth("indices", _fixed(lambda n: ((513, 16), (n,)), axis=0), 2**13 + 1, 1_025),
    ),
    "scatters": (
        Growth("rows", _fixed(lambda n: ((n, 16), (n // 16,), (n // 16, 16)), axis=0), ROWS, 2_731),
        Growth("columns", _fixed(lambda n: ((8, n), (999,), (8, 999)), axis=1), 2**17, 4_101),
        Growth("indices", _fixed(lambda n: ((513, 16), (n,), (n, 16)), axis=0), 2**13 + 1, 1_025),
    ),
    "products": (
        Growth("inner", _fixed(lambda n: ((64, n), (n, 65))), 2**13, 1_025, WHOLE),
        Growth("inner", _fixed(lambda n: ((33, n), (n, 35))), 513, 513, SPREAD),
        Growth("rows", _fixed(lambda n: ((n, 15), (15, 3))), ROWS, 2_731, WHOLE),
        Growth("outer", _fixed(lambda n: ((17, 33), (33, n))), ROWS, 1_025, SPREAD),
    ),
    "linear layers": (
        Growth("inner", _fixed(lambda n: ((64, n), (65, n), (65,))), 2**13, 1_025, WHOLE),
        Growth("inner", _fixed(lambda n: ((33, n), (35, n), (35,))), 513, 513, SPREAD),
        Growth("rows", _fixed(lambda n: ((n, 15), (3, 15), (3,))), ROWS, 2_731, WHOLE),
    ),
    "rows": (
        Growth("columns", _in_rows(lambda n: (8, n), 1), 2**17, 8_201),
        Growth("rows", _in_rows(lambda n: (n, 9), -1), ROWS, 2_731),
        Growth("outer", _in_rows(lambda n: (n, 65), 0), 4_099, 515),
    ),
    "cumsum": (
        *(
            Growth("columns", _fixed(lambda n: ((8, n),), axis=1, **way), 2**17, 2**13, WHOLE)
            for way in ({}, {"reverse": True}, {"exclusive": True})
        ),
        Growth("rows", _fixed(lambda n: ((n, 9),), axis=-1), ROWS, 2_731),
        Growth("outer", _fixed(lambda n: ((n, 65),), axis=0), 4_099, 515),
        Growth("elements", _fixed(lambda n: ((n,),), axis=0), 2**20, 2**15, WHOLE),
    ),
    "cumprod": (
        Growth("columns", _fixed(lambda n: ((8, n),), axis=1), 2**17, 2**13, WHOLE),
        Growth("rows", _fixed(lambda n: ((n, 9),), axis=-1), ROWS, 2_731),
        Growth("outer", _fixed(lambda n: ((n, 65),), axis=0), 4_099, 515, WHOLE),
        Growth("elements", _fixed(lambda n: ((n,),), axis=0), 2**20, 2**15, WHOLE),
    ),
    "logsumexp": (
        Growth("columns", _fixed(lambda n: ((8, n),), axes=(1,)), 2**17, 8_201, SPREAD),
        Growth("rows", _fixed(lambda n: ((n, 16),), axes=(1,)), ROWS, 2_731, SPREAD),
        Growth("outer", _fixed(lambda n: ((n, 8),), axes=(0,)), 2**14, 2**12, SPREAD),
        Growth("elements", _fixed(lambda n: ((n,),), axes=None), 2**20, 2**13, SPREAD),
    ),
    "norms": (
        Growth("columns", _normed(lambda n: (8, n)), 2**17, 8_201),
        Growth("rows", _normed(lambda n: (n, 9)), ROWS, 2_731),
        Growth("columns", _normed(lambda n: (259, n)), 515, 515),
        Growth("columns", _normed(lambda n: (33, n)), 2**10, 2**10, ("offset",)),
    ),
    "losses of distances": (
        Growth("elements", _fixed(lambda n: ((n,), (n,)), reduction="mean"), 2**20, 2**14, WHOLE),
        Growth("rows", _fixed(lambda n: ((n, 9), (n, 9)), reduction="none"), ROWS, 2_731),
        Growth("elements", _fixed(lambda n: ((n,), (n,)), reduction="sum"), 2**20, 2**14, WHOLE),
    ),
    "losses of triplets": (
        Growth("columns", _fixed(lambda n: ((8, n),) * 3, reduction="none"), 2**17, 8_201, SPREAD),
        Growth("rows", _fixed(lambda n: ((n, 9),) * 3, reduction="none"), ROWS, 2_731, SPREAD),
    ),
    "losses of labels": (
        Growth("rows", _fixed(lambda n: ((n, 9), (n,)), reduction="none"), ROWS, 2_731),
        Growth("columns", _fixed(lambda n: ((8, n), (8,)), reduction="none"), 2**17, 8_201),
        Growth(
            "rows",
            _fixed(lambda n: ((n, 65), (n,)), reduction="none", label_smoothing=0.25),
            4_099,
            515,
            SPREAD,
        ),
        Growth("rows", _fixed(lambda n: ((n, 5), (n,)), reduction="mean"), 2**17, 2**11, WHOLE),
    ),
}
"""By family, or by op, what grows. Where a mean is judged to the bit it has a power of two of
terms."""

ARGUMENTS = Growth("arguments", _alike(lambda n: (n,)), 2**20, 2**16, (EVERY,))
"""The arguments of a curve: all that 16 bits have, and 2^20 of a wider format."""


def growths(op: str) -> tuple[Growth, ...]:
    """Return how calls of an op grow: as those of its family, or as one tensor that grows."""
    family = family_of(OPS[op]).name
    ways = GROWTHS.get(op, GROWTHS.get(family, GROWTHS["elementwise"]))
    return (*ways, ARGUMENTS) if family == "elementwise" and len(OPS[op].inputs) == 1 else ways


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


SHARING = frozenset({"norms", "products", "linear layers", "broadcasts"})
"""The families whose gradients are sums over all rows, or all columns."""

SUMMING = SHARING - {"norms"} | {"gathers", "picks", "lookups"}
"""The families whose gradients are sums of cotangents, or of products with them."""
BEYOND_ZERO = {"max": -1, "min": 1}
"""The ops that take an extreme, and on which side of 0 their integers lie, so that a 0 with which a
block that is not full was filled would be the extreme."""

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
        self.family = family_of(self.op).name
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
            return self._indices(source, shape)
        where = domain(self.op, k, self.case.attributes())
        if self.regime == "integers" or (self.regime == "offset" and k > 0):
            return self._integers(source, shape, k, where)
        if self.regime == "offset":
            half = source.integers(-7, 8, (*shape[:-1], shape[-1] // 2))
            rest = np.zeros((*shape[:-1], shape[-1] % 2))
            return 2.0 ** (min(self.precision, 13) - 1) + np.concatenate([half, -half, rest], -1)
        if self.regime == EVERY:
            return self._every(source, shape, where)
        # The negatives of triplets lie nearer, so that no rounding decides whether one is lost.
        near = self.family == "losses of triplets" and k == 2
        return self._spread(source, shape, where) * (0.25 if near else 1.0)

    def _integers(self, source: np.random.Generator, shape: Shape, k: int, where: str) -> Any:
        if where == "factors":
            return self._units(source, shape)
        found = self._whole(source, shape, self._most(k))
        if where == "positive":
            found = np.abs(found)
        if self.op.name in BEYOND_ZERO:
            return BEYOND_ZERO[self.op.name] * np.abs(found)
        return self._thinned(source, found) if k > 0 else found

    def of_direction(self, position: str, shape: Shape) -> Any:
        """Return the numbers of a cotangent or a tangent.

        Where they are added along a long axis, as gradients of what all rows share, most of them
        are exact zeros: that leaves the others their bounds, and the integers' sums exact.
        """
        source = self._source(position)
        if self.regime == "integers":
            found = self._whole(source, shape, 1 if self._sums() else 3)
        else:
            # A lone cotangent may be divided by many terms, and must not vanish by that.
            found = source.standard_normal(shape) + (0.0 if shape else 2.0**10)
        return self._thinned(source, np.asarray(found))

    def _thinned(self, source: np.random.Generator, found: Any) -> Any:
        longest = max(found.shape, default=0)
        carried = self.family == "rows" and domain(self.op, 0) == "factors"
        most = MOST_CARRIED if carried else MOST_ADDED
        if (self.family in SHARING or carried) and longest > most:
            found[source.random(found.shape) > most / longest] = 0.0
        return found

    def _sums(self) -> bool:
        return self.family in SUMMING

    def _most(self, k: int) -> int:
        """Return the largest magnitude of an input's integers, so that all sums are exact.

        A product has one large factor, odd and as wide as the format; the other one is -1, 0 or 1.
        """
        if self.family in ("products", "linear layers"):
            return self._wide() if k == 0 else 1
        if self.op.name == "kl_div" and k == 1:
            return 1  # of 0 and 1 the logarithms are exact, or not looked at
        if self.op.name in BEYOND_ZERO:
            return self._wide()  # nothing is added, and few entries tie
        small = {
            "reductions": 3,
            "cumsum": 3,
            "losses of distances": 3,
            "losses of labels": 31,
            "scatters": 127,
            "norms": 3,
            "pow": (1 << min(12, self.most_exponent // 4)) - 1,
        }
        return small.get(self.op.name, small.get(self.family, self._wide()))

    def _wide(self) -> int:
        # Beyond what any narrower format holds; fp64 is told from fp32 by 26 bits. A product of
        # two, and a sum of products with -1, 0 and 1, stay in the range of the format.
        if self.precision > 24 and self._sums():
            return (1 << 26) - 1
        room = self.most_exponent - 6 if self._sums() else self.most_exponent // 2
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

    def _spread(self, source: np.random.Generator, shape: Shape, where: str) -> Any:
        normal = source.standard_normal(shape)
        if where == "positive":
            return np.abs(normal) + 0.125
        if where == "past_minus_one":
            return np.abs(normal) - 0.875
        if where == "nonzero":
            return normal + np.copysign(0.125, normal)
        return 4.0 * normal if self.family == "rows" else normal

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

    def _indices(self, source: np.random.Generator, shape: Shape) -> Any:
        """Draw every index about as often; where the loss is a mean, no row is ignored."""
        found = source.integers(0, index_range(self.case).extent, shape)
        if self.case.attributes().get("reduction") == "none":
            found[source.random(shape) < 1 / 8] = IGNORE_INDEX
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
        shape, of_seed = case.output_shape(), dtype_at_position(case, "cotangent")
        seed = placed(numbers.of_direction("cotangent", shape), shape, case.cotangent, of_seed)
        return Built(case, inputs, seed)
    if case.tangent is None:
        return Built(case, inputs)
    tangents = tuple(
        None
        if k in integer
        else placed(numbers.of_direction(f"tangent {k}", shape), shape, case.tangent, own)
        for k, shape in enumerate(case.shapes)
    )
    return Built(case, inputs, None, tangents)


def elements(case: CaseSpec) -> int:
    """Count the entries of the largest tensor of a case."""
    shapes = (*case.shapes, case.output_shape())
    most: int = max(math.prod(shape) for shape in shapes)
    return most
