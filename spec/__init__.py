"""Spec: the truth. A slow, typed, pure-Python reference for tensors and automatic differentiation.

    from spec import Session, tensor, grad

`python -m spec` prints where to start. Read the chapters in the order of `CHAPTERS`; each has its
place in its first line, imports only those before it, and shows an example. Who is after reverse
mode alone reads those of `REVERSE_MODE`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from spec import worlds as worlds  # floats and fractions register their rules when imported

# This function hides the module of its name; `from spec.tensor import ...` finds that all the same.
from spec.tensor import Tensor as Tensor
from spec.tensor import tensor as tensor

CHAPTERS = (
    "scalar",
    "worlds",
    "refusals",
    "answers",
    "shape",
    "buffers",
    "tensor",
    "op",
    "kinds",
    "composite",
    "axes",
    "several",
    "losses",
    "rng",
    "ops",
    "dual",
    "levels",
    "formats",
    "rounded",
    "tape",
    "protocol",
    "record",
    "named",
    "indexing",
    "einsum",
    "products",
    "broadcasting",
    "normalizing",
    "ref",
    "graph",
    "autodiff",
    "optim",
    "naturals",
    "params",
    "updates",
    "session",
    "linked",
    "batches",
    "train",
    "show",
    "picture",
    "__main__",
)
"""The reading order, which the house rules check: a chapter imports only earlier ones."""

REVERSE_MODE = (
    "scalar",
    "tensor",
    "op",
    "kinds",
    "tape",
    "ref",
    "autodiff",
    "session",
    "show",
)
"""A way through the chapters for who wants to know how a gradient is found, and nothing else.

What a number is asked (scalar), what a tensor is, what an operation states of itself (op, kinds),
how a tape goes back over what was done, what a program holds in its hands (ref), gradients of whole
functions (autodiff), the session that puts it together, and how it looks (show).
"""

if TYPE_CHECKING:
    from spec.autodiff import (
        grad,
        hessian,
        hvp,
        jacfwd,
        jacrev,
        jvp,
        value_and_grad,
        vjp,
    )
    from spec.dual import Dual
    from spec.linked import GraphSession
    from spec.ops import OPS
    from spec.optim import OPTIMIZERS
    from spec.params import Param
    from spec.ref import Ref
    from spec.refusals import Rejected
    from spec.session import Session

_FROM = {
    "Session": "session",
    "GraphSession": "linked",
    "Param": "params",
    "Ref": "ref",
    "Rejected": "refusals",
    "OPS": "ops",
    "OPTIMIZERS": "optim",
    "Dual": "dual",
    **dict.fromkeys(
        ("grad", "value_and_grad", "vjp", "jvp", "hvp", "hessian", "jacrev", "jacfwd"), "autodiff"
    ),
}

__all__ = [
    "CHAPTERS",
    "OPS",
    "OPTIMIZERS",
    "REVERSE_MODE",
    "Dual",
    "GraphSession",
    "Param",
    "Ref",
    "Rejected",
    "Session",
    "Tensor",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jvp",
    "tensor",
    "value_and_grad",
    "vjp",
]

if not TYPE_CHECKING:
    # Chapters are imported when a name of theirs is asked for.
    def __getattr__(name: str) -> Any:
        if name in _FROM:
            return getattr(importlib.import_module(f"spec.{_FROM[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
