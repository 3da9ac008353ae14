"""What JAX promises on a CPU ("jax"), and of which ops that is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from equivalence.backends.contracts import base, reads_positions, stepping_in_storage
from equivalence.backends.jax.functions import JAX, JAX64
from equivalence.worlds.contract import Contract, ContractRule

ASKED = frozenset(
    (
        *("add", "sub", "mul", "div", "maximum", "minimum", "square", "sqrt", "exp", "log", "tanh"),
        *("relu", "where", "sum", "mean", "max", "broadcast_to", "reshape", "permute", "take"),
        *("scatter_add", "slice", "concat", "detach", "matmul", "linear", "softmax", "log_softmax"),
        *("layer_norm", "mse_loss", "nll_loss", "cross_entropy"),
    )
)
"""The ops that JAX was asked about; of the others nobody knows yet what it does otherwise.

Their findings are written. Who adds a page judges it (`make conformance-jax`).
"""

FLUSHED_WHY = "XLA runs on a CPU with denormals as zero, in and out (tsl ScopedFlushDenormal)"
OPS_WHY = "JAX runs op by op, and an op's result is an array in the format of storage"
SCATTER_WHY = "XLA's scatter adds in the dtype of its array, that of storage"
BROADCAST_WHY = (
    "JAX pulls a cotangent back through a broadcast by lax.reduce_sum, which adds in the dtype of "
    "its array, that of storage, where jax.numpy.sum adds in fp32"
)
FLAX_WHY = "Flax's norms compute in float32 and cast their result once"

BROADCAST = frozenset({"broadcast_to", "linear"})
"""The ops of which JAX broadcasts an input, whose gradient is then a sum of 16-bit numbers."""


def _on_host(op: str, dtype: str) -> Contract:
    contract = base("jax", op, dtype, JAX64 if dtype == "fp64" else JAX, "stable")
    sources = (*contract.sources, FLUSHED_WHY)
    contract = replace(contract, flush="inputs_outputs", sources=sources)
    if contract.store == contract.compute:
        return contract
    if op == "layer_norm":
        return replace(contract, sources=(*sources, FLAX_WHY))
    if op in BROADCAST:
        return stepping_in_storage(contract, OPS_WHY, BROADCAST_WHY)
    return stepping_in_storage(contract, OPS_WHY, SCATTER_WHY if reads_positions(op) else "")


FAMILIES: Mapping[str, ContractRule] = {"jax": _on_host}
"""The rule of JAX, by the name that `declared` knows it by."""
