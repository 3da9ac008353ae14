"""Right softmax, masked or not, log_softmax and layer_norm: other ways through a row."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from equivalence.backends.torch.functions import TORCH
from equivalence.worlds.contract import Form, FunctionError, ulps
from population.pieces.tensors import of_rows
from population.record import right
from spec.op import AnyTensor
from spec.ops import OPS
from spec.shape import size

BY_A_POWER_OF_TWO = FunctionError(4.0, 0.0, 2.0, source="exp2 of a product that is rounded once")
BY_RSQRT = replace(
    ulps(2.0, "rsqrt within 1 ulp, and a product in the place of a quotient"), exact_values=False
)
ONLINE = "Milakov and Gimelshein, 2018"
WELFORD = "Welford, 1962"
Three = tuple[Tensor, Tensor, Tensor]


@right("softmax", "precision")
def in_double(x: Tensor, axis: int = -1) -> Tensor:
    """All of it is done in double, and rounded once."""
    return torch.softmax(x.double(), axis).to(x.dtype)


@right("softmax value", "precision", source=ONLINE)
def online(x: Tensor, axis: int = -1) -> Tensor:
    """Maximum and sum are found in one pass over blocks of 16, which may be masked."""
    y = x.movedim(axis, -1)
    top = torch.full(y.shape[:-1], -math.inf, dtype=x.dtype)
    total = torch.zeros(y.shape[:-1], dtype=x.dtype)
    for start in range(0, y.shape[-1], 16):
        block = y[..., start : start + 16]
        higher = torch.maximum(top, block.amax(-1))
        safe = torch.where(higher == -math.inf, 0.0, higher)
        total = total * torch.exp(top - safe) + torch.exp(block - safe[..., None]).sum(-1)
        top = higher
    return (torch.exp(y - top[..., None]) / total[..., None]).movedim(-1, axis)


@right("softmax value", "precision", contract={"functions": {**TORCH, "exp": BY_A_POWER_OF_TWO}})
def by_powers_of_two(x: Tensor, axis: int = -1) -> Tensor:
    """The exponentials are powers of two, as the contract says."""
    e = torch.exp2((x - x.amax(axis, keepdim=True)) * 1.4426950408889634)
    return e / e.sum(axis, keepdim=True)


@right("softmax value", "precision")
def by_a_reciprocal(x: Tensor, axis: int = -1) -> Tensor:
    """The exponentials are multiplied by the reciprocal of their sum, as the contract says."""
    e = torch.exp(x - x.amax(axis, keepdim=True))
    return e * (1 / e.sum(axis, keepdim=True))


@right("softmax vjp", "gradient")
def gradient_multiplied_out(g: Tensor, x: Tensor, axis: int = -1) -> Tensor:
    """Both terms are multiplied by the probability before they are subtracted."""
    p = torch.softmax(x, axis)
    weighted = p * g
    return weighted - p * weighted.sum(axis, keepdim=True)


@right("softmax vjp", "gradient")
def by_torchs_autograd(g: Tensor, x: Tensor, axis: int = -1) -> Tensor:
    """The gradient is torch's."""
    p = torch.softmax(x, axis)
    return torch._softmax_backward_data(g, p, axis, x.dtype)


@right("log_softmax", "precision")
def logarithms_in_double(x: Tensor, axis: int = -1) -> Tensor:
    """All of it is done in double, and rounded once."""
    return torch.log_softmax(x.double(), axis).to(x.dtype)


@right("log_softmax value", "precision")
def sum_in_double(x: Tensor, axis: int = -1) -> Tensor:
    """The exponentials are added up in double."""
    shifted = x - x.amax(axis, keepdim=True)
    total = torch.exp(shifted).double().sum(axis, keepdim=True)
    return shifted - torch.log(total).to(x.dtype)


@right("log_softmax vjp", "gradient")
def probabilities_formed_anew(g: Tensor, x: Tensor, axis: int = -1) -> Tensor:
    """The probabilities are a softmax of the input, not exponentials of the result."""
    return g - torch.softmax(x, axis) * g.sum(axis, keepdim=True)


@right("masked_softmax value", "value")
def numerators_chosen(x: Tensor, mask: Tensor, axis: int = -1) -> Tensor:
    """The exponentials are chosen, added up, and divided by their sum, or by 1 where it is 0."""
    if not x.numel():
        return x
    wide = x.double() if x.dtype is torch.float64 else x.float()
    largest = wide.masked_fill(~mask, -torch.inf).amax(axis, keepdim=True)
    powers = torch.where(mask, torch.exp(wide - largest), 0.0)
    total = powers.sum(axis, keepdim=True)
    some = mask.any(axis, keepdim=True)
    return torch.where(mask, powers / torch.where(some, total, 1.0), 0.0).to(x.dtype)


@right("masked_softmax vjp", "gradient")
def shares_centred(g: Tensor, x: Tensor, mask: Tensor, axis: int = -1) -> tuple[Tensor, None]:
    """The probabilities are formed in double, and so is the mean that is subtracted."""
    share = torch.softmax(x.double().masked_fill(~mask, -torch.inf), axis).masked_fill(~mask, 0)
    sent = g.double().masked_fill(~mask, 0)
    dx = share * (sent - (share * sent).sum(axis, keepdim=True))
    return dx.masked_fill(~mask, 0).to(x.dtype), None


def _normalized(
    x: Tensor, mean: Tensor, variance: Tensor, gamma: Tensor, beta: Tensor, eps: float
) -> Tensor:
    return (x - mean) / torch.sqrt(variance + eps) * gamma + beta


@right("layer_norm value", "precision", source=WELFORD)
@of_rows
def welford(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """Mean and variance are found by Welford's recurrence."""
    mean = torch.zeros(x.shape[:-1], dtype=x.dtype)
    squares = torch.zeros(x.shape[:-1], dtype=x.dtype)
    for k, part in enumerate(x.unbind(-1)):
        step = part - mean
        mean = mean + step / (k + 1)
        squares = squares + step * (part - mean)
    variance = squares / x.shape[-1]
    return _normalized(x, mean[..., None], variance[..., None], gamma, beta, eps)


@right("layer_norm value", "precision", source="Chan, Golub and LeVeque, 1983")
@of_rows
def halves_joined(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """Mean and variance of two halves are joined."""
    n = x.shape[-1]
    if n < 2:
        return torch.nn.functional.layer_norm(x, gamma.shape, gamma, beta, eps)
    a, b = x[..., : n // 2], x[..., n // 2 :]
    one, two = a.mean(-1, keepdim=True), b.mean(-1, keepdim=True)
    apart = two - one
    mean = one + apart * (b.shape[-1] / n)
    squares = ((a - one) ** 2).sum(-1, keepdim=True) + ((b - two) ** 2).sum(-1, keepdim=True)
    squares = squares + apart * apart * (a.shape[-1] * b.shape[-1] / n)
    return _normalized(x, mean, squares / n, gamma, beta, eps)


def _shifted(x: AnyTensor, gamma: AnyTensor, beta: AnyTensor, *, eps: float = 1e-5) -> AnyTensor:
    """Run the page on what the first entry of a row leaves of it."""
    page: Callable[..., AnyTensor] = OPS["layer_norm"].value
    if not size(x.shape):
        return page(x, gamma, beta, eps=eps)
    first = x
    for axis in range(-len(gamma.shape), 0):
        first = OPS["slice"].value(first, axis=axis, start=0, length=1)
    left = OPS["sub"].value(x, OPS["broadcast_to"].value(first, shape=x.shape))
    return page(left, gamma, beta, eps=eps)


SHIFTED = Form("shifted by the first", _shifted)
"""Where the first entry lies far out, the others lose what its magnitude costs them."""


@right("layer_norm value", "precision", contract={"forms": (SHIFTED,)})
@of_rows
def shifted_by_the_first(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """The first entry is subtracted before two passes, and it says so."""
    y = x - x[..., :1]
    mean = y.mean(-1, keepdim=True)
    variance = ((y - mean) ** 2).mean(-1, keepdim=True)
    return _normalized(y, mean, variance, gamma, beta, eps)


@right("layer_norm value", "precision", source="Chan, Golub and LeVeque, 1983")
@of_rows
def corrected_two_pass(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """The second pass subtracts what rounding left of the mean."""
    mean = x.mean(-1, keepdim=True)
    centred = x - mean
    left = centred.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True) - left * left
    return _normalized(x, mean, variance.clamp(min=0), gamma, beta, eps)


@right("layer_norm", "precision")
@of_rows
def norm_in_double(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """All of it is done in double, and rounded once."""
    wide = [t.double() for t in (x, gamma, beta)]
    z = torch.nn.functional.layer_norm(wide[0], gamma.shape, wide[1], wide[2], eps)
    return z.to(x.dtype)


@right("layer_norm value", "precision", contract={"functions": {**TORCH, "sqrt": BY_RSQRT}})
@of_rows
def by_rsqrt(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """Deviations are multiplied by a reciprocal root, and says so."""
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + eps) * gamma + beta


@right("layer_norm vjp", "gradient", source="the usual kernel of the backward pass")
@of_rows
def sums_in_place_of_means(
    g: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5
) -> Three:
    """The deviation is divided by last, and sums stand where others have means."""
    n = x.shape[-1]
    mean = x.mean(-1, keepdim=True)
    root = torch.sqrt(((x - mean) ** 2).mean(-1, keepdim=True) + eps)
    normal = (x - mean) / root
    scaled = g * gamma
    total = scaled.sum(-1, keepdim=True)
    along = (scaled * normal).sum(-1, keepdim=True)
    dx = (scaled - (total + normal * along) / n) / root
    rows = (g * normal).reshape(-1, n)
    return dx, rows.sum(0), g.reshape(-1, n).sum(0)


@right("layer_norm vjp", "gradient")
@of_rows
def gradients_in_double(
    g: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5
) -> Three:
    """Everything is formed in double, and rounded once."""
    n = x.shape[-1]
    wide, cotangent = x.double(), g.double()
    centred = wide - wide.mean(-1, keepdim=True)
    root = torch.sqrt((centred**2).mean(-1, keepdim=True) + eps)
    normal, scaled = centred / root, cotangent * gamma.double()
    along = (scaled * normal).mean(-1, keepdim=True)
    dx = (scaled - scaled.mean(-1, keepdim=True) - normal * along) / root
    rows = (cotangent * normal).reshape(-1, n).sum(0)
    beta_part = cotangent.reshape(-1, n).sum(0)
    return dx.to(x.dtype), rows.to(x.dtype), beta_part.to(x.dtype)


@right("layer_norm value", "value")
@of_rows
def torchs_own(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """It is torch's layer_norm."""
    return torch.nn.functional.layer_norm(x, gamma.shape, gamma, beta, eps)


@right("softmax value", "dtype", dtypes=("bf16", "fp16"))
def narrow_in_double(x: Tensor, axis: int = -1) -> Tensor:
    """Narrow numbers are worked on in double."""
    return torch.softmax(x.double(), axis).to(x.dtype)


@right("layer_norm value", "dtype", dtypes=("bf16", "fp16"))
@of_rows
def narrow_norm_in_double(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """Narrow numbers are worked on in double."""
    wide = [t.double() for t in (x, gamma, beta)]
    z = torch.nn.functional.layer_norm(wide[0], gamma.shape, wide[1], wide[2], eps)
    return z.to(x.dtype)
