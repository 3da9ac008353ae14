"""Draw 1 with a given probability, and 0 otherwise.

    z[i] = 1 if u[i] < keep_prob else 0

u[i] is the uniform number that `rand_uniform` draws for element i. The comparison is exact: of a
u that is m / 2^24 it asks whether m < ceil(keep_prob 2^24). So 0 never keeps and 1 always does.

C1  every extent is an integer >= 0.
C2  the seed is an integer in [0, 2^64).
C3  the call counter, which a session supplies, is an integer in [0, 2^64).
C4  keep_prob lies in [0, 1]; it has no gradient.

Reference: Bernoulli's distribution; PyTorch's bernoulli has the same meaning and other bits.

>>> op(shape=(3,), keep_prob=1, seed=7, counter=0), op(shape=(2,), keep_prob=0, seed=7, counter=0)
(Tensor([1.0, 1.0, 1.0]), Tensor([0.0, 0.0]))
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from spec.kinds import source
from spec.op import AnyTensor, Edge, Elsewhere, Type
from spec.rng import (
    CHANCES,
    bad_probabilities,
    bad_sources,
    check_call,
    check_probability,
    check_shape,
    is_kept,
)
from spec.scalar import lift, select
from spec.shape import Shape, offset
from spec.tensor import tabulate


def type_rule(*, shape: Shape, keep_prob: float, seed: int, counter: int, like: Any = 0.0) -> Type:
    """Accept a shape (C1), a seed (C2), a call counter (C3) and a probability (C4)."""
    del like
    check_call("bernoulli_mask", seed, counter)
    check_probability("bernoulli_mask C4", keep_prob)
    return check_shape("bernoulli_mask", shape)


def value(*, shape: Shape, keep_prob: float, seed: int, counter: int, like: Any = 0.0) -> AnyTensor:
    """Compare each element's number with the probability; answer in the world of like."""
    target = tuple(shape)
    one, zero = (lift(like, Fraction(n)) for n in (1, 0))

    def entry(*i: Any) -> Any:
        return select(is_kept(keep_prob, seed, counter, offset(target, i)), one, zero)

    return tabulate(target, entry)


def _drawn(why: str, allowed: Any, seed: int, keep_prob: float, shape: Shape = (1,)) -> Edge:
    attributes = {"shape": shape, "keep_prob": keep_prob, "seed": seed, "counter": 0}
    return Edge((), (allowed,), "CHOICE", why, attributes=attributes)


EDGES = (
    _drawn("nothing is drawn for an empty axis", [], 0, 0.5, (0,)),
    # The first uniform number of seed 515707 is 1/2, that of seed 4613456 is 1/2 - 2^-24.
    _drawn("what equals the probability is not less than it", [0.0], 515707, 0.5),
    _drawn("what is less by one place is kept", [1.0], 4613456, 0.5),
    _drawn("no bit of the probability is lost", 1.0, 515707, 0.5 + 2.0**-40, ()),
    # The first uniform number of seed 12121362 is 0, that of seed 16390493 is 1 - 2^-24.
    _drawn("probability 0 keeps nothing, not even 0", [0.0], 12121362, 0.0),
    _drawn("the least probability keeps 0", [1.0], 12121362, 2.0**-1074),
    _drawn("probability 1 keeps the largest", [1.0], 16390493, 1.0),
)

REFUSED = (
    *bad_sources(keep_prob=0.5),
    *bad_probabilities("C4", "keep_prob", shape=(2,)),
)

TRIED = {"keep_prob": CHANCES}

ELSEWHERE = Elsewhere("torch.bernoulli", "jax.random.bernoulli")

op = source(
    "bernoulli_mask",
    type_rule,
    value,
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
