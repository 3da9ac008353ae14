"""Write class numbers as rows of zeros with a one.

    z[i, k] = 1 if indices[i] = k else 0        (k < classes; indices may have any rank)

C1  classes is an integer >= 1.
C2  the indices are integers; they have no gradient.
C3  every index lies in [0, classes); there is no counting from the back.

The result holds numbers, of the session's kind, as those of an op that draws.

Reference: PyTorch's one_hot, which returns integers, and finds the classes where none are given.

>>> from spec.tensor import tensor
>>> op(tensor([2, 0]), classes=3)
Tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from spec.kinds import source
from spec.op import AnyTensor, Edge, Elsewhere, IndexRange, Type, refuse
from spec.refusals import Miss
from spec.scalar import Extent, equal, lift, select
from spec.shape import is_extent
from spec.tensor import tabulate


def type_rule(indices: Type, *, classes: Extent, like: Any = 0.0) -> Type:
    """Accept a number of classes (C1) and integer indices (C2)."""
    del like
    if not is_extent(classes) or classes == 0:
        raise refuse("one_hot C1", "classes is an integer >= 1", repr(classes))
    if not indices.index:
        raise refuse("one_hot C2", "the indices are integers", indices)
    return Type((*indices.shape, classes))


def first_and_last(indices: Type, *, classes: Extent, like: Any = 0.0) -> tuple[Extent, Extent]:
    """Return the first and the last class (C3)."""
    return 0, classes - 1


def value(indices: AnyTensor, *, classes: Extent, like: Any = 0.0) -> AnyTensor:
    """Compare each index with each class; answer in the world of like."""
    one, zero = (lift(like, Fraction(n)) for n in (1, 0))

    def entry(*i: Any) -> Any:
        return select(equal(indices[i[:-1]], i[-1]), one, zero)

    return tabulate((*indices.shape, classes), entry)


EDGES = (
    Edge((1,), ([0.0, 1.0, 0.0],), "CHOICE", "one index, one row", attributes={"classes": 3}),
    Edge(([0],), ([[1.0]],), "CHOICE", "one class is certain", attributes={"classes": 1}),
    Edge(
        ([[1], [0]],),
        ([[[0.0, 1.0]], [[1.0, 0.0]]],),
        "CHOICE",
        "each of any rank has a row of its own",
        attributes={"classes": 2},
    ),
)

REFUSED = (
    *(Miss("C1", ([0],), {"classes": wrong}) for wrong in (-1, 0, 2.0, True)),
    *(Miss("C2", (wrong,), {"classes": 2}) for wrong in ([0.0], [True])),
    *(Miss("C3", (wrong,), {"classes": 2}) for wrong in ([2], [-1], 2, [[0, 5]])),
)

ELSEWHERE = Elsewhere("torch.nn.functional.one_hot(indices, num_classes=classes)", "jax.nn.one_hot")

op = source(
    "one_hot",
    type_rule,
    value,
    index_inputs=(0,),
    index_ranges=(IndexRange("C3", first_and_last),),
    edges=EDGES,
    refused=REFUSED,
    elsewhere=ELSEWHERE,
)
