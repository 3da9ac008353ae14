"""Long programs on Bounded scalars: a session whose matrix products read whole rows at once.

The pages address one entry at a time, which is how they are read, not how they are fast.  Here
`linear` collects rows and columns by slicing and hands them to the same open function, `dot_terms`;
everything else is the page's.  A test holds both to the same balls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spec.op import AnyTensor
from spec.ops import OPS
from spec.scalar import dot_terms, sum_terms
from spec.session import Ref, Session
from spec.tensor import Tensor


def _rows(x: AnyTensor) -> list[tuple[Any, ...]]:
    """Return the rows of a matrix."""
    count, length = x.shape
    return [x.data[i * length : (i + 1) * length] for i in range(count)]


def _columns(x: AnyTensor) -> list[tuple[Any, ...]]:
    """Return the columns of a matrix."""
    length = x.shape[1]
    return [x.data[j::length] for j in range(length)]


def product(left: Sequence[Sequence[Any]], right: Sequence[Sequence[Any]]) -> AnyTensor:
    """Return the matrix of dot products of two lists of vectors."""
    entries = [dot_terms(a, b) for a in left for b in right]
    return Tensor((len(left), len(right)), entries)


def value(x: AnyTensor, w: AnyTensor, b: AnyTensor) -> AnyTensor:
    """Return x w^T + b for a matrix x."""
    found = product(_rows(x), _rows(w))
    wide = w.shape[0]
    return Tensor(found.shape, [z + b.data[k % wide] for k, z in enumerate(found.data)])


def vjp(
    inputs: Sequence[AnyTensor], cotangent: AnyTensor, *, input_wanted: bool = True
) -> tuple[AnyTensor | None, ...]:
    """Return the three gradients; that of x only where something wants it."""
    x, w, b = inputs
    by_output = _columns(cotangent)
    dx = product(_rows(cotangent), _columns(w)) if input_wanted else None
    db = Tensor(b.shape, [sum_terms(column) for column in by_output])
    return dx, product(by_output, _columns(x)), db


LINEAR = replace(OPS["linear"], value=value, vjp=vjp)
"""The page `linear`, for matrices, evaluated by rows."""

FIRST_LINEAR = replace(
    LINEAR, vjp=lambda inputs, cotangent: vjp(inputs, cotangent, input_wanted=False)
)
"""The same where the input is data: nobody wants its gradient."""


class Rowwise:
    """What a program receives as `ops`: a session, with `linear` by rows."""

    def __init__(self, session: Session) -> None:
        """Wrap a session."""
        self._session = session

    def __getattr__(self, name: str) -> Any:
        """Find every other operation in the session."""
        return getattr(self._session, name)

    def linear(self, x: Ref, w: Ref, b: Ref) -> Ref:
        """Apply a matrix of weights and a bias to the rows of a matrix."""
        tape = self._session.tape
        op = LINEAR if tape.node(x.id).requires_grad else FIRST_LINEAR
        return Ref(self._session, tape.apply(op, x.id, w.id, b.id))
