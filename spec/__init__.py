"""Spec: the truth. A slow, typed, pure-Python reference for tensors and automatic differentiation.

Read the chapters in the order of `CHAPTERS`; each has its place in its first line, imports only
those before it, and shows an example.
"""

from spec import worlds as worlds  # floats and fractions register their rules when imported

CHAPTERS = (
    "scalar",
    "worlds",
    "refusals",
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
    "indexing",
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
)
"""The reading order, which the house rules check: a chapter imports only earlier ones."""
