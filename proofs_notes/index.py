"""Which note proves what is claimed of which op."""

from __future__ import annotations

NOTES: dict[str, str] = {
    "add": "pointwise.md",
    "sub": "pointwise.md",
    "mul": "pointwise.md",
    "div": "pointwise.md",
    "square": "pointwise.md",
    "sqrt": "pointwise.md",
    "exp": "pointwise.md",
    "log": "pointwise.md",
    "tanh": "pointwise.md",
    "relu": "pointwise.md",
    "sum": "sum.md",
    "broadcast_to": "data_movement.md",
    "reshape": "data_movement.md",
    "permute": "data_movement.md",
    "take": "data_movement.md",
    "detach": "data_movement.md",
    "max": "max.md",
    "matmul": "matmul.md",
    "linear": "linear.md",
    "log_softmax": "log_softmax.md",
    "softmax": "softmax.md",
    "layer_norm": "layer_norm.md",
    "nll_loss": "nll_loss.md",
    "cross_entropy": "cross_entropy.md",
}
"""The note of each op, in the reading order of the ops."""

GENERAL = ("README.md", "calculus.md", "budget.md")
"""Notes that are about no single op."""
