"""Fixed strata of the ops that move data: shapes one beside each likely tile, and empty parts."""

from __future__ import annotations

from typing import Any

from equivalence.cases.call import Shape

Signature = tuple[tuple[Shape, ...], dict[str, Any]]

BROADCASTS: tuple[Signature, ...] = (
    (((9,),), {"shape": (257, 9)}),
    (((3, 1, 5),), {"shape": (3, 4, 5)}),
    (((8, 1),), {"shape": (8, 33)}),
    (((1, 16),), {"shape": (2, 31, 16)}),
    (((2, 5),), {"shape": (2, 5)}),
    (((1, 1, 9),), {"shape": (3, 4, 9)}),
    (((8, 1, 1),), {"shape": (8, 5, 7)}),
    (((33, 1),), {"shape": (33, 9)}),
    (((4, 1, 3),), {"shape": (2, 4, 65, 3)}),
    (((3, 3),), {"shape": (1, 3, 3)}),
    (((1, 31),), {"shape": (33, 31)}),
    (((2, 1, 2, 2),), {"shape": (2, 4, 2, 2)}),
    (((),), {"shape": (3, 43)}),
    (((1,),), {"shape": (1025,)}),
)

RESHAPES: tuple[Signature, ...] = (
    (((33,),), {"shape": (3, 11)}),
    (((4, 65),), {"shape": (260,)}),
    (((3, 5, 7),), {"shape": (7, 15)}),
    (((1025,),), {"shape": (5, 1, 205)}),
    (((2, 17),), {"shape": (17, 2)}),
    (((6, 4),), {"shape": (2, 3, 4)}),
    (((1, 9),), {"shape": (9, 1)}),
    (((32, 32),), {"shape": (1024,)}),
    (((257, 2),), {"shape": (2, 257)}),
    (((2, 2, 2, 2),), {"shape": (4, 4)}),
    (((8,),), {"shape": (1, 8, 1)}),
    (((5, 31),), {"shape": (31, 5)}),
)

PERMUTES: tuple[Signature, ...] = (
    (((33, 3),), {"axes": (1, 0)}),
    (((4, 65),), {"axes": (-1, 0)}),
    (((3, 5, 7),), {"axes": (2, 0, 1)}),
    (((31, 33),), {"axes": (1, 0)}),
    (((2, 17, 1),), {"axes": (2, 1, 0)}),
    (((9,),), {"axes": (0,)}),
    (((2, 3, 4, 5),), {"axes": (3, 1, 2, 0)}),
    (((257, 2),), {"axes": (0, 1)}),
    (((1, 9),), {"axes": (1, 0)}),
    (((8, 3, 2),), {"axes": (1, 0, 2)}),
    (((32, 32),), {"axes": (1, 0)}),
    (((2, 2, 2, 2),), {"axes": (-1, -2, -3, -4)}),
)

TAKES: tuple[Signature, ...] = (
    (((9, 5), (7,)), {"axis": 0}),
    (((4, 33), (9,)), {"axis": 1}),
    (((3, 5, 7), (2,)), {"axis": 1}),
    (((65, 3), (33,)), {"axis": 0}),
    (((10,), (9,)), {"axis": 0}),
    (((2, 9), (3, 4)), {"axis": -1}),
    (((1, 9), (17,)), {"axis": 0}),
    (((257,), (31,)), {"axis": -1}),
    (((5, 4), (2, 2, 2)), {"axis": 0}),
    (((8, 9), ()), {"axis": 0}),
    (((3, 2, 9), (1,)), {"axis": 2}),
    (((33, 8), (65,)), {"axis": 0}),
)


def _with_sources(takes: tuple[Signature, ...]) -> tuple[Signature, ...]:
    """Give what takes take a source of the shape of the result, and one entry many terms."""
    pairs = (*((x, indices, attrs["axis"]) for (x, indices), attrs in takes), ((3, 3), (300,), 0))
    return tuple(
        ((x, indices, (*x[: k % len(x)], *indices, *x[k % len(x) + 1 :])), {"axis": k})
        for x, indices, k in pairs
    )


SCATTERS = _with_sources(TAKES)

SLICES: tuple[Signature, ...] = (
    (((33, 3),), {"axis": 0, "start": 1, "length": 31}),
    (((4, 65),), {"axis": 1, "start": 0, "length": 65}),
    (((3, 5, 7),), {"axis": 1, "start": 2, "length": 3}),
    (((1025,),), {"axis": 0, "start": 1, "length": 1023}),
    (((9, 17),), {"axis": -1, "start": 16, "length": 1}),
    (((31, 9),), {"axis": 0, "start": 30, "length": 1}),
    (((257, 2),), {"axis": -2, "start": 0, "length": 256}),
    (((1, 1, 9),), {"axis": 2, "start": 0, "length": 8}),
    (((5, 32),), {"axis": 1, "start": 8, "length": 16}),
    (((2, 3, 4, 5),), {"axis": 2, "start": 1, "length": 2}),
    (((8, 1),), {"axis": 1, "start": 0, "length": 1}),
    (((2, 1024),), {"axis": 1, "start": 512, "length": 512}),
)

CONCATS: tuple[Signature, ...] = (
    (((33,), (9,)), {"axis": 0}),
    (((4, 65), (4, 1)), {"axis": 1}),
    (((3, 5, 7),), {"axis": 1}),
    (((2, 0), (2, 17), (2, 1)), {"axis": -1}),
    (((1025,), (1023,)), {"axis": 0}),
    (((31, 2), (1, 2), (33, 2)), {"axis": 0}),
    (((257, 2), (257, 2)), {"axis": 1}),
    (((1, 1, 9), (1, 0, 9)), {"axis": 1}),
    (((2, 3, 4), (2, 3, 4), (2, 3, 4)), {"axis": -2}),
    (((32, 32),), {"axis": 0}),
    (((2, 2, 2, 2), (2, 2, 1, 2), (2, 2, 3, 2)), {"axis": 2}),
    (((3, 127), (3, 1), (3, 129)), {"axis": 1}),
    (((0, 3), (5, 3), (0, 3)), {"axis": 0}),
)

EMPTY_SCATTERS: tuple[Signature, ...] = (
    (((4, 3), (0,), (0, 3)), {"axis": 0}),
    (((4, 0), (2,), (2, 0)), {"axis": 0}),
)

EMPTY_SLICES: tuple[Signature, ...] = (
    (((4, 3),), {"axis": 0, "start": 4, "length": 0}),
    (((0, 3),), {"axis": 0, "start": 0, "length": 0}),
    (((4, 0),), {"axis": 0, "start": 1, "length": 2}),
    (((1,),), {"axis": 0, "start": 0, "length": 1}),
)

EMPTY_CONCATS: tuple[Signature, ...] = (
    (((0,),), {"axis": 0}),
    (((0, 3), (0, 3)), {"axis": 0}),
    (((2, 0), (3, 0)), {"axis": 0}),
    (((0,), (1,)), {"axis": 0}),
)
