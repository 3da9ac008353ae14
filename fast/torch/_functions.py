"""The fused ops as functions on torch tensors, with the arguments of torch.nn.functional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fast.errors import Rejected
from fast.optim._rule import as_double as number
from fast.torch._library import call, define, described, provider_of, same


def softmax(
    input: Tensor,
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: torch.dtype | None = None,
    *,
    provider: str | None = None,
) -> Tensor:
    """Normalize exponentials along an axis; a tensor of the shape and dtype of the input.

    The arguments are those of torch.nn.functional.softmax: with a `dtype` the input is converted
    first. Raises `Rejected` without `dim`, and (C1) for an axis that there is not. See
    `fast.ops.softmax`.
    """
    chosen = provider_of("softmax", provider, input)
    return _along("softmax", input, dim, dtype, chosen)


def log_softmax(
    input: Tensor,
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: torch.dtype | None = None,
    *,
    provider: str | None = None,
) -> Tensor:
    """Take the logarithm of the softmax along an axis; a tensor of the input's shape and dtype.

    The arguments are those of torch.nn.functional.log_softmax, and `softmax` says what of them is
    Rejected. See `fast.ops.log_softmax`.
    """
    chosen = provider_of("log_softmax", provider, input)
    return _along("log_softmax", input, dim, dtype, chosen)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    provider: str | None = None,
) -> Tensor:
    """Normalize over the last axes, of `normalized_shape`; scale by weight, and shift by bias.

    The arguments are those of torch.nn.functional.layer_norm: weight and bias have the normalized
    shape, or are None. Raises `Rejected` for shapes that do not fit and for eps <= 0 (C3). See
    `fast.ops.layer_norm`.
    """
    chosen = provider_of("layer_norm", provider, input)
    shape = _normalized("layer_norm", input, normalized_shape, {"weight": weight, "bias": bias})
    gamma = input.new_ones(shape) if weight is None else weight
    beta = input.new_zeros(shape) if bias is None else bias
    return call("layer_norm", (input, gamma, beta), number("layer_norm: eps", eps), chosen)


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
    *,
    provider: str | None = None,
) -> Tensor:
    """Divide the last axes, of `normalized_shape`, by their root mean square; scale by weight.

    The arguments are those of torch.nn.functional.rms_norm: weight has the normalized shape, or is
    None; an eps of None is torch's, 2^-23, and 2^-52 in float64. Raises `Rejected` for shapes that
    do not fit and for eps <= 0 (C3). See `fast.ops.rms_norm`.
    """
    chosen = provider_of("rms_norm", provider, input)
    shape = _normalized("rms_norm", input, normalized_shape, {"weight": weight})
    gamma = input.new_ones(shape) if weight is None else weight
    if eps is None:
        eps = torch.finfo(torch.promote_types(input.dtype, torch.float32)).eps
    return call("rms_norm", (input, gamma), number("rms_norm: eps", eps), chosen)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: None = None,
    ignore_index: int = -100,
    reduce: None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    provider: str | None = None,
) -> Tensor:
    """Score logits [N, C] against integer labels [N]; a scalar, or [N] if reduction is "none".

    The arguments are those of torch.nn.functional.cross_entropy; torch's deprecated `size_average`
    and `reduce` are Rejected. `weight` holds a number for each class, which is read: on a device
    that waits for what is under way, and `torch.compile` breaks its graph there. The mean over
    labels that are all ignored is 0, where torch gives NaN. A label out of range is refused on the
    host; on a device it sets the sticky flag (see `fast.Session.check_flag`). Raises `Rejected`
    (C1 to C6) otherwise. See `fast.ops.cross_entropy`.
    """
    for name, value in (("size_average", size_average), ("reduce", reduce)):
        if value is not None:
            raise Rejected(
                f"fast.torch.cross_entropy: {name} is not supported; leave it out, and use "
                "reduction, or use torch.nn.functional.cross_entropy"
            )
    smoothing = number("cross_entropy: label_smoothing", label_smoothing)
    chosen = provider_of("cross_entropy", provider, input)
    options = ignore_index, smoothing, reduction, _by_class(weight), chosen
    return call("cross_entropy", (input, target), *options)


def _by_class(weight: Tensor | None) -> list[float] | None:
    """Return the weights of the classes as numbers."""
    if weight is None:
        return None
    if not isinstance(weight, Tensor) or weight.dim() != 1 or not weight.is_floating_point():
        raise Rejected(
            "fast.torch.cross_entropy: weight is a tensor of a number for each class, or None; "
            f"got {described(weight)}"
        )
    return [float(w) for w in weight.tolist()]


def _along(
    name: str, x: Tensor, dim: int | None, dtype: torch.dtype | None, provider: str
) -> Tensor:
    if dim is None:
        raise Rejected(
            f"fast.torch.{name}: dim is needed, such as -1; torch chooses one by the rank where it "
            "is left out, and advises against that"
        )
    x = x if dtype is None else x.to(dtype)
    return call(name, (x,), dim, provider)


def _normalized(
    name: str, x: Tensor, given: Any, affine: dict[str, Tensor | None]
) -> tuple[int, ...]:
    """Return the normalized shape, after checking that it, weight and bias fit the input."""
    if not isinstance(given, (tuple, list)) or not given:
        raise Rejected(
            f"fast.torch.{name}: normalized_shape is a tuple of one extent or more, such as "
            f"{tuple(x.shape[-1:])}, got {described(given)}; the arguments are torch's "
            f"({', '.join(('input', 'normalized_shape', *affine, 'eps'))})"
        )
    shape = tuple(given)
    if tuple(x.shape[-len(shape) :]) != shape:
        raise Rejected(
            f"fast.torch.{name}: normalized_shape is that of the last axes, got {shape} for an "
            f"input of shape {tuple(x.shape)}"
        )
    for argument, value in affine.items():
        if value is not None and (not isinstance(value, Tensor) or tuple(value.shape) != shape):
            raise Rejected(
                f"fast.torch.{name}: {argument} is a tensor of the normalized shape {shape}, or "
                f"None; got {described(value)}"
            )
    return shape


def _loss(logits: Tensor, labels: Tensor, **attributes: Any) -> Sequence[Any]:
    return labels.shape if attributes["reduction"] == "none" else ()


define("softmax", "Tensor x", "int axis", ("axis",), same, 1)
define("log_softmax", "Tensor x", "int axis", ("axis",), same, 1)
define("layer_norm", "Tensor x, Tensor gamma, Tensor beta", "float eps", ("eps",), same, 3)
define("rms_norm", "Tensor x, Tensor gamma", "float eps", ("eps",), same, 2)
define(
    "cross_entropy",
    "Tensor logits, Tensor labels",
    "int ignore_index, float label_smoothing, str reduction, float[]? weight",
    ("ignore_index", "label_smoothing", "reduction", "weight"),
    _loss,
    1,
)
