"""Right kernels that take a part of an op, one for each kind of declaration."""

from __future__ import annotations

import torch
from torch import Tensor

from population.pieces.kernels import gelu, only, row_major, rows_of_a_matrix, softmax
from population.pieces.steppers import Sgd
from population.record import right

LIGER = "https://github.com/linkedin/Liger-Kernel/blob/main/src/liger_kernel/ops"
FUSED = "https://triton-lang.org/main/getting-started/tutorials/02-fused-softmax.html"
UNSLOTH = "https://github.com/unslothai/unsloth/blob/main/unsloth/kernels/cross_entropy_loss.py"


@right("gelu value", "part", takes={"attributes": {"approximate": ("none",)}})
def by_the_error_function_alone(x: Tensor, approximate: str = "none") -> Tensor:
    """It takes one approximation: none."""
    only(approximate == "none", "gelu without approximation")
    return gelu(x)


@right("softmax value", "part", source=FUSED, takes={"ranks": (2,), "axes": (-1,)})
def rows_of_matrices(x: Tensor, axis: int = -1) -> Tensor:
    """It takes matrices, and their last axis."""
    return rows_of_a_matrix(x, axis)


@right("softmax vjp", "part", source=LIGER, takes={"layouts": ("contiguous", "offset")})
def contiguous_gradient(g: Tensor, x: Tensor, axis: int = -1) -> Tensor:
    """It takes contiguous tensors."""
    only(g.is_contiguous() and x.is_contiguous(), "contiguous tensors")
    z = softmax(x, axis)
    return z * (g - (z * g).sum(axis, keepdim=True))


@right("log_softmax value", "part", takes={"axes": (-1,)})
def last_axis(x: Tensor, axis: int = -1) -> Tensor:
    """It takes the last axis."""
    only(axis % x.dim() == x.dim() - 1, "the last axis")
    y = x - x.amax(-1, keepdim=True)
    return y - torch.log(torch.exp(y).sum(-1, keepdim=True))


@right("sum value", "empty", takes={"empty": False})
def nothing_is_never_added(
    x: Tensor, axes: tuple[int, ...] | None = None, keepdims: bool = False
) -> Tensor:
    """It takes no tensor without elements."""
    only(x.numel() > 0, "tensors with elements")
    return torch.sum(x, axes, keepdim=keepdims) if axes != () else x.clone()


@right("matmul value", "part", takes={"orders": ("row-major",)})
def row_major_factors(x: Tensor, y: Tensor) -> Tensor:
    """It takes factors whose rows lie one behind the other."""
    only(row_major(x) and row_major(y), "row-major matrices")
    return x @ y


@right("softmax value", "part", source=FUSED, takes=lambda call: _short(call.inputs[0].shape))
def rows_that_fit_one_block(x: Tensor, axis: int = -1) -> Tensor:
    """It takes rows of up to 512 entries, as a predicate says."""
    only(_short(x.shape), "rows of up to 512 entries")
    return softmax(x, axis)


def _short(shape: tuple[int, ...]) -> bool:
    return max(shape, default=1) <= 512


@right("cross_entropy", "part", source=UNSLOTH)
def without_smoothing_or_weights(
    x: Tensor,
    labels: Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
) -> Tensor:
    """It declares nothing, and refuses smoothing and weights as not implemented."""
    if label_smoothing or weight is not None:
        raise NotImplementedError("label smoothing and weights")
    ignored = labels == ignore_index
    x = x.masked_fill(ignored.unsqueeze(1), 0.0)
    one = "none" if reduction == "none" else "sum"
    z = torch.nn.functional.cross_entropy(x, labels, ignore_index=ignore_index, reduction=one)
    counted = (~ignored).sum().clamp(min=1)
    return z / counted if reduction == "mean" else z


@right("sgd", "part", takes={"options": ("max_norm", "missing")})
class one_group_from_the_start(Sgd):
    """It takes no groups, no scale of the gradients and no earlier steps."""
