"""JAX as a backend: its operations on a CPU, its reverse mode.

Each operation is JAX's own of the same meaning, without help, as in the backend of torch; what
differs from the reference's conventions is declared in `findings.toml` beside this file.
It needs the extra `jax`: pip install 'twingrad[jax]'. JAX has no optimizers of its own, and its
random bits are not those of the pages, so that these rows are unsupported.

It offers the pages that it was asked about, and whose differences are known (`ASKED`).
JAX runs op by op here, each compiled for the shapes that it meets, so that a run takes longer than
another library's.
"""

# This file is longer than the guide because most ops have a function here.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import torch
from jax import lax, nn
from torch import Tensor

from equivalence.backends.jax.contract import ASKED, FAMILIES
from equivalence.backends.jax.losses import LOSSES
from equivalence.backends.protocol import Capabilities
from equivalence.dtypes import DTYPES

Array = Any
"""A jax.Array; JAX's own annotations leave too much open to be checked strictly."""

jax.config.update("jax_enable_x64", True)  # else float64 is silently float32
jax.config.update("jax_platforms", "cpu")


def _sub(x: Array, y: Array) -> Array:
    return jnp.subtract(x, y)


def _mul(x: Array, y: Array) -> Array:
    return jnp.multiply(x, y)


def _div(x: Array, y: Array) -> Array:
    return jnp.divide(x, y)


def _relu(x: Array) -> Array:
    return nn.relu(x)


def _sum(x: Array, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    return jnp.sum(x, axis=axes, keepdims=keepdims)


def _mean(x: Array, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    return jnp.mean(x, axis=axes, keepdims=keepdims)


def _max(x: Array, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    return jnp.max(x, axis=axes, keepdims=keepdims)


def _permute(x: Array, axes: tuple[int, ...]) -> Array:
    return jnp.transpose(x, axes)


def _take(x: Array, indices: Array, axis: int) -> Array:
    return jnp.take(x, indices, axis=axis)


def _scatter_add(x: Array, indices: Array, source: Array, axis: int) -> Array:
    """Add along an axis with indices of any rank; IndexError where there is no such axis."""
    at = range(x.ndim)[axis]
    terms = source.reshape((*x.shape[:at], indices.size, *x.shape[at + 1 :]))
    return x.at[(slice(None),) * at + (indices.reshape(-1),)].add(terms)


def _slice(x: Array, axis: int, start: int, length: int) -> Array:
    return lax.slice_in_dim(x, start, start + length, axis=axis)


def _concat(*xs: Array, axis: int) -> Array:
    return jnp.concatenate(xs, axis=axis)


def _detach(x: Array) -> Array:
    return lax.stop_gradient(x)


def _matmul(x: Array, y: Array) -> Array:
    return jnp.matmul(x, y, precision="highest")


def _linear(x: Array, w: Array, b: Array) -> Array:
    return jnp.matmul(x, w.T, precision="highest") + b


def _log_softmax(x: Array, axis: int = -1) -> Array:
    return nn.log_softmax(x, axis=axis)


def _softmax(x: Array, axis: int = -1) -> Array:
    return nn.softmax(x, axis=axis)


def _layer_norm(x: Array, gamma: Array, beta: Array, eps: float = 1e-5) -> Array:
    """Write the norm as Flax does, without its fast variance: 16 bits are computed in float32."""
    dtype = jnp.promote_types(x.dtype, jnp.float32)
    wide, gamma, beta = (given.astype(dtype) for given in (x, gamma, beta))
    axes = tuple(range(-gamma.ndim, 0))
    centred = wide - jnp.mean(wide, axis=axes, keepdims=True)
    spread = jnp.var(wide, axis=axes, keepdims=True)
    return (centred * lax.rsqrt(spread + eps) * gamma + beta).astype(x.dtype)


OWN = (
    *(_sub, _mul, _div, _relu, _sum, _mean, _max, _permute, _take, _scatter_add, _slice, _concat),
    *(_detach, _matmul, _linear, _log_softmax, _softmax, _layer_norm),
    *LOSSES,
)
"""What JAX calls, or calls with, other names than the pages: each is named for its op."""

OPS: dict[str, Callable[..., Array]] = {
    **{name: getattr(jnp, name) for name in ASKED if hasattr(jnp, name)},
    **{function.__name__[1:]: function for function in OWN},
}


class JaxBackend:
    """JAX on a CPU."""

    name = "jax"

    def capabilities(self) -> Capabilities:
        """Offer every operation in every dtype."""
        return Capabilities(ops=dict.fromkeys(OPS, DTYPES), contract=FAMILIES["jax"])

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
    given = tensor.detach().contiguous()
    if given.dtype is torch.bool:
        return jnp.array(given.numpy())
    return jnp.array(jax.dlpack.from_dlpack(given), copy=True)


def _torch(array: Array) -> Tensor:
    """Copy an array."""
    copied: Tensor = torch.utils.dlpack.from_dlpack(array.block_until_ready()).clone()
    return copied
