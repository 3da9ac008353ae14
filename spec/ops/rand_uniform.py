"""Draw numbers uniformly from [0, 1).

    z[i] = (word of element i, its last 8 bits dropped) / 2^24

i counts the elements row by row; which word is theirs follows from seed and counter (spec.rng).
24 bits are what binary32 keeps, so 1 is never drawn there; a narrower format may round up to it.

C1  every extent is an integer >= 0.
C2  the seed is an integer in [0, 2^64).
C3  the call counter, which a session supplies, is an integer in [0, 2^64).

Reference: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011).

>>> z = op(shape=(2, 3), seed=7, counter=0)
>>> z.shape, all(0 <= entry < 1 for entry in z.data)
((2, 3), True)
>>> z == op(shape=(2, 3), seed=7, counter=0), z == op(shape=(2, 3), seed=7, counter=1)
(True, False)
"""

from __future__ import annotations

from typing import Any

from spec.kinds import source
from spec.op import AnyTensor, Edge, Elsewhere, Type
from spec.rng import bad_sources, check_call, check_shape, uniform
from spec.scalar import lift
from spec.shape import Shape, offset
from spec.tensor import tabulate


def type_rule(*, shape: Shape, seed: int, counter: int, like: Any = 0.0) -> Type:
    """Accept a shape (C1), a seed (C2) and a call counter (C3)."""
    del like
    check_call("rand_uniform", seed, counter)
    return check_shape("rand_uniform", shape)


def value(*, shape: Shape, seed: int, counter: int, like: Any = 0.0) -> AnyTensor:
    """Draw each entry by its position, and lift it into the world of like."""
    target = tuple(shape)
    return tabulate(target, lambda *i: lift(like, uniform(seed, counter, offset(target, i))))


def _drawn(why: str, allowed: Any, shape: Shape, seed: int) -> Edge:
    attributes = {"shape": shape, "seed": seed, "counter": 0}
    return Edge((), (allowed,), "CHOICE", why, attributes=attributes)


EDGES = (
    _drawn("nothing is drawn for an empty axis", [], (0,), 0),
    # The first word of seed 12121362 is 0x0000003a, that of seed 515707 is 0x80000091.
    _drawn("0 is drawn where the leading bits are 0", [0.0], (1,), 12121362),
    _drawn("a scalar is the element 0", 0.5, (), 515707),
)

REFUSED = bad_sources()

ELSEWHERE = Elsewhere("torch.rand", "jax.random.uniform")

op = source("rand_uniform", type_rule, value, edges=EDGES, refused=REFUSED, elsewhere=ELSEWHERE)
