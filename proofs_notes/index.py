"""Which note proves what is claimed of which op."""

from __future__ import annotations

NOTES: dict[str, str] = {
    "add": "pointwise.md",
    "sub": "pointwise.md",
    "mul": "pointwise.md",
    "div": "pointwise.md",
    "maximum": "pointwise.md",
    "minimum": "pointwise.md",
    "square": "pointwise.md",
    "sqrt": "pointwise.md",
    "exp": "pointwise.md",
    "log": "pointwise.md",
    "tanh": "pointwise.md",
    "relu": "pointwise.md",
    "where": "pointwise.md",
    "sum": "sum.md",
    "mean": "mean.md",
    "broadcast_to": "data_movement.md",
    "reshape": "data_movement.md",
    "permute": "data_movement.md",
    "take": "data_movement.md",
    "scatter_add": "data_movement.md",
    "slice": "data_movement.md",
    "concat": "data_movement.md",
    "detach": "data_movement.md",
    "max": "max.md",
    "matmul": "matmul.md",
    "linear": "linear.md",
    "log_softmax": "log_softmax.md",
    "softmax": "softmax.md",
    "layer_norm": "layer_norm.md",
    "mse_loss": "mse_loss.md",
    "nll_loss": "nll_loss.md",
    "cross_entropy": "cross_entropy.md",
    "rand_uniform": "random.md",
    "rand_normal": "random.md",
    "bernoulli_mask": "random.md",
    "dropout": "random.md",
}
"""The note of each op, in the reading order of the ops."""

GENERAL = ("README.md", "calculus.md", "budget.md", "tape_equals_graph.md")
"""Notes that are about no single op."""
