"""A composite's derivatives go where its program lets them, and no further."""

from __future__ import annotations

import math

import pytest

from spec.composite import composite
from spec.op import Rejected
from spec.ops import OPS
from spec.refusals import Unknown
from spec.tensor import tensor


def test_no_derivative_goes_behind_what_stops_it() -> None:
    """Behind a detach exp overflows: its partial, by which 0 is NaN, is not asked."""
    op = composite(
        "beside",
        lambda x: x,
        lambda ops, x: ops.add(x, ops.detach(ops.exp(x))),
        (OPS["add"], OPS["detach"], OPS["exp"]),
    )
    x, g = tensor([1000.0, 0.0]), tensor([2.0, 3.0])
    assert op(x) == tensor([math.inf, 1.0])
    assert op.vjp((x,), g) == (g,)
    assert op.jvp((x,), (g,)) == g


def test_all_of_a_program_may_be_stopped() -> None:
    op = composite("shut", lambda x: x, lambda ops, x: ops.detach(x), (OPS["detach"],))
    x = tensor([math.inf])
    assert op.vjp((x,), tensor([1.0])) == (tensor([0.0]),)
    assert op.jvp((x,), (tensor([1.0]),)) == tensor([0.0])


def test_a_program_that_asks_for_a_page_it_does_not_name_is_refused() -> None:
    op = composite("twice", lambda x: x, lambda ops, x: ops.sqare(x), (OPS["square"],))
    with pytest.raises(Unknown, match=r"no op in uses 'sqare'; the nearest are square$") as caught:
        op(tensor([1.0]))
    assert isinstance(caught.value, Rejected)
