"""Make one axis of several that follow each other.

    z = reshape(x, (x.shape[:start], the product of x.shape[start : end + 1], x.shape[end + 1 :]))

C1  start and end lie in [-rank, rank); of a scalar, in [-1, 1).
C2  start is not behind end.

Both ends count. A scalar becomes a vector of one entry (CHOICE, PyTorch's).

Reference: PyTorch's flatten.

>>> from spec.tensor import tensor
>>> op(tensor([[[1, 2], [3, 4]]]), start=1), op(tensor(5))
(Tensor([[1, 2, 3, 4]]), Tensor([5]))
>>> op.vjp((tensor([[1], [2]]),), tensor([7, 8]))
(Tensor([[7], [8]]),)
"""

from __future__ import annotations

from typing import Any

from spec.composite import composite
from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.reshape import op as reshape
from spec.refusals import Miss
from spec.shape import Shape, normalize_axis, size


def type_rule(x: Type, *, start: int = 0, end: int = -1) -> Type:
    """Accept a first and a last axis (C1), in this order (C2)."""
    rank = max(len(x.shape), 1)
    first, last = normalize_axis(start, rank), normalize_axis(end, rank)
    if first is None or last is None:
        rule = f"start and end lie in [-{rank}, {rank})"
        raise refuse("flatten C1", rule, f"{start} and {end} for {x}")
    if first > last:
        raise refuse("flatten C2", "start is not behind end", f"{start} and {end} for {x}")
    return Type(_flat(x.shape, start, end))


def _flat(shape: Shape, start: int, end: int) -> Shape:
    rank = max(len(shape), 1)
    first, last = start % rank, end % rank
    return (*shape[:first], size(shape[first : last + 1]), *shape[last + 1 :])


def program(ops: Any, x: Any, *, start: int = 0, end: int = -1) -> Any:
    """Reshape to the shape in which the axes are one."""
    return ops.reshape(x, shape=_flat(x.shape, start, end))


EDGES = (
    Edge(([[], []],), ([],), "IEEE", "nothing stays nothing"),
    Edge((-0.0,), ([-0.0],), "CHOICE", "a scalar becomes a vector"),
    Edge((2.0,), ((3.0,),), "CHOICE", "and its gradient a scalar", cotangent=[3.0]),
)

REFUSED = (
    *(
        Miss("C1", ([[1.0, 2.0]],), {"start": start, "end": end})
        for start, end in ((2, -1), (-3, 1), (0, 2), (0, -3), (True, 1), (0, 1.0))
    ),
    *(Miss("C1", (1.0,), {"start": start, "end": end}) for start, end in ((1, 0), (0, -2))),
    *(
        Miss("C2", ([[1.0, 2.0]],), {"start": start, "end": end})
        for start, end in ((1, 0), (-1, 0))
    ),
)

ELSEWHERE = Elsewhere("torch.flatten(x, start_dim=start, end_dim=end)", "jax.lax.collapse")

op = composite(
    "flatten", type_rule, program, (reshape,), edges=EDGES, refused=REFUSED, elsewhere=ELSEWHERE
)
