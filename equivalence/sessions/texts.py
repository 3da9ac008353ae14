"""Random programs: texts that any interpreter runs, on square matrices, of every op.

A step is an op, and numbers by which its family finds operands among the earlier nodes, as in
a stateful test. Every node has one shape, so that any order of steps is a program and a failing one
shrinks to the steps that matter.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from equivalence.cases.domains import Domain
from equivalence.cases.families.family import TERM, Operands, Picks
from equivalence.cases.families.signatures import Shape, results
from equivalence.cases.families.table import family_of
from spec.op import Op
from spec.ops import OPS
from spec.tensor import tabulate, tensor

SQUARE = (2, 2)
"""The shape of every node of a random program, so that any op fits any parents."""

FORMS = (SQUARE[1:], SQUARE)
"""What an op may read of a node: the sums of its columns, and the node itself."""


class Offer:
    """What the nodes of a program offer: each in every form, as it is and as an exponential."""

    def __init__(self, nodes: int) -> None:
        """Offer so many nodes; the latest come last, after what is made of any."""
        self.nodes = nodes
        self._real = len(FORMS) * nodes
        self.shapes = {here: FORMS[here // nodes % 2] for here in range(2 * self._real)}

    def entry(
        self, pick: int, fits: Callable[[Shape], bool], most: float = TERM, domain: Domain = "real"
    ) -> int | None:
        """Pick what fits; exponentials where not all numbers are taken, none where few are."""
        found = [here for here in range(self._real) if fits(self.shapes[here])]
        if not found or domain == "moderate":
            return None
        return found[-1 - pick % len(found)] + (0 if domain == "real" else self._real)

    def made(self, ops: Any, nodes: Sequence[Any], here: int) -> Any:
        """Make what was picked."""
        node = nodes[here % self.nodes]
        if self.shapes[here] != SQUARE:
            node = ops.sum(node, axes=(0,))
        return node if here < self._real else ops.exp(node)

    def indices(self, pick: int, extent: int) -> Any:
        """Name one place twice, so that what is sent there adds up."""
        return tensor([pick % extent] * 2)

    def labels(self, pick: int, rows: int, classes: int) -> Any:
        """Label rows in turn, or all alike."""
        return tensor([(pick + row * (pick % 2)) % classes for row in range(rows)])

    def positions(self, pick: int, shape: Shape, extent: int) -> Any:
        """Number places, some of them twice."""
        return tabulate(shape, lambda *index: (sum(index) * (pick % 3) + pick) % extent)

    def mask(self, pick: int, shape: Shape) -> Any:
        """Choose on a diagonal."""
        return tabulate(shape, lambda *index: (sum(index) + pick) % 2 == 0)

    def buffer(self, pick: int, shape: Shape, domain: Domain = "real") -> None:
        """Pick nothing: what a program leaves behind is no node."""

    def cast(self, pick: int) -> tuple[int, str] | None:
        """Pick nothing: every node has the dtype of the program."""


Step = tuple[str, int, int]
"""The name of an op, and how far back (modulo what is there) its operands lie."""


def operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    """Find operands, but none of what asks where: of two rounded numbers, either may be larger."""
    return None if op.kind == "positions" else family_of(op).operands(op, offer, picks)


def run(program: Sequence[Step], ops: Any, leaves: Sequence[Any]) -> Any:
    """Run a program on any interpreter and return its last node."""
    nodes = list(leaves)
    for name, first, second in program:
        nodes.append(_step(OPS[name], (first, second, first + second), ops, nodes))
    return nodes[-1]


def _step(op: Op, picks: Picks, ops: Any, nodes: Sequence[Any]) -> Any:
    """Call an op, and make a node of its result; what sends nothing back scales the last node.

    Several results are made nodes and added up.
    """
    offer = Offer(len(nodes))
    found = operands(op, offer, picks)
    assert found is not None, f"{op.name} found operands among fewer nodes"
    given, attributes = found
    inputs = [offer.made(ops, nodes, x) if isinstance(x, int) else x for x in given]
    shapes = (offer.shapes[x] if isinstance(x, int) else x.shape for x in given)
    drawn = {"counter": 0} if "counter" in op.attributes else {}
    found_shapes = results(op, (tuple(shapes), {**attributes, **drawn}))
    assert found_shapes is not None, f"{op.name} takes what its family found"
    made = getattr(ops, op.name)(*inputs, **attributes)
    each = made if op.results is not None else (made,)
    first, *others = (_squared(ops, x, s) for x, s in zip(each, found_shapes, strict=True))
    node = functools.reduce(ops.add, others, first)
    if not any(map(math.prod, found_shapes)):
        return ops.add(nodes[-1], node)  # what adds up nothing is the constant 0, of no world
    return ops.mul(nodes[-1], node) if op.stops_gradients or not op.moves else node


def _squared(ops: Any, x: Any, shape: Shape) -> Any:
    """Bring a result into the shape of nodes: lay it out anew, or add up what is too long."""
    if shape == SQUARE:
        return x
    if math.prod(shape) == math.prod(SQUARE):
        return ops.reshape(x, shape=SQUARE)
    kept = len(shape) - len(SQUARE)
    long = tuple(axis for axis, n in enumerate(shape) if axis < kept or n not in (1, SQUARE[0]))
    x = ops.sum(x, axes=long) if long else x
    return ops.broadcast_to(x, shape=SQUARE)


def written(program: Sequence[Step]) -> Callable[..., Any]:
    """Return a program as a function of the interpreter and its inputs."""
    return lambda ops, *leaves: run(program, ops, leaves)
