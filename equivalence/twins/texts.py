"""Random programs: texts that any interpreter runs, on square matrices, of every op.

Every step takes two earlier nodes of one shape and makes another, so that any order of steps is a
program and a failing one shrinks to the steps that matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from equivalence.cases.domains import domain
from spec.op import Op
from spec.ops import OPS
from spec.tensor import tensor

SQUARE = (2, 2)
"""The shape of every node of a random program, so that any op fits any parents."""

MASK = tensor([[True, False], [False, True]])

Apply = Callable[[Any, Any, Any], Any]
"""What a step does, by an interpreter, to two earlier nodes."""


def _pointwise(op: Op) -> Apply:
    """Call an op of single numbers, at exponentials where it does not take all numbers."""
    anywhere = [domain(op, k) == "real" for k in range(len(op.inputs))]

    def apply(ops: Any, x: Any, y: Any) -> Any:
        given = (
            node if fits else ops.exp(node) for node, fits in zip((x, y), anywhere, strict=False)
        )
        return getattr(ops, op.name)(*given)

    return apply


def _pointwise_steps() -> dict[str, Apply]:
    """Find every op of one or two numbers but the exponential, which would pile up."""
    found = (
        op
        for op in OPS.values()
        if op.kind == "pointwise" and not op.attributes and len(op.inputs) <= 2
    )
    return {op.name: _pointwise(op) for op in found if domain(op, 0) != "moderate"}


STEPS: dict[str, Apply] = {
    **_pointwise_steps(),
    "matmul": lambda ops, x, y: ops.matmul(x, y),
    "detach": lambda ops, x, y: ops.mul(x, ops.detach(y)),
    "where": lambda ops, x, y: ops.where(MASK, x, y),
    "permute": lambda ops, x, _: ops.permute(x, axes=(1, 0)),
    "sum": lambda ops, x, _: _spread(ops, ops.sum(x, axes=(0,))),
    "mean": lambda ops, x, _: _spread(ops, ops.mean(x)),
    "max": lambda ops, x, _: _spread(ops, ops.max(x, axes=(-1,), keepdims=True)),
    "take": lambda ops, x, _: ops.take(x, tensor([1, 1]), axis=1),
    "scatter_add": lambda ops, x, y: ops.scatter_add(x, tensor([1, 1]), y, axis=0),
    "concat": lambda ops, x, y: ops.slice(ops.concat(x, y, x, axis=0), axis=0, start=1, length=2),
    "softmax": lambda ops, x, _: ops.softmax(x, axis=0),
    "log_softmax": lambda ops, x, _: ops.log_softmax(x),
    "linear": lambda ops, x, y: ops.linear(x, y, ops.sum(x, axes=(1,))),
    "layer_norm": lambda ops, x, y: _normalized(ops, x, y),
    "mse_loss": lambda ops, x, y: _spread(ops, ops.mse_loss(x, y)),
    "nll_loss": lambda ops, x, _: _spread(ops, ops.nll_loss(x, tensor([1, 0]))),
    "cross_entropy": lambda ops, x, _: _spread(ops, ops.cross_entropy(x, tensor([1, 0]))),
    "dropout": lambda ops, x, _: ops.dropout(x, p=0.5, seed=3),
    "rand_uniform": lambda ops, x, _: ops.mul(x, ops.rand_uniform(shape=SQUARE, seed=5)),
    "bernoulli_mask": lambda ops, x, _: ops.mul(x, _masked(ops)),
}
"""What one step of a program may be; x and y are earlier nodes."""


def _spread(ops: Any, x: Any) -> Any:
    return ops.broadcast_to(x, shape=SQUARE)


def _masked(ops: Any) -> Any:
    return ops.bernoulli_mask(shape=SQUARE, keep_prob=0.5, seed=7)


def _normalized(ops: Any, x: Any, y: Any) -> Any:
    gamma = ops.reshape(ops.take(y, tensor([0]), axis=0), shape=(2,))
    return ops.layer_norm(x, gamma, ops.sum(y, axes=(0,)), eps=1)


Step = tuple[str, int, int]
"""A name in `STEPS`, and how far back (modulo what is there) its two parents lie."""

PROGRAMS = st.lists(
    st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 3), st.integers(0, 3)),
    min_size=1,
    max_size=5,
)


def run(program: Sequence[Step], ops: Any, leaves: Sequence[Any]) -> Any:
    """Run a program on any interpreter and return its last node."""
    nodes = list(leaves)
    for name, first, second in program:
        x, y = nodes[-1 - first % len(nodes)], nodes[-1 - second % len(nodes)]
        nodes.append(STEPS[name](ops, x, y))
    return nodes[-1]


def written(program: Sequence[Step]) -> Callable[..., Any]:
    """Return a program as a function of the interpreter and its inputs."""
    return lambda ops, *leaves: run(program, ops, leaves)
