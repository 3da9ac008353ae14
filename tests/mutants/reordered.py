"""Correct kernels in another order, one of each family: the budgets must not punish them.

A budget that only our own order of operations met would be a tolerance in disguise. Each patch
keeps the mathematics and the declared contract, and changes in which order numbers meet; a test
makes sure that it changes some result at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutants.patch import Patch


@dataclass(frozen=True)
class Reordered(Patch):
    """One legal change, the rows that must stay conformant, and why it is legal."""

    catchers: tuple[str, ...]
    why: str


REORDERED = (
    Reordered(
        name="pointwise: not by Horner",
        file="fast/kernels/elementwise/functions.py",
        before="q = 1 / 2 + r * (1 / 6 + r * (1 / 24 + r * q))",
        after="q = (1 / 2 + r * (1 / 6)) + (r * r) * (1 / 24 + r * q)",
        catchers=("tanh value fp32",),
        why="The polynomial inside tanh is added up in pairs, within the same declared error.",
    ),
    Reordered(
        name="reduction: other tiles",
        file="fast/kernels/rows/reduce.py",
        before="ROW_TILE, COLUMN_TILE = (8, 256), (128, 16)",
        after="ROW_TILE, COLUMN_TILE = (2, 16), (4, 4)",
        catchers=("sum value fp32",),
        why="More additions in sequence, fewer in a tree: any order of a sum is legal.",
    ),
    Reordered(
        name="matmul: other tiles",
        file="fast/kernels/tiles.py",
        before="    single=Tile(64, 64, 16, 8, 32),\n    strided=Tile(64, 64, 16, 8, 32),",
        after="    single=Tile(16, 32, 64, 8, 32),\n    strided=Tile(16, 32, 64, 8, 32),",
        catchers=("matmul value fp32",),
        why="The inner extent is cut elsewhere, so partial sums meet in another order.",
    ),
    Reordered(
        name="softmax: short blocks",
        file="fast/kernels/rows/rowwise.py",
        before='NARROW = {"ROWS": 4, "BLOCK": 256, "num_warps": 8}',
        after='NARROW = {"ROWS": 2, "BLOCK": 32, "num_warps": 8}',
        catchers=("softmax value fp32", "softmax vjp fp32"),
        why="Rows of more than 32 are walked in blocks, and a block that raises the maximum scales "
        "the sum so far.",
    ),
    Reordered(
        name="layer_norm: sums of sums",
        file="fast/ops/layer_norm.py",
        before="""\
        total = tl.sum(scaled, 1)
        along = tl.sum(scaled * normal, 1)
""",
        after="""\
        total = tl.sum(tl.sum(tl.reshape(scaled, (ROWS, BLOCK // 4, 4)), 2), 1)
        along = tl.sum(tl.sum(tl.reshape(scaled * normal, (ROWS, BLOCK // 4, 4)), 2), 1)
""",
        catchers=("layer_norm vjp fp32",),
        why="Four neighbours are added up first, then the sums of four: another tree.",
    ),
    Reordered(
        name="cross_entropy: by the reciprocal",
        file="fast/ops/cross_entropy.py",
        before="part = tl.div_rn(to_label + to_every * every, tl.load(sums + row))[:, None]",
        after="part = (tl.div_rn(1.0, tl.load(sums + row)) * (to_label + to_every * every))"
        "[:, None]",
        catchers=("cross_entropy vjp fp32",),
        why="A row's share is multiplied by the reciprocal of its sum, where it was divided by it.",
    ),
    Reordered(
        name="adamw: products exchanged",
        file="fast/optim/_moments.py",
        before="second = second * b2 + (c2 * grad) * grad",
        after="second = (grad * grad) * c2 + b2 * second",
        catchers=("adamw update fp32",),
        why="A product of three may be associated either way, and a sum of two exchanged.",
    ),
)
