"""The fused ops as functions on torch tensors, known to torch's autograd, compiler and checks.

Each op is a pair in torch's library, `twingrad::<op>` and `twingrad::<op>_backward`. Only the
inputs are saved between the two: the backward forms the row statistics anew, which costs one more
pass over the rows and no memory. There is no second derivative: torch says so if asked for one.
There is no forward mode either, and torch takes that for a derivative of zero: `Unavailable` says
so instead. Results are contiguous, whatever the layout of the inputs.
"""

# This file is longer than the guide because every function stands here, with torch's arguments.

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.library import custom_op

from fast.device import mode
from fast.device.dtypes import KERNELS
from fast.errors import Rejected, Unavailable
from fast.kernels.product import TF32
from fast.ops import OPS
from fast.optim._rule import as_double as number

Backward = Callable[..., tuple[Tensor, ...]]

PRODUCTS = frozenset({"matmul", "bmm"})
"""The ops that save their inputs alone, so that a backward pass need not form the value anew."""


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
    chosen = _chosen("softmax", provider, input)
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
    chosen = _chosen("log_softmax", provider, input)
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
    chosen = _chosen("layer_norm", provider, input)
    shape = _normalized("layer_norm", input, normalized_shape, {"weight": weight, "bias": bias})
    gamma = input.new_ones(shape) if weight is None else weight
    beta = input.new_zeros(shape) if bias is None else bias
    return _call("layer_norm", (input, gamma, beta), number("layer_norm: eps", eps), chosen)


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
    chosen = _chosen("rms_norm", provider, input)
    shape = _normalized("rms_norm", input, normalized_shape, {"weight": weight})
    gamma = input.new_ones(shape) if weight is None else weight
    if eps is None:
        eps = torch.finfo(torch.promote_types(input.dtype, torch.float32)).eps
    return _call("rms_norm", (input, gamma), number("rms_norm: eps", eps), chosen)


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
    chosen = _chosen("cross_entropy", provider, input)
    options = ignore_index, smoothing, reduction, _by_class(weight), chosen
    return _call("cross_entropy", (input, target), *options)


def _by_class(weight: Tensor | None) -> list[float] | None:
    """Return the weights of the classes as numbers."""
    if weight is None:
        return None
    if not isinstance(weight, Tensor) or weight.dim() != 1 or not weight.is_floating_point():
        raise Rejected(
            "fast.torch.cross_entropy: weight is a tensor of a number for each class, or None; "
            f"got {_described(weight)}"
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
    return _call(name, (x,), dim, provider)


def _normalized(
    name: str, x: Tensor, given: Any, affine: dict[str, Tensor | None]
) -> tuple[int, ...]:
    """Return the normalized shape, after checking that it, weight and bias fit the input."""
    if not isinstance(given, (tuple, list)) or not given:
        raise Rejected(
            f"fast.torch.{name}: normalized_shape is a tuple of one extent or more, such as "
            f"{tuple(x.shape[-1:])}, got {_described(given)}; the arguments are torch's "
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
                f"None; got {_described(value)}"
            )
    return shape


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return repr(value)


def _chosen(name: str, provider: str | None, x: Tensor) -> str:
    if not isinstance(x, Tensor):
        came = type(x).__name__
        raise Rejected(f"fast.torch.{name}: a tensor of torch is needed, got {came}")
    if provider is None:
        kernels = x.is_cuda and mode.ring() == "device" and x.dtype in KERNELS
        return "triton" if kernels else "aten"
    if provider not in ("aten", "triton"):
        raise Rejected(f"fast.torch: unknown provider {provider!r}; there are 'aten' and 'triton'")
    if provider == "triton" and not torch.compiler.is_compiling():
        mode.say_if_interpreted(f"fast.torch.{name}", stacklevel=3)
    return provider


def _call(name: str, inputs: tuple[Tensor, ...], *rest: Any) -> Tensor:
    """Run an op of torch's library, or raise `Unavailable` under a transform that it does not know.

    A tangent of `torch.func` is seen only here: torch takes it off before it runs the op.
    """
    _refuse_tangents(name, inputs)
    try:
        result: Tensor = getattr(torch.ops.twingrad, name)(*inputs, *rest)
    except RuntimeError as error:
        if "setup_context" not in str(error):
            raise
        raise Unavailable(
            f"fast.torch.{name}: torch.func's grad, vjp and jacrev refuse "
            "ops of torch.library; use torch.autograd.grad or backward(), or "
            f"{_theirs(name)}"
        ) from error
    return result


def _refuse_tangents(name: str, inputs: Sequence[Tensor]) -> None:
    if any(_carries_tangent(x) for x in inputs):
        raise Unavailable(
            f"fast.torch.{name}: an input carries a tangent, and the op has no forward mode "
            f"(torch.func.jvp, jacfwd, linearize, forward_ad); use {_theirs(name)}, or "
            "reverse mode by torch.autograd.grad or backward()"
        )


def _theirs(name: str) -> str:
    """Return torch's own function."""
    return f"torch.{name}" if name in PRODUCTS else f"torch.nn.functional.{name}"


def _carries_tangent(x: Tensor) -> bool:
    try:
        unpacked: Any = forward_ad.unpack_dual(x)  # type: ignore[no-untyped-call]
    except RuntimeError:
        # torch cannot look into a batch of vmap; it is asked only where forward mode is on.
        return True
    return unpacked.tangent is not None


def _value(name: str, provider: str, inputs: Sequence[Tensor], attributes: dict[str, Any]) -> Any:
    op = OPS[name]
    _refuse_tangents(name, inputs)
    op.check(*inputs, **attributes)
    return op.hosts(provider)[0](*inputs, **attributes)


def _vjp(
    name: str,
    provider: str,
    cotangent: Tensor,
    inputs: Sequence[Tensor],
    attributes: dict[str, Any],
    wanted: int,
) -> tuple[Tensor, ...]:
    """Return the cotangents of the first `wanted` inputs, none of which is a view of another."""
    kept = name in PRODUCTS
    saved = (*inputs, TF32.get()) if kept else _value(name, provider, inputs, attributes)[1]
    needs = [position < wanted for position in range(len(inputs))]
    found = OPS[name].hosts(provider)[1](saved, cotangent, needs)[:wanted]
    return tuple(gradient.contiguous() for gradient in found if gradient is not None)


def _define(
    name: str,
    inputs: str,
    attributes: str,
    names: tuple[str, ...],
    shape: Callable[..., Sequence[Any]],
    differentiable: int,
) -> None:
    """Tell torch of an op: its value, its backward, their shapes, and how they belong together.

    `inputs` and `attributes` are parts of torch's schema; `shape(*inputs, **attributes)` is that of
    the result; the first `differentiable` inputs have cotangents.
    """
    count = inputs.count("Tensor")

    def split(arguments: Sequence[Any]) -> tuple[tuple[Tensor, ...], dict[str, Any], str]:
        *middle, provider = arguments[count:]
        return tuple(arguments[:count]), dict(zip(names, middle, strict=True)), provider

    def value(*arguments: Any) -> Tensor:
        tensors, chosen, provider = split(arguments)
        result: Tensor = _value(name, provider, tensors, chosen)[0]
        return result.contiguous()

    def backward(cotangent: Tensor, *arguments: Any) -> list[Tensor]:
        tensors, chosen, provider = split(arguments)
        return list(_vjp(name, provider, cotangent, tensors, chosen, differentiable))

    def fake_value(*arguments: Any) -> Tensor:
        tensors, chosen, _ = split(arguments)
        return tensors[0].new_empty(tuple(shape(*tensors, **chosen)))

    def fake_backward(cotangent: Tensor, *arguments: Any) -> list[Tensor]:
        tensors = split(arguments)[0]
        return [x.new_empty(x.shape) for x in tensors[:differentiable]]

    def remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:count])
        ctx.rest = inputs[count:]

    def propagate(ctx: Any, cotangent: Tensor) -> tuple[Tensor | None, ...]:
        found = back(cotangent, *ctx.saved_tensors, *ctx.rest)
        nothing = (None,) * (count - differentiable + len(ctx.rest))
        return (*found, *nothing)

    schema = ", ".join(part for part in (inputs, attributes, "str provider") if part)
    front = custom_op(f"twingrad::{name}", value, mutates_args=(), schema=f"({schema}) -> Tensor")
    back = custom_op(
        f"twingrad::{name}_backward",
        backward,
        mutates_args=(),
        schema=f"(Tensor cotangent, {schema}) -> Tensor[]",
    )
    front.register_fake(fake_value)
    back.register_fake(fake_backward)
    front.register_autograd(propagate, setup_context=remember)


def _same(x: Tensor, *others: Tensor, **attributes: Any) -> Sequence[Any]:
    return x.shape


def _of_matrices(x: Tensor, y: Tensor) -> Sequence[Any]:
    return (*x.shape[:-1], y.shape[-1])


def _loss(logits: Tensor, labels: Tensor, **attributes: Any) -> Sequence[Any]:
    return labels.shape if attributes["reduction"] == "none" else ()


_define("softmax", "Tensor x", "int axis", ("axis",), _same, 1)
_define("log_softmax", "Tensor x", "int axis", ("axis",), _same, 1)
_define("matmul", "Tensor x, Tensor y", "", (), _of_matrices, 2)
_define("bmm", "Tensor x, Tensor y", "", (), _of_matrices, 2)
_define("layer_norm", "Tensor x, Tensor gamma, Tensor beta", "float eps", ("eps",), _same, 3)
_define("rms_norm", "Tensor x, Tensor gamma", "float eps", ("eps",), _same, 2)
_define(
    "cross_entropy",
    "Tensor logits, Tensor labels",
    "int ignore_index, float label_smoothing, str reduction, float[]? weight",
    ("ignore_index", "label_smoothing", "reduction", "weight"),
    _loss,
    1,
)
