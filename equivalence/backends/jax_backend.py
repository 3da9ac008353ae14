"""JAX as a backend: its operations on the CPU, its reverse and its forward mode.

Each operation is JAX's own of the same meaning, without help, as in `torch_backend`; what differs
from the reference's conventions is declared in `equivalence/budgets/findings.toml`.
It needs the extra `jax`: pip install 'twingrad[jax]'. JAX has no optimizers of its own, and its
random bits are not those of the pages, so that these rows are unsupported.

JAX runs op by op here, each compiled for the shapes that it meets, so a run takes longer than
another library's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import torch
from jax import lax, nn
from torch import Tensor

from equivalence.backends.protocol import Capabilities
from equivalence.budgets.declared import declared
from equivalence.dtypes import DTYPES

Array = Any
"""A jax.Array; JAX's own annotations leave too much open to be checked strictly."""

jax.config.update("jax_enable_x64", True)  # else float64 is silently float32
jax.config.update("jax_platforms", "cpu")


def _scatter_add(x: Array, indices: Array, source: Array, axis: int) -> Array:
    """Add along an axis with indices of any rank."""
    at = axis % x.ndim
    terms = source.reshape((*x.shape[:at], indices.size, *x.shape[at + 1 :]))
    return x.at[(slice(None),) * at + (indices.reshape(-1),)].add(terms)


def _layer_norm(x: Array, gamma: Array, beta: Array, eps: float = 1e-5) -> Array:
    """Write the norm as JAX's users do, with jax.numpy.var."""
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    spread = jnp.var(x, axis=-1, keepdims=True)
    return centred * lax.rsqrt(spread + eps) * gamma + beta


def _reduced(losses: Array, count: Array, reduction: str) -> Array:
    if reduction == "none":
        return losses
    total = jnp.sum(losses)
    return total if reduction == "sum" else total / count


def _mse_loss(x: Array, y: Array, reduction: str = "mean") -> Array:
    return _reduced(jnp.square(x - y), x.size, reduction)


def _nll_loss(
    log_probabilities: Array, labels: Array, ignore_index: int = -100, reduction: str = "mean"
) -> Array:
    kept = labels != ignore_index
    picked = jnp.where(kept, labels, 0)[:, None]
    losses = -jnp.take_along_axis(log_probabilities, picked, axis=1)[:, 0]
    return _reduced(jnp.where(kept, losses, 0), _counted(kept, losses), reduction)


def _cross_entropy(
    logits: Array,
    labels: Array,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Array:
    """Mix the loss of the label with the mean over the classes, as the page does."""
    scores = nn.log_softmax(logits, axis=1)
    kept = labels != ignore_index
    picked = jnp.take_along_axis(scores, jnp.where(kept, labels, 0)[:, None], axis=1)[:, 0]
    smooth = jnp.mean(scores, axis=1)
    losses = -((1 - label_smoothing) * picked + label_smoothing * smooth)
    return _reduced(jnp.where(kept, losses, 0), _counted(kept, losses), reduction)


def _counted(kept: Array, losses: Array) -> Array:
    """Count the labels that are not ignored, at least one."""
    return jnp.maximum(jnp.sum(kept), 1).astype(losses.dtype)


OPS: dict[str, Callable[..., Array]] = {
    "add": jnp.add,
    "sub": jnp.subtract,
    "mul": jnp.multiply,
    "div": jnp.divide,
    "maximum": jnp.maximum,
    "minimum": jnp.minimum,
    "square": jnp.square,
    "sqrt": jnp.sqrt,
    "exp": jnp.exp,
    "log": jnp.log,
    "tanh": jnp.tanh,
    "relu": nn.relu,
    "where": jnp.where,
    "sum": lambda x, axes=None, keepdims=False: jnp.sum(x, axis=axes, keepdims=keepdims),
    "mean": lambda x, axes=None, keepdims=False: jnp.mean(x, axis=axes, keepdims=keepdims),
    "max": lambda x, axes=None, keepdims=False: jnp.max(x, axis=axes, keepdims=keepdims),
    "broadcast_to": lambda x, shape: jnp.broadcast_to(x, shape),
    "reshape": lambda x, shape: jnp.reshape(x, shape),
    "permute": lambda x, axes: jnp.transpose(x, axes),
    "take": lambda x, indices, axis: jnp.take(x, indices, axis=axis),
    "scatter_add": _scatter_add,
    "slice": lambda x, axis, start, length: lax.slice_in_dim(x, start, start + length, axis=axis),
    "concat": lambda *xs, axis: jnp.concatenate(xs, axis=axis),
    "detach": lax.stop_gradient,
    "matmul": lambda x, y: jnp.matmul(x, y, precision="highest"),
    "linear": lambda x, w, b: jnp.matmul(x, w.T, precision="highest") + b,
    "log_softmax": lambda x, axis=-1: nn.log_softmax(x, axis=axis),
    "softmax": lambda x, axis=-1: nn.softmax(x, axis=axis),
    "layer_norm": _layer_norm,
    "mse_loss": _mse_loss,
    "nll_loss": _nll_loss,
    "cross_entropy": _cross_entropy,
}


class JaxBackend:
    """JAX on the CPU."""

    name = "jax"

    def capabilities(self) -> Capabilities:
        """Offer every operation in every dtype."""
        return Capabilities(ops=dict.fromkeys(OPS, DTYPES), contract=declared("jax"))

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        """Call JAX."""
        return _torch(OPS[op](*map(_jax, inputs), **attrs))

    def vjp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        cotangents: Sequence[Tensor],
    ) -> Sequence[Tensor | None]:
        """Pull the cotangent back through JAX's own rule."""
        function, real, at = _in_reals(op, inputs, attrs)
        found = iter(jax.vjp(function, *real)[1](_jax(cotangents[0])))
        return [_torch(next(found)) if k in at else None for k in range(len(inputs))]

    def jvp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        tangents: Sequence[Tensor | None],
    ) -> Tensor:
        """Push tangents forward through JAX's own rule."""
        function, real, at = _in_reals(op, inputs, attrs)
        given = [tangents[k] for k in at]
        pushed = [
            jnp.zeros_like(x) if t is None else _jax(t) for x, t in zip(real, given, strict=True)
        ]
        return _torch(jax.jvp(function, real, pushed)[1])


def _in_reals(
    op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]
) -> tuple[Callable[..., Array], list[Array], list[int]]:
    """Return an op as a function of its real inputs alone, these inputs, and their positions."""
    arrays = list(map(_jax, inputs))
    at = [k for k, x in enumerate(inputs) if x.is_floating_point()]

    def function(*real: Array) -> Array:
        full = list(arrays)
        for k, x in zip(at, real, strict=True):
            full[k] = x
        return OPS[op](*full, **attrs)

    return function, [arrays[k] for k in at], at


def _jax(tensor: Tensor) -> Array:
    """Copy a tensor, so that JAX, which may keep what it is handed, has memory of its own."""
    copied = tensor.detach().contiguous().clone()
    if copied.dtype is torch.bool:
        return jnp.asarray(copied.numpy())
    return jnp.array(jax.dlpack.from_dlpack(copied), copy=True)


def _torch(array: Array) -> Tensor:
    """Copy an array."""
    copied: Tensor = torch.from_dlpack(array.block_until_ready()).clone()
    return copied
