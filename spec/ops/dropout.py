"""Drop each entry with probability p, and scale the others so that expectations stay.

    z[i] = x[i] / (1 - p) if u[i] < 1 - p else 0

u[i] is the uniform number that `rand_uniform` draws for element i; the comparison is exact, as in
`bernoulli_mask`. 1 / (1 - p) is one exact constant, so a kept entry pays one product.

A dropped entry is 0 whatever it was, NaN too (CHOICE; PyTorch multiplies by 0). p = 1 drops all.
Without training it is the identity, and its call counts. For a given draw it is its own transpose.

C1  p lies in [0, 1]; it has no gradient.
C2  the seed is an integer in [0, 2^64).
C3  the call counter, which a session supplies, is an integer in [0, 2^64).

Reference: Srivastava et al., JMLR 15, 2014.

>>> from spec.tensor import tensor
>>> op(tensor([3, 5, 7, 9]), p=0.5, seed=0, counter=0)
Tensor([Fraction(6, 1), 0, 0, 0])
>>> op(tensor([3, 5]), p=0.5, seed=0, counter=0, training=False)
Tensor([3, 5])
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import linear
from spec.op import AnyTensor, Edge, Elsewhere, Type
from spec.rng import CHANCES, bad_calls, bad_probabilities, check_call, check_probability, is_kept
from spec.scalar import select, zero_like
from spec.shape import Shape, offset
from spec.tensor import Tensor, tabulate

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type, *, p: float, seed: int, training: bool = True, counter: int) -> Type:
    """Accept a probability (C1), a seed (C2) and a call counter (C3)."""
    del training
    check_probability("dropout C1", p)
    check_call("dropout", seed, counter)
    return Type(x.shape)


def value(
    x: Tensor[A, *Dims], *, p: float, seed: int, training: bool = True, counter: int
) -> Tensor[A, *Dims]:
    """Scale the entries that are kept, and put zeros for the others."""
    if not training:
        return x
    kept = 1 - Fraction(p)
    scale: Any = 1 / kept if kept else 0

    def entry(*i: Any) -> Any:
        drawn = is_kept(kept, seed, counter, offset(x.shape, i))
        return select(drawn, scale * x[i], zero_like(x[i]))

    return tabulate(x.shape, entry)


def transpose(cotangent: AnyTensor, shape: Shape, **attributes: Any) -> AnyTensor:
    """Scale the cotangents of the entries that were kept, by the same draw."""
    del shape
    back: AnyTensor = value(cotangent, **attributes)
    return back


def _drawn(why: str, x: Any, allowed: Any, p: float, cotangent: Any = None, **more: Any) -> Edge:
    # Under seed 0 the first four uniform numbers are 0.40, 0.88, 0.74 and 0.61.
    attributes = {"p": p, "seed": 0, "counter": 0, **more}
    return Edge((x,), (allowed,), "CHOICE", why, cotangent, attributes)


EDGES = (
    _drawn(
        "what is dropped vanishes, infinities and NaN too",
        [math.inf, math.nan, -math.inf, -0.0],
        [math.inf, 0.0, 0.0, 0.0],
        0.5,
    ),
    _drawn("NaN that is kept stays NaN", [math.nan, 1.0], [math.nan, 0.0], 0.5),
    _drawn("p = 1 drops all, and never divides by 0", [1.0, math.nan], [0.0, 0.0], 1),
    _drawn("p = 0 changes nothing", [-0.0, math.inf, -3.0], [-0.0, math.inf, -3.0], 0.0),
    _drawn("nothing stays nothing", [], [], 0.5),
    _drawn(
        "without training it is the identity",
        [-0.0, math.nan, math.inf],
        [-0.0, math.nan, math.inf],
        1.0,
        training=False,
    ),
    _drawn(
        "a cotangent that is dropped vanishes, too",
        [math.nan, 1.0, 2.0],
        ([4.0, 0.0, 0.0],),
        0.5,
        cotangent=[2.0, math.inf, math.nan],
    ),
    _drawn("of p = 1 there is no gradient", [1.0], ([0.0],), 1, cotangent=[math.inf]),
    _drawn(
        "without training the cotangent passes",
        [1.0, 2.0],
        ([-0.0, math.inf],),
        1.0,
        cotangent=[-0.0, math.inf],
        training=False,
    ),
)

REFUSED = (*bad_probabilities("C1", "p", [1.0]), *bad_calls([1.0], p=0.5))

op = linear(
    "dropout", type_rule, value, transpose, edges=EDGES, refused=REFUSED,
    tried={"p": CHANCES, "training": (True, False)},
    elsewhere=Elsewhere("torch.nn.functional.dropout", None),
)  # fmt: skip
