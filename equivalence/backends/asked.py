"""The pages that JAX was asked about; of the others nobody knows yet what it does otherwise."""

from __future__ import annotations

ASKED = frozenset(
    (
        *("add", "sub", "mul", "div", "maximum", "minimum", "square", "sqrt", "exp", "log", "tanh"),
        *("relu", "where", "sum", "mean", "max", "broadcast_to", "reshape", "permute", "take"),
        *("scatter_add", "slice", "concat", "detach", "matmul", "linear", "softmax", "log_softmax"),
        *("layer_norm", "mse_loss", "nll_loss", "cross_entropy"),
    )
)
"""Their findings are written; who adds a page judges it (`make conformance-jax`)."""
