"""Wrong layer_norm."""

from __future__ import annotations

import torch
from torch import Tensor

from population.pieces.tensors import kept_in, of_rows
from population.record import wrong

TORCH = "https://github.com/pytorch/pytorch/issues/"
LIGER = "https://github.com/linkedin/Liger-Kernel/issues/"
ONE_PASS = "Chan, Golub and LeVeque, 1983; Apex's and others' one-pass kernels"
FLAG_GEMS = "FlagGems 5.0.2, layer_norm backward, rank 3"
EPS = "https://github.com/huggingface/transformers/issues/14539"
Three = tuple[Tensor, Tensor, Tensor]


def _apply(x: Tensor, mean: Tensor, root: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    return (x - mean) / root * gamma + beta


def _one_pass(x: Tensor) -> tuple[Tensor, Tensor]:
    mean = x.mean(-1, keepdim=True)
    return mean, ((x * x).mean(-1, keepdim=True) - mean * mean).clamp(min=0)


def _two_pass(x: Tensor) -> tuple[Tensor, Tensor]:
    mean = x.mean(-1, keepdim=True)
    return mean, ((x - mean) ** 2).mean(-1, keepdim=True)


@wrong("layer_norm value", "precision", source=ONE_PASS)
@of_rows
def one_pass_variance(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """The mean of squares less the square of the mean, which cancels."""
    mean, variance = _one_pass(x)
    return _apply(x, mean, torch.sqrt(variance + eps), gamma, beta)


@wrong("layer_norm value", "sizes", source=ONE_PASS)
@of_rows
def one_pass_beyond_512(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """Rows over 512 entries take the way of one pass."""
    mean, variance = _one_pass(x) if x.shape[-1] > 512 else _two_pass(x)
    return _apply(x, mean, torch.sqrt(variance + eps), gamma, beta)


@wrong("layer_norm value", "value", source=EPS)
@of_rows
def eps_outside_the_root(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """Eps is added to the root."""
    mean, variance = _two_pass(x)
    return _apply(x, mean, torch.sqrt(variance) + eps, gamma, beta)


@wrong("layer_norm value", "value", source="torch.std and torch.var, whose default divides so")
@of_rows
def divided_by_one_less(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """The variance is divided by n - 1."""
    mean, variance = _two_pass(x)
    n = x.shape[-1]
    return _apply(x, mean, torch.sqrt(variance * (n / max(n - 1, 1)) + eps), gamma, beta)


@wrong("layer_norm value", "value", source="defaults that are never overridden")
@of_rows
def eps_is_always_the_default(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """The eps that was asked for is ignored."""
    mean, variance = _two_pass(x)
    return _apply(x, mean, torch.sqrt(variance + 1e-5), gamma, beta)


@wrong("layer_norm value", "sizes", source="masked loads centred without their mask")
@of_rows
def padding_in_the_variance(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """In rows over 256, the padding of the last block of 256 counts in the variance."""
    mean, variance = _two_pass(x)
    n = x.shape[-1]
    padding = -n % 256 if n > 256 else 0
    variance = variance + padding * mean * mean / n
    return _apply(x, mean, torch.sqrt(variance + eps), gamma, beta)


@wrong("layer_norm value", "precision", source="fast inverse square roots with one step too few")
@of_rows
def rough_root(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """The reciprocal root starts from fp16 and is improved once."""
    mean, variance = _two_pass(x)
    shifted = variance + eps
    rough = kept_in(torch.rsqrt(shifted), torch.bfloat16)
    rough = rough * (1.5 - 0.5 * shifted * rough * rough)
    return (x - mean) * rough * gamma + beta


@wrong("layer_norm value", "dtype", dtypes=("bf16",), source=TORCH + "189581")
@of_rows
def statistics_in_bf16(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """Mean and variance are rounded to bf16."""
    mean, variance = (kept_in(s, torch.bfloat16) for s in _two_pass(x.float()))
    root = torch.sqrt(variance + eps)
    return _apply(x.float(), mean, root, gamma.float(), beta.float()).to(x.dtype)


@wrong("layer_norm value", "dtype", dtypes=("fp16",), source=LIGER + "1253")
@of_rows
def squares_overflow_in_half(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """Deviations are squared in fp16, where 256 is too much."""
    mean = x.float().mean(-1, keepdim=True)
    centred = (x.float() - mean).to(x.dtype)
    variance = (centred * centred).float().mean(-1, keepdim=True)
    return _apply(x.float(), mean, torch.sqrt(variance + eps), gamma, beta).to(x.dtype)


@wrong("layer_norm value", "non-finite", source="nan_to_num in training loops")
@of_rows
def constant_rows_by_a_clamp(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """An infinite entry makes its row beta, where it is not a number."""
    mean, variance = _two_pass(x)
    normal = (x - mean) / torch.sqrt(variance + eps)
    return torch.nan_to_num(normal) * gamma + beta


def _pull_back(g: Tensor, x: Tensor, gamma: Tensor, eps: float) -> Three:
    """Return the normal form of x, the right dx and what belongs to each row."""
    mean, variance = _two_pass(x)
    root = torch.sqrt(variance + eps)
    normal = (x - mean) / root
    scaled = g * gamma
    along = (scaled * normal).mean(-1, keepdim=True)
    return normal, (scaled - scaled.mean(-1, keepdim=True) - normal * along) / root, root


def _columns(t: Tensor) -> Tensor:
    return t.reshape(-1, t.shape[-1]).sum(0)


@wrong("layer_norm vjp", "sizes", source="partial sums of a fixed number of programs")
@of_rows
def gamma_of_the_first_rows(
    g: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5
) -> Three:
    """The gradient of gamma is that of the first 256 rows."""
    normal, dx, _ = _pull_back(g, x, gamma, eps)
    rows = (g * normal).reshape(-1, x.shape[-1])
    return dx, rows[:256].sum(0), _columns(g)


@wrong("layer_norm vjp", "dtype", dtypes=("bf16",), source=LIGER + "950")
@of_rows
def gamma_summed_in_bf16(
    g: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5
) -> Three:
    """The gradients of gamma and beta are added up in bf16, row by row."""
    normal, dx, _ = _pull_back(g.float(), x.float(), gamma.float(), eps)
    sums = []
    for t in (g.float() * normal, g):
        total = torch.zeros_like(gamma)
        for row in t.reshape(-1, x.shape[-1]).to(x.dtype):
            total = total + row
        sums.append(total)
    return dx.to(x.dtype), sums[0], sums[1]


@wrong("layer_norm vjp", "gradient")
@of_rows
def mean_of_the_cotangent_dropped(
    g: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5
) -> Three:
    """The term through the mean is missing from dx."""
    normal, dx, root = _pull_back(g, x, gamma, eps)
    dx = dx + (g * gamma).mean(-1, keepdim=True) / root
    return dx, _columns(g * normal), _columns(g)


@wrong("layer_norm vjp", "gradient", source="tests with gamma of ones")
@of_rows
def gamma_left_out_of_the_projection(
    g: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5
) -> Three:
    """The term through the variance is formed from the cotangent without gamma."""
    normal, _, root = _pull_back(g, x, gamma, eps)
    scaled, along = g * gamma, (g * normal).mean(-1, keepdim=True)
    dx = (scaled - scaled.mean(-1, keepdim=True) - normal * along) / root
    return dx, _columns(g * normal), _columns(g)


@wrong("layer_norm vjp", "gradient", source="mean and sum confused")
@of_rows
def beta_averaged(g: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Three:
    """The gradient of beta is the mean over the rows."""
    normal, dx, _ = _pull_back(g, x, gamma, eps)
    return dx, _columns(g * normal), g.reshape(-1, x.shape[-1]).mean(0)


@wrong("layer_norm vjp", "structure", source=FLAG_GEMS)
@of_rows
def rows_of_the_first_axis(
    g: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5
) -> Three:
    """In rank 3 and more, gamma sees as many rows as the first axis has."""
    normal, dx, _ = _pull_back(g, x, gamma, eps)
    rows = (g * normal).reshape(-1, x.shape[-1])
    return dx, rows[: x.shape[0]].sum(0) if x.dim() > 2 else rows.sum(0), _columns(g)


@wrong("layer_norm vjp", "range", source="kernels that save the result in place of the input")
@of_rows
def normal_form_from_the_result(
    g: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5
) -> Three:
    """The normal form is read off the result, by a division by gamma, which may be 0."""
    normal, dx, root = _pull_back(g, x, gamma, eps)
    found = ((normal * gamma + beta) - beta) / gamma
    scaled = g * gamma
    along = (scaled * found).mean(-1, keepdim=True)
    dx = (scaled - scaled.mean(-1, keepdim=True) - found * along) / root
    return dx, _columns(g * found), _columns(g)


@wrong("layer_norm vjp", "gradient", source=TORCH + "188372")
@of_rows
def one_entry_has_a_gradient(
    g: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5
) -> Three:
    """Of rows with one entry, the mean is rounded, and gamma receives what is left."""
    normal, dx, root = _pull_back(g, x, gamma, eps)
    if x.shape[-1] == 1:
        normal = (x - x * (1 + 2.0**-23)) / root
    return dx, _columns(g * normal), _columns(g)


@wrong(
    "layer_norm vjp", "aliasing", source="https://github.com/meta-pytorch/tritonbench/issues/1266"
)
class sums_left_over:
    """The buffer of gamma's partial sums is not cleared before the next call of its size."""

    def __init__(self) -> None:
        self.sums: dict[int, Tensor] = {}

    def __call__(
        self, g: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5
    ) -> Three:
        return tuple(of_rows(self._gradients)(g, x, gamma, beta, eps=eps))

    def _gradients(
        self, g: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5
    ) -> Three:
        normal, dx, _ = _pull_back(g, x, gamma, eps)
        total = _columns(g * normal)
        left = self.sums.get(x.numel(), torch.zeros_like(total))
        self.sums[x.numel()] = total
        same = left.shape == total.shape
        return dx, (total + left if same else total), _columns(g)
