"""Torch itself as a backend: its eager operations, its autograd, its optimizers.

Each operation is torch's own of the same meaning, without help: where torch's convention differs
from the reference's (a mean over no labels is NaN, a zero cotangent times an infinity is NaN) the
difference is declared in `findings.toml` beside this file, not hidden here.
Ops that draw are left out: torch has a generator of its own, whose bits are not those of the pages.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from equivalence.backends.parts import every_extra
from equivalence.backends.protocol import Capabilities, OptimizerHandle, Results
from equivalence.backends.torch.contract import of_torchs_own
from equivalence.backends.torch.norms import NORMS
from equivalence.backends.torch.optim import EPS, TorchOptimizer, offered
from equivalence.cases.call import TORCH
from equivalence.cases.declared.calls import CallTypes, TensorTypes
from equivalence.conventions import OURS
from equivalence.dtypes import DTYPES
from equivalence.registry import OPS as PAGES
from spec.ops.chain import read
from spec.ops.linear_activation import ACTIVATIONS

Widths = tuple[int, ...]


def _sum(x: Tensor, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
    """Sum over axes; to torch an empty tuple of axes means all of them."""
    if axes == ():
        return x.clone()
    return torch.sum(x, dim=axes, keepdim=keepdims)


def _mean(x: Tensor, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
    """Average over axes; to torch an empty tuple of axes means all of them."""
    if axes == ():
        return x.clone()
    return torch.mean(x, dim=axes, keepdim=keepdims)


def _norm(
    x: Tensor, ord: int = 2, axes: tuple[int, ...] | None = None, keepdims: bool = False
) -> Tensor:
    """Measure by axes; no axis is one of one entry, as to torch an empty tuple means all."""
    if axes == ():
        x, axes, keepdims = x.unsqueeze(-1), (-1,), False
    found: Tensor = torch.linalg.vector_norm(x, ord, axes, keepdims)
    return found


def _prod(x: Tensor, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
    """Multiply along one axis, which torch's prod takes: all that are named, brought together."""
    if axes is None:
        return torch.prod(x).reshape((1,) * x.dim()) if keepdims else torch.prod(x)
    last = range(x.dim() - len(axes), x.dim())
    y = torch.movedim(x, axes, tuple(last))
    z = torch.prod(y.reshape(*y.shape[: last.start], y.shape[last.start :].numel()), -1)
    gone = [axis % x.dim() for axis in axes]
    return z.reshape([1 if k in gone else n for k, n in enumerate(x.shape)]) if keepdims else z


def _cumsum(x: Tensor, axis: int, reverse: bool = False, exclusive: bool = False) -> Tensor:
    """Turn around what is added from the end; put a zero in front of what leaves an entry out."""
    turned = x.flip(axis) if reverse else x
    if exclusive and x.shape[axis]:
        zero = torch.zeros_like(turned.narrow(axis, 0, 1))
        turned = torch.cat((zero, turned.narrow(axis, 0, x.shape[axis] - 1)), axis)
    sums = torch.cumsum(turned, axis)
    return sums.flip(axis) if reverse else sums


def _max(x: Tensor, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
    """Take maxima; amax shares ties equally, as the reference does."""
    if axes == ():
        return x.clone()
    return torch.amax(x, dim=tuple(range(x.dim())) if axes is None else axes, keepdim=keepdims)


def _min(x: Tensor, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
    """Take minima; amin shares ties equally, as the reference does."""
    if axes == ():
        return x.clone()
    return torch.amin(x, dim=tuple(range(x.dim())) if axes is None else axes, keepdim=keepdims)


def _logsumexp(x: Tensor, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
    """Name all axes; no axis is one of one entry, as to torch an empty tuple means all of them."""
    if axes == ():
        return torch.logsumexp(x.unsqueeze(-1), -1)
    return torch.logsumexp(x, tuple(range(x.dim())) if axes is None else axes, keepdims)


def _take(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Select along an axis with indices of any rank."""
    chosen = torch.index_select(x, axis, indices.flatten())
    at = axis % x.dim()
    return chosen.reshape(x.shape[:at] + indices.shape + x.shape[at + 1 :])


def _scatter_add(x: Tensor, indices: Tensor, source: Tensor, axis: int) -> Tensor:
    """Add along an axis with indices of any rank."""
    at = axis % x.dim()
    terms = source.reshape((*x.shape[:at], indices.numel(), *x.shape[at + 1 :]))
    return torch.index_add(x, axis, indices.flatten(), terms)


def _pad(x: Tensor, before: Widths, after: Widths, value: float = 0.0) -> Tensor:
    """Pad by torch's list of widths, which starts with the last axis."""
    widths = [n for pair in zip(before[::-1], after[::-1], strict=True) for n in pair]
    return functional.pad(x, widths, value=value)


def _one_hot(indices: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """Write ones, which torch has as integers."""
    return functional.one_hot(indices, classes).to(dtype)


def _kl_div(x: Tensor, target: Tensor, log_target: bool = False, reduction: str = "mean") -> Tensor:
    """Divide by the entries; torch warns that this mean is not per row."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="reduction: 'mean' divides")
        return functional.kl_div(x, target, reduction=reduction, log_target=log_target)


def _hinge_embedding_loss(x: Tensor, y: Tensor, **attrs: Any) -> Tensor:
    """Write the mask as the numbers 1 and -1."""
    return functional.hinge_embedding_loss(x, torch.where(y, 1, -1), **attrs)


def _weighed(x: Tensor, weight: tuple[float, ...] | None = None, **attrs: Any) -> dict[str, Any]:
    """Return the attributes of a call, its weights in a tensor."""
    if weight is None:
        return attrs
    return {**attrs, "weight": torch.tensor(weight, dtype=x.dtype)}


def _nll_loss(x: Tensor, labels: Tensor, **attrs: Any) -> Tensor:
    """Read off labels; of images, torch's gradient wants the scores contiguous, and raises."""
    own = x if x.dim() == 2 else x.contiguous()
    return functional.nll_loss(own, labels, **_weighed(x, **attrs))


def _chain(x: Tensor, steps: Sequence[object]) -> Tensor:
    """Take the steps one by one; torch fuses none that are called so."""
    for name, attributes in read(steps):
        x = OPS[name](x, **attributes)
    return x


def _linear_activation(x: Tensor, w: Tensor, b: Tensor, activation: str) -> Tensor:
    """Call torch's curve of the layer's result; torch fuses none that are called so."""
    name, attributes = ACTIVATIONS[activation]
    bent: Tensor = OPS[name](functional.linear(x, w, b), **attributes)
    return bent


SAME: dict[str, Callable[..., Tensor]] = {
    name: getattr(torch, name)
    for name, op in PAGES.items()
    if op.inputs and not op.attributes and hasattr(torch, name)
}
"""The ops that torch calls by the same name, with inputs alone."""

OPS: dict[str, Callable[..., Any]] = {
    **SAME,
    "sum": _sum,
    "mean": _mean,
    "broadcast_to": lambda x, shape: torch.broadcast_to(x, shape),
    "reshape": lambda x, shape: torch.reshape(x, shape),
    "permute": lambda x, axes: torch.permute(x, axes),
    "flatten": lambda x, start=0, end=-1: torch.flatten(x, start, end),
    "flip": lambda x, axes=None: torch.flip(x, tuple(range(x.dim())) if axes is None else axes),
    "pad": _pad,
    "take": _take,
    "gather": lambda x, indices, axis: torch.gather(x, axis, indices),
    "embedding": lambda indices, weight: functional.embedding(indices, weight),
    "one_hot": _one_hot,
    "scatter_add": _scatter_add,
    "slice": lambda x, axis, start, length: torch.narrow(x, axis, start, length),
    "concat": lambda *xs, axis: torch.cat(xs, dim=axis),
    "stack": lambda *xs, axis: torch.stack(xs, dim=axis),
    "triu": lambda x, diagonal=0: torch.triu(x, diagonal),
    "tril": lambda x, diagonal=0: torch.tril(x, diagonal),
    "cumsum": _cumsum,
    "cumprod": lambda x, axis: torch.cumprod(x, axis),
    "norm": _norm,
    "prod": _prod,
    "max": _max,
    "argmax": lambda x, axis=None, keepdims=False: torch.argmax(x, axis, keepdims),
    "min": _min,
    "argmin": lambda x, axis=None, keepdims=False: torch.argmin(x, axis, keepdims),
    "logsumexp": _logsumexp,
    "leaky_relu": lambda x, slope=0.01: functional.leaky_relu(x, slope),
    "clamp": lambda x, lo, hi: torch.clamp(x, lo, hi),
    "hardtanh": lambda x, lo=-1.0, hi=1.0: functional.hardtanh(x, lo, hi),
    "hardsigmoid": functional.hardsigmoid,
    "hardswish": functional.hardswish,
    "elu": lambda x, alpha=1.0: functional.elu(x, alpha),
    "selu": functional.selu,
    "pow": lambda x, c: torch.pow(x, c),
    "gelu": lambda x, approximate="none": functional.gelu(x, approximate=approximate),
    "silu": functional.silu,
    "mish": functional.mish,
    "softplus": functional.softplus,
    "log_sigmoid": functional.logsigmoid,
    "softsign": functional.softsign,
    "scale": lambda x, c: torch.mul(x, c),
    "chain": _chain,
    "cast": lambda x, to: x.to(TORCH[to], copy=True),
    "matmul": torch.mm,
    "linear": functional.linear,
    "linear_activation": _linear_activation,
    "log_softmax": lambda x, axis=-1: torch.log_softmax(x, dim=axis),
    "softmax": lambda x, axis=-1: torch.softmax(x, dim=axis),
    "masked_softmax": lambda x, mask, axis=-1: torch.softmax(
        x.masked_fill(mask.logical_not(), -torch.inf), axis
    ),
    **NORMS,
    "mse_loss": functional.mse_loss,
    "mae_loss": functional.l1_loss,
    "huber_loss": lambda x, y, delta=1.0, reduction="mean": functional.huber_loss(
        x, y, reduction, delta
    ),
    "smooth_l1_loss": lambda x, y, beta=1.0, reduction="mean": functional.smooth_l1_loss(
        x, y, reduction=reduction, beta=beta
    ),
    "bce_with_logits": functional.binary_cross_entropy_with_logits,
    "kl_div": _kl_div,
    "hinge_embedding_loss": _hinge_embedding_loss,
    "triplet_margin_loss": functional.triplet_margin_loss,
    "nll_loss": _nll_loss,
    "cross_entropy": lambda x, labels, **attrs: functional.cross_entropy(
        x, labels, **_weighed(x, **attrs)
    ),
}


def _takes_batch_norm(call: CallTypes) -> bool:
    """Say whether torch's batch_norm reads what it is given.

    Without channels it reads an element that is not there. The gradient of matrices reads the
    weight as if it were contiguous, and so what lies beside it (batch_norm_kernel.cpp).
    """
    x, weight = call.inputs[:2]
    if call.direction == "vjp" and _of_two_orders(x):
        return False
    return weight.shape == (1,) or (0 not in weight.shape and weight.strides == (1,))


def _of_two_orders(x: TensorTypes) -> bool:
    """Say whether torch names two orders in memory for one tensor.

    `is_contiguous` passes over the strides of axes of one entry, and `suggest_memory_format` reads
    them. Where channels lie last by the first alone, the gradient of batch_norm reads a cotangent
    that it has laid out by the second (Normalization.cpp).
    """
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(len(x.shape))
    if last is None or x.contiguous:
        return False
    laid = torch.empty_strided(x.shape, x.strides, device="meta")
    usual = torch.empty(x.shape, device="meta", memory_format=last)
    return laid.is_contiguous(memory_format=last) and laid.stride() != usual.stride()


UPDATED = tuple(name for name, dtype in DTYPES.items() if 2.0**dtype.store.least_exponent < EPS)
"""The dtypes in which there are updates: torch takes their steps in the parameters' own format, and
in fp16 the default eps is 0 and most second moments are, so that 0 / 0 is the update."""


class TorchBackend:
    """Torch's eager mode on the CPU."""

    name = "torch"

    def capabilities(self) -> Capabilities:
        """Offer every operation in every dtype."""
        return Capabilities(
            ops=dict.fromkeys(OPS, DTYPES),
            contract=of_torchs_own,
            optimizers=dict.fromkeys(offered(), UPDATED),
            extras=every_extra(offered()),
            takes={"batch_norm": _takes_batch_norm},
            conventions=OURS,
        )

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Results:
        """Call torch."""
        result: Results = OPS[op](*inputs, **attrs)
        return result

    def vjp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        cotangents: Sequence[Tensor],
    ) -> Sequence[Tensor | None]:
        """Call torch under autograd; what no gradient reached has gradient zero."""
        return pulled_back(OPS[op], cotangents, inputs, attrs)

    def optimizer(
        self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]
    ) -> OptimizerHandle:
        """Put parameters under torch's optimizer."""
        return TorchOptimizer(name, params, hyper)


def pulled_back(
    call: Callable[..., Results],
    cotangents: Tensor | Sequence[Tensor],
    inputs: Sequence[Tensor],
    attrs: Mapping[str, Any],
) -> list[Tensor | None]:
    """Return the gradients of a call by torch's autograd, zeros where nothing was reached.

    Of several results there is a cotangent for each.
    """
    leaves = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    # Whoever asks may be inside a backward pass, where nothing is recorded otherwise.
    with torch.enable_grad():
        result = call(*leaves, **attrs)
    made = [result] if isinstance(result, Tensor) else result
    seeds = [cotangents] if isinstance(cotangents, Tensor) else cotangents
    joined = [pair for pair in zip(made, seeds, strict=True) if pair[0].requires_grad]
    found: Sequence[Tensor | None] = [None] * len(wanted)
    if joined:
        found = torch.autograd.grad(
            [z for z, _ in joined], wanted, [g for _, g in joined], allow_unused=True
        )
    gradients = iter(found)
    return [_or_zero(next(gradients), leaf) if leaf.requires_grad else None for leaf in leaves]


def _or_zero(gradient: Tensor | None, leaf: Tensor) -> Tensor:
    return torch.zeros_like(leaf) if gradient is None else gradient
