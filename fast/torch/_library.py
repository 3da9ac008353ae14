"""How ops are made known to torch's autograd, compiler and checks, and how they are called.

Each op is a pair in torch's library, `twingrad::<op>` and `twingrad::<op>_backward`. Only the
inputs are saved between the two: the backward forms the row statistics anew, which costs one more
pass over the rows and no memory. There is no second derivative: torch says so if asked for one.
There is no forward mode either, and torch takes that for a derivative of zero: `Unavailable` says
so instead. Results are contiguous, whatever the layout of the inputs.

No op of the library writes to its inputs. One with buffers returns what becomes of them, behind its
result: their new contents, or copies where they stay.
"""

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
from fast.kernels import checks
from fast.kernels.page import Saved
from fast.kernels.product import TF32
from fast.ops import OPS

SAVED: dict[str, Callable[..., Saved]] = {
    "matmul": lambda x, y: (x, y, TF32.get()),
    "bmm": lambda x, y: (x, y, TF32.get()),
    "mul": lambda x, y: (x, y),
    "sum": lambda x, axes: (x.shape, checks.axes("sum", x.dim(), axes), False),
}
"""What ops save that need nothing but their inputs: their backward forms no value anew."""

OF_TORCH = frozenset({*SAVED, "einsum"})
"""The functions that torch has under its own name; the others are in torch.nn.functional."""


def described(value: Any) -> str:
    """Say what came, in a message: of a tensor its shape."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return repr(value)


def provider_of(name: str, provider: str | None, x: Tensor) -> str:
    """Return the provider of a call: the one asked for, or that of the device of an input."""
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


def call(name: str, inputs: tuple[Tensor, ...], *rest: Any, who: str | None = None) -> Tensor:
    """Run an op of torch's library, or raise `Unavailable` under a transform that it does not know.

    A tangent of `torch.func` is seen only here: torch takes it off before it runs the op. `who` is
    the function that runs it, where that has another name. An op with buffers returns a tuple.
    """
    who = who or name
    refuse_tangents(who, inputs)
    try:
        result: Tensor = getattr(torch.ops.twingrad, name)(*inputs, *rest)
    except RuntimeError as error:
        if "setup_context" not in str(error):
            raise
        raise Unavailable(
            f"fast.torch.{who}: torch.func's grad, vjp and jacrev refuse "
            "ops of torch.library; use torch.autograd.grad or backward(), or "
            f"{_theirs(who)}"
        ) from error
    return result


def refuse_tangents(name: str, inputs: Sequence[Tensor]) -> None:
    """Refuse inputs with tangents, which an op would drop."""
    if any(_carries_tangent(x) for x in inputs):
        raise Unavailable(
            f"fast.torch.{name}: an input carries a tangent, and the op has no forward mode "
            f"(torch.func.jvp, jacfwd, linearize, forward_ad); use {_theirs(name)}, or "
            "reverse mode by torch.autograd.grad or backward()"
        )


def _theirs(name: str) -> str:
    """Return torch's own function."""
    return f"torch.{name}" if name in OF_TORCH else f"torch.nn.functional.{name}"


def _carries_tangent(x: Tensor) -> bool:
    try:
        unpacked: Any = forward_ad.unpack_dual(x)  # type: ignore[no-untyped-call]
    except RuntimeError:
        # torch cannot look into a batch of vmap; it is asked only where forward mode is on.
        return True
    return unpacked.tangent is not None


def _value(name: str, provider: str, inputs: Sequence[Tensor], attributes: dict[str, Any]) -> Any:
    op = OPS[name]
    refuse_tangents(name, inputs)
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
    """Return the cotangents of the first `wanted` inputs, none of which is a view of another.

    Nor is one of what came.
    """
    if name in SAVED:
        saved = SAVED[name](*inputs, **attributes)
    else:
        saved = _value(name, provider, inputs, attributes)[1]
    needs = [position < wanted for position in range(len(inputs))]
    found = OPS[name].hosts(provider)[1](saved, cotangent, needs)[:wanted]
    return tuple(_apart(gradient, cotangent) for gradient in found if gradient is not None)


def _apart(gradient: Tensor, cotangent: Tensor) -> Tensor:
    """Return a contiguous gradient that shares no memory with the cotangent."""
    mine, theirs = (x.untyped_storage().data_ptr() for x in (gradient, cotangent))
    if mine == theirs:
        return gradient.clone(memory_format=torch.contiguous_format)
    return gradient.contiguous()


def define(
    name: str,
    inputs: str,
    attributes: str,
    names: tuple[str, ...],
    shape: Callable[..., Sequence[Any]],
    differentiable: int,
) -> None:
    """Tell torch of an op: its value, its backward, their shapes, and how they belong together.

    `inputs` and `attributes` are parts of torch's schema; `shape(*inputs, **attributes)` is that of
    the result; the first `differentiable` inputs have cotangents. Buffers are the last inputs.
    """
    count, held = inputs.count("Tensor"), len(OPS[name].buffers)

    def split(arguments: Sequence[Any]) -> tuple[tuple[Tensor, ...], dict[str, Any], str]:
        *middle, provider = arguments[count:]
        return tuple(arguments[:count]), dict(zip(names, middle, strict=True)), provider

    def value(*arguments: Any) -> Any:
        tensors, chosen, provider = split(arguments)
        made = _value(name, provider, tensors, chosen)[0]
        return _with_copies(made, tensors[count - held :]) if held else made.contiguous()

    def backward(cotangent: Tensor, *arguments: Any) -> list[Tensor]:
        tensors, chosen, provider = split(arguments)
        return list(_vjp(name, provider, cotangent, tensors, chosen, differentiable))

    def fake_value(*arguments: Any) -> Any:
        tensors, chosen, _ = split(arguments)
        made = tensors[0].new_empty(tuple(shape(*tensors, **chosen)))
        return (made, *map(_like, tensors[count - held :])) if held else made

    def fake_backward(cotangent: Tensor, *arguments: Any) -> list[Tensor]:
        return [*map(_like, split(arguments)[0][:differentiable])]

    def remember(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        # A buffer may change before the backward pass; what was made of it does not.
        kept = output[1:] if held else ()
        ctx.mark_non_differentiable(*kept)
        ctx.save_for_backward(*inputs[: count - held], *kept)
        ctx.rest = inputs[count:]

    def propagate(ctx: Any, cotangent: Tensor, *_: None) -> tuple[Tensor | None, ...]:
        found = back(cotangent, *ctx.saved_tensors, *ctx.rest)
        nothing = (None,) * (count - differentiable + len(ctx.rest))
        return (*found, *nothing)

    schema = ", ".join(part for part in (inputs, attributes, "str provider") if part)
    result = f"({', '.join(['Tensor'] * (1 + held))})"
    front = custom_op(f"twingrad::{name}", value, mutates_args=(), schema=f"({schema}) -> {result}")
    back = custom_op(
        f"twingrad::{name}_backward",
        backward,
        mutates_args=(),
        schema=f"(Tensor cotangent, {schema}) -> Tensor[]",
    )
    front.register_fake(fake_value)
    back.register_fake(fake_backward)
    front.register_autograd(propagate, setup_context=remember)


def same(x: Tensor, *others: Tensor, **attributes: Any) -> Sequence[Any]:
    """Return the shape of a result that is the first input's."""
    return x.shape


def _like(x: Tensor) -> Tensor:
    return x.new_empty(x.shape)


def _with_copies(made: Sequence[Any], buffers: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the result of an op and what becomes of its buffers, none of which is an input."""
    z, *moved = made
    pairs = zip(moved, buffers, strict=True)
    after = (old if new is None else new for new, old in pairs)
    return z.contiguous(), *(one.clone(memory_format=torch.contiguous_format) for one in after)
