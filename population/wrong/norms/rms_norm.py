"""Wrong rms_norm."""

from __future__ import annotations

import torch
from torch import Tensor

from population.record import OWN, wrong

LLAMA = "transformers' LlamaRMSNorm, which rounds the normal form before it is scaled"
GEMMA = "transformers' GemmaRMSNorm, which scales by 1 + weight"
T5 = "https://github.com/huggingface/transformers/issues/14539"
EPS = 2.0**-23
Two = tuple[Tensor, Tensor]


def _over(x: Tensor, gamma: Tensor, eps: float) -> Tensor:
    """Return one over the root of each row."""
    axes = tuple(range(-gamma.dim(), 0))
    return torch.rsqrt(x.square().mean(axes, keepdim=True) + eps)


@wrong("rms_norm value", "value", source=T5)
def eps_outside_the_root(x: Tensor, gamma: Tensor, eps: float = EPS) -> Tensor:
    """Eps is added to the root."""
    axes = tuple(range(-gamma.dim(), 0))
    return x / (x.square().mean(axes, keepdim=True).sqrt() + eps) * gamma


@wrong("rms_norm value", "value", source="kernels of layer_norm with the mean left in")
def rows_are_centred(x: Tensor, gamma: Tensor, eps: float = EPS) -> Tensor:
    """The mean is subtracted first."""
    y = x - x.mean(tuple(range(-gamma.dim(), 0)), keepdim=True)
    return y * _over(y, gamma, eps) * gamma


@wrong("rms_norm value", "structure", source=OWN)
def last_axis_alone(x: Tensor, gamma: Tensor, eps: float = EPS) -> Tensor:
    """Only the last axis is a row, however many gamma has."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * gamma


@wrong("rms_norm value", "value", source=GEMMA)
def gamma_from_one(x: Tensor, gamma: Tensor, eps: float = EPS) -> Tensor:
    """The scale is 1 + gamma."""
    return x * _over(x, gamma, eps) * (1 + gamma)


@wrong("rms_norm value", "value", source="torch's rms_norm, whose eps follows the format")
def eps_is_always_the_default(x: Tensor, gamma: Tensor, eps: float = EPS) -> Tensor:
    """The eps that was asked for is ignored."""
    return x * _over(x, gamma, EPS) * gamma


@wrong("rms_norm value", "sizes", source="loops that start at a block's end")
def squares_of_whole_blocks(x: Tensor, gamma: Tensor, eps: float = EPS) -> Tensor:
    """Of a row over 256 entries, those behind the last whole block of 256 do not count."""
    rows = x.reshape(-1, gamma.numel())
    n = rows.shape[1]
    counted = n // 256 * 256 if n > 256 else n
    total = rows[:, :counted].square().sum(1, keepdim=True)
    return (rows * torch.rsqrt(total / n + eps)).reshape(x.shape) * gamma


@wrong("rms_norm value", "dtype", dtypes=("bf16", "fp16"), source=LLAMA)
def rounded_before_the_scale(x: Tensor, gamma: Tensor, eps: float = EPS) -> Tensor:
    """The normal form is rounded to 16 bits, and its product with gamma once more."""
    normal = x.float() * _over(x.float(), gamma, eps)
    return normal.to(x.dtype) * gamma


@wrong("rms_norm value", "range", dtypes=("fp16",), source="squares in half precision")
def squares_in_half(x: Tensor, gamma: Tensor, eps: float = EPS) -> Tensor:
    """Entries are squared in fp16, where 256 is too much."""
    axes = tuple(range(-gamma.dim(), 0))
    squares = (x * x).float().mean(axes, keepdim=True)
    return (x.float() * torch.rsqrt(squares + eps) * gamma.float()).to(x.dtype)


def _down(t: Tensor, gamma: Tensor) -> Tensor:
    """Add up the rows."""
    return t.reshape(-1, *gamma.shape).sum(0)


def _pulled_back(g: Tensor, h: Tensor, x: Tensor, gamma: Tensor, eps: float) -> Two:
    """Return the gradients, whose projection is formed from h."""
    axes, over = tuple(range(-gamma.dim(), 0)), _over(x, gamma, eps)
    along = (h * x).mean(axes, keepdim=True) * over**3
    return g * gamma * over - x * along, _down(g * (x * over), gamma)


@wrong("rms_norm vjp", "gradient")
def projection_dropped(g: Tensor, x: Tensor, gamma: Tensor, eps: float = EPS) -> Two:
    """The term through the root is missing from dx."""
    return _pulled_back(g, torch.zeros_like(g), x, gamma, eps)


@wrong("rms_norm vjp", "gradient", source="tests with gamma of ones")
def projection_without_gamma(g: Tensor, x: Tensor, gamma: Tensor, eps: float = EPS) -> Two:
    """The term through the root is formed from the cotangent without gamma."""
    return _pulled_back(g, g, x, gamma, eps)


@wrong("rms_norm vjp", "gradient", source=OWN)
def gamma_of_the_input(g: Tensor, x: Tensor, gamma: Tensor, eps: float = EPS) -> Two:
    """The gradient of gamma is formed from the input in place of its normal form."""
    return _pulled_back(g, g * gamma, x, gamma, eps)[0], _down(g * x, gamma)


@wrong("rms_norm vjp", "sizes", source="partial sums of a fixed number of programs")
def gamma_of_the_first_rows(g: Tensor, x: Tensor, gamma: Tensor, eps: float = EPS) -> Two:
    """The gradient of gamma is that of the first 256 rows."""
    share = (g * (x * _over(x, gamma, eps))).reshape(-1, *gamma.shape)
    return _pulled_back(g, g * gamma, x, gamma, eps)[0], share[:256].sum(0)
