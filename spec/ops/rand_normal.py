"""Draw numbers from the normal distribution of mean 0 and variance 1.

    z[2k]     = sqrt(-2 log(1 - u[2k])) cos(2 pi u[2k + 1])
    z[2k + 1] = sqrt(-2 log(1 - u[2k])) sin(2 pi u[2k + 1])

u[i] is the uniform number that `rand_uniform` draws for element i, also where the pair of the last
element lies beyond the shape. 1 - u is never 0, so the logarithm is finite; with 24 bits, no number
drawn exceeds sqrt(48 log 2) = 5.77 in magnitude.

C1  every extent is an integer >= 0.
C2  the seed is an integer in [0, 2^64).
C3  the call counter, which a session supplies, is an integer in [0, 2^64).

Reference: Box and Muller, "A note on the generation of random normal deviates", 1958.

>>> z = op(shape=(2, 3), seed=7, counter=0)
>>> z.shape, all(abs(entry) < 5.78 for entry in z.data)
((2, 3), True)
"""

from __future__ import annotations

from typing import Any

from spec.kinds import source
from spec.op import AnyTensor, Edge, Elsewhere, Type
from spec.rng import bad_sources, check_call, check_shape, uniform
from spec.scalar import cos, equal, lift, log, pi_like, select, sin, sqrt
from spec.shape import Shape, offset
from spec.tensor import tabulate


def type_rule(*, shape: Shape, seed: int, counter: int, like: Any = 0.0) -> Type:
    """Accept a shape (C1), a seed (C2) and a call counter (C3)."""
    del like
    check_call("rand_normal", seed, counter)
    return check_shape("rand_normal", shape)


def value(*, shape: Shape, seed: int, counter: int, like: Any = 0.0) -> AnyTensor:
    """Turn each pair of uniform numbers into a pair of normal ones, in the world of like."""
    target = tuple(shape)

    def entry(*i: int) -> Any:
        pair, second = divmod(offset(target, i), 2)
        u, v = (lift(like, uniform(seed, counter, 2 * pair + n)) for n in (0, 1))
        radius, angle = sqrt(-2 * log(1 - u)), 2 * pi_like(like) * v
        return radius * select(equal(second, 1), sin(angle), cos(angle))

    return tabulate(target, entry)


def _drawn(why: str, allowed: tuple[Any, ...], shape: Shape, seed: int) -> Edge:
    attributes = {"shape": shape, "seed": seed, "counter": 0}
    return Edge((), allowed, "CHOICE", why, attributes=attributes)


EDGES = (
    _drawn("nothing is drawn for an empty axis", ([[], []],), (2, 0), 0),
    # The first word of seed 12121362 is 0x0000003a, so its first uniform number is 0.
    _drawn("log(1 - 0) is 0, and so is the radius", ([0.0], [-0.0]), (1,), 12121362),
)

REFUSED = bad_sources()

ELSEWHERE = Elsewhere("torch.randn", "jax.random.normal")

op = source("rand_normal", type_rule, value, edges=EDGES, refused=REFUSED, elsewhere=ELSEWHERE)
