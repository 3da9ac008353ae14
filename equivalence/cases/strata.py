"""Fixed strata: the first dozen cases of every row, the same in every run.

A shape table per kind of operation holds a row one past a tile, tile - 1, tile, tile + 1, two
tiles, a reduction of at least 257, size-1 axes; a table of treatments lays inputs and cotangents
out contiguous, strided, offset, transposed and with stride 0, with exact zeros among mixed scales.
Shapes are small enough that the pure-Python oracle needs a fraction of a second for each.
"""

from __future__ import annotations

import math
from dataclasses import replace

from equivalence.cases import strata_random
from equivalence.cases.call import CaseSpec, Recipe, Shape, attribute_pairs
from equivalence.cases.domains import regimes
from equivalence.cases.strata_moves import (
    BROADCASTS,
    CONCATS,
    EMPTY_CONCATS,
    EMPTY_SCATTERS,
    EMPTY_SLICES,
    PERMUTES,
    RESHAPES,
    SCATTERS,
    SLICES,
    TAKES,
    Signature,
)

TREATMENTS: tuple[tuple[str, str, str], ...] = (
    ("contiguous", "normal", "strided"),
    ("strided", "mixed_zeros", "contiguous"),
    ("transposed", "normal", "transposed"),
    ("offset", "mixed_zeros", "expanded"),
    ("expanded", "one_hot", "padded"),
    ("padded", "mixed_zeros", "offset"),
    ("broadcast", "integers", "broadcast"),
    ("contiguous", "mixed", "contiguous"),
    ("transposed", "mixed_zeros", "strided"),
    ("strided", "one_hot", "transposed"),
    ("padded", "normal", "padded"),
    ("offset", "mixed_zeros", "broadcast"),
)
"""(layout of the inputs, regime of the cotangent, layout of the cotangent), one per stratum."""

ELEMENTWISE: tuple[Shape, ...] = (
    (33,),
    (4, 65),
    (3, 5, 7),
    (1025,),
    (2, 17),
    (5, 31),
    (257, 2),
    (1, 1, 9),
    (1024,),
    (2, 2, 2, 2),
    (1023,),
    (2, 1024),
)

ROWS: tuple[Signature, ...] = (
    (((9, 33),), {"axis": -1}),
    (((3, 257),), {"axis": -1}),
    (((2, 5, 9),), {"axis": 1}),
    (((2, 65),), {"axis": 1}),
    (((8, 1),), {"axis": -1}),
    (((4, 31),), {"axis": 0}),
    (((3, 32),), {"axis": 1}),
    (((33, 3),), {"axis": 0}),
    (((2, 128),), {"axis": -1}),
    (((129,),), {"axis": 0}),
    (((2, 3, 2, 5),), {"axis": 2}),
    (((1, 1025),), {"axis": 1}),
)

REDUCTIONS: tuple[Signature, ...] = (
    (((9, 257),), {"axes": (1,)}),
    (((33, 9),), {"axes": (0,), "keepdims": True}),
    (((3, 7, 4),), {"axes": (1,)}),
    (((65, 8),), {"axes": (0,)}),
    (((8, 1),), {"axes": (-1,)}),
    (((4, 5, 3, 3),), {"axes": (1, -1)}),
    (((16, 31),), {"axes": (-1,), "keepdims": True}),
    (((9, 32),), {"axes": (1,)}),
    (((8, 33),), {"axes": (1,)}),
    (((3, 129, 3),), {"axes": (1,)}),
    (((2, 4, 64),), {"axes": (2,)}),
    (((8, 3),), {"axes": ()}),
    (((7, 43),), {"axes": None}),
    (((5, 1025),), {"axes": None, "keepdims": True}),
)

MATMULS: tuple[Signature, ...] = (
    (((5, 7), (7, 9)), {}),
    (((17, 16), (16, 15)), {}),
    (((3, 257), (257, 4)), {}),
    (((1, 33), (33, 9)), {}),
    (((31, 8), (8, 5)), {}),
    (((16, 32), (32, 16)), {}),
    (((9, 1), (1, 8)), {}),
    (((33, 40), (40, 33)), {}),
    (((2, 300), (300, 3)), {}),
    (((8, 65), (65, 2)), {}),
    (((15, 17), (17, 33)), {}),
    (((65, 3), (3, 8)), {}),
)

LINEARS: tuple[Signature, ...] = (
    (((5, 7), (9, 7), (9,)), {}),
    (((17, 16), (15, 16), (15,)), {}),
    (((3, 257), (4, 257), (4,)), {}),
    (((2, 3, 5), (7, 5), (7,)), {}),
    (((33,), (9, 33), (9,)), {}),
    (((16, 32), (16, 32), (16,)), {}),
    (((9, 1), (8, 1), (8,)), {}),
    (((33, 20), (17, 20), (17,)), {}),
    (((8, 65), (1, 65), (1,)), {}),
    (((1, 1, 2, 4), (33, 4), (33,)), {}),
    (((257, 2), (3, 2), (3,)), {}),
    (((31, 8), (5, 8), (5,)), {}),
)

NORMS: tuple[Signature, ...] = (
    (((9, 33), (33,), (33,)), {}),
    (((3, 257), (257,), (257,)), {}),
    (((2, 5, 9), (9,), (9,)), {}),
    (((4, 65), (65,), (65,)), {}),
    (((8, 1), (1,), (1,)), {}),
    (((3, 31), (31,), (31,)), {"eps": 1e-3}),
    (((5, 32), (32,), (32,)), {}),
    (((2, 64), (64,), (64,)), {"eps": 1e-8}),
    (((129,), (129,), (129,)), {}),
    (((65, 3), (3,), (3,)), {}),
    (((2, 2, 2, 8), (8,), (8,)), {"eps": 1.0}),
    (((1, 1025), (1025,), (1025,)), {}),
)

LOSSES: tuple[Signature, ...] = (
    (((9, 33), (9,)), {"reduction": "none"}),
    (((8, 10), (8,)), {"reduction": "none"}),
    (((33, 3), (33,)), {"ignore_index": 0}),
    (((9, 65), (9,)), {"reduction": "none"}),
    (((17, 5), (17,)), {"reduction": "none", "ignore_index": -1}),
    (((8, 1), (8,)), {"reduction": "none"}),
    (((8, 129), (8,)), {"ignore_index": -1}),
    (((31, 4), (31,)), {"reduction": "none"}),
    (((9, 10), (9,)), {}),
    (((16, 32), (16,)), {"reduction": "none"}),
    (((8, 7), (8,)), {"reduction": "sum"}),
    (((65, 9), (65,)), {"reduction": "none"}),
    (((8, 257), (8,)), {"reduction": "none"}),
    (((33, 9), (33,)), {}),
)


def _distances() -> tuple[Signature, ...]:
    """Reduce some of the elementwise cases, one past a tile among them, and two long ones."""
    reduced = {3: "mean", 7: "sum", 10: "mean"}
    short = tuple(
        (shapes, {"reduction": reduced.get(k, "none")})
        for k, (shapes, _) in enumerate(_elementwise(2))
    )
    return (*short, (((2, 2051),) * 2, {}), (((3, 1367),) * 2, {"reduction": "sum"}))


def _elementwise(inputs: int) -> tuple[Signature, ...]:
    return tuple(((shape,) * inputs, {}) for shape in ELEMENTWISE)


def _smoothed(losses: tuple[Signature, ...]) -> tuple[Signature, ...]:
    """Give the losses over few classes some label smoothing, now a little and now all of it."""
    amounts = (0.1, 1.0, 0.25)
    return tuple(
        (shapes, {**attrs, "label_smoothing": amounts[k % 3]} if shapes[0][1] <= 10 else attrs)
        for k, (shapes, attrs) in enumerate(losses)
    )


TABLES: dict[str, tuple[Signature, ...]] = {
    **dict.fromkeys(("add", "sub", "mul", "div", "maximum", "minimum"), _elementwise(2)),
    "where": _elementwise(3),
    "mse_loss": _distances(),
    **dict.fromkeys(("square", "sqrt", "exp", "log", "tanh", "relu", "detach"), _elementwise(1)),
    **dict.fromkeys(("sum", "mean", "max"), REDUCTIONS),
    **dict.fromkeys(("softmax", "log_softmax"), ROWS),
    "broadcast_to": BROADCASTS,
    "reshape": RESHAPES,
    "permute": PERMUTES,
    "take": TAKES,
    "scatter_add": SCATTERS,
    "slice": SLICES,
    "concat": CONCATS,
    "nll_loss": LOSSES,
    "matmul": MATMULS,
    "linear": LINEARS,
    "layer_norm": NORMS,
    "cross_entropy": _smoothed(LOSSES),
    **strata_random.tables(ELEMENTWISE),
}

EMPTY: dict[str, tuple[Signature, ...]] = {
    **dict.fromkeys(
        ("add", "sub", "mul", "div", "maximum", "minimum"), ((((0,), (0,)), {}), (((), ()), {}))
    ),
    "where": ((((0,),) * 3, {}), (((),) * 3, {})),
    "mse_loss": (
        (((0,), (0,)), {"reduction": "sum"}),
        (((0, 3), (0, 3)), {"reduction": "none"}),
        (((), ()), {}),
    ),
    **dict.fromkeys(
        ("square", "sqrt", "exp", "log", "tanh", "relu", "detach"),
        ((((3, 0),), {}), (((),), {})),
    ),
    "sum": ((((2, 0),), {"axes": (1,)}), (((0, 3),), {"axes": None})),
    "mean": ((((0, 3),), {"axes": (1,)}), (((),), {})),
    "max": ((((0, 3),), {"axes": (1,)}),),
    "broadcast_to": ((((1,),), {"shape": (0,)}), (((0, 1),), {"shape": (2, 0, 3)})),
    "reshape": ((((0, 3),), {"shape": (2, 0)}), (((),), {"shape": (1, 1)})),
    "permute": ((((0, 3),), {"axes": (1, 0)}), (((),), {"axes": ()})),
    "take": ((((4, 3), (0,)), {"axis": 0}), (((4, 0), (2,)), {"axis": 0})),
    "scatter_add": EMPTY_SCATTERS,
    "slice": EMPTY_SLICES,
    "concat": EMPTY_CONCATS,
    "nll_loss": ((((0, 3), (0,)), {"reduction": "none"}), (((0, 3), (0,)), {})),
    "matmul": ((((2, 0), (0, 3)), {}), (((0, 2), (2, 3)), {})),
    "linear": ((((0, 2), (3, 2), (3,)), {}), (((2, 0), (3, 0), (3,)), {})),
    "softmax": ((((2, 0),), {"axis": -1}), (((0, 2),), {"axis": 1})),
    "log_softmax": ((((2, 0),), {"axis": -1}), (((0, 2),), {"axis": 1})),
    "layer_norm": ((((0, 3), (3,), (3,)), {}), (((2, 0), (0,), (0,)), {})),
    "cross_entropy": ((((0, 3), (0,)), {"reduction": "none"}), (((0, 3), (0,)), {})),
    **strata_random.tables(strata_random.NOTHING),
}
"""Cases with no element, or with one: run and judged, and not counted."""


def strata(op: str, direction: str, dtype: str) -> list[CaseSpec]:
    """Return the fixed cases of a row, in the order in which they run."""
    return [
        _case(op, direction, dtype, signature, number)
        for number, signature in enumerate(TABLES[op])
    ]


def extras(op: str, direction: str, dtype: str) -> list[CaseSpec]:
    """Return the cases of a row that run without being counted: size 0 and rank 0."""
    return [
        _case(op, direction, dtype, signature, number)
        for number, signature in enumerate(EMPTY.get(op, ()))
    ]


def _case(op: str, direction: str, dtype: str, signature: Signature, number: int) -> CaseSpec:
    """Combine a shape, a treatment, and the regimes that come next in the inputs' domains."""
    shapes, attrs = signature
    layout, regime, cotangent_layout = TREATMENTS[number % len(TREATMENTS)]
    suited = regimes(op, len(shapes))
    recipes = tuple(
        Recipe(
            among[(number + 2 * k) % len(among)], number, layout if k == 0 else _other(number, k)
        )
        for k, among in enumerate(suited)
    )
    case = CaseSpec(op, direction, dtype, shapes, recipes, attribute_pairs(attrs))
    if direction == "vjp":
        # A lone cotangent must not be one of a regime's zeros: every gradient would be 0.
        lone = math.prod(case.output_shape()) == 1
        seed = Recipe("normal" if lone else regime, number, cotangent_layout)
        return replace(case, cotangent=seed)
    if direction == "jvp":
        return replace(case, tangent=Recipe(regime, number, cotangent_layout))
    return case


def _other(number: int, k: int) -> str:
    """Lay the later inputs out differently from the first."""
    return TREATMENTS[(number + 3 * k) % len(TREATMENTS)][0]
