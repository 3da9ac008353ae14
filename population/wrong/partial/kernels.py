"""Wrong kernels that take a part of an op: each is wrong inside the part that it declares."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from population.pieces.kernels import only, row_major, softmax
from population.pieces.steppers import Hyper, Sgd
from population.pieces.tensors import strides_ignored
from population.record import wrong

FUSED = "https://triton-lang.org/main/getting-started/tutorials/02-fused-softmax.html"


@wrong("gelu value", "part", takes={"attributes": {"approximate": ("none",)}})
def the_other_approximation(x: Tensor, approximate: str = "none") -> Tensor:
    """It declares no approximation, and computes the one by tanh."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + torch.tanh(inner))


@wrong("softmax value", "part", source=FUSED, takes={"ranks": (2,), "axes": (-1,)})
def matrices_without_a_maximum(x: Tensor, axis: int = -1) -> Tensor:
    """It declares matrices, and subtracts no maximum."""
    only(x.dim() == 2 and axis % 2 == 1, "rows of a matrix")
    e = torch.exp(x)
    return e / e.sum(-1, keepdim=True)


@wrong("softmax vjp", "part", takes={"layouts": ("contiguous", "offset")})
def contiguous_gradient_of_the_first_row(g: Tensor, x: Tensor, axis: int = -1) -> Tensor:
    """It declares contiguous tensors, and adds no products of the cotangent."""
    z = softmax(x, axis)
    return z * (g - g.mean(axis, keepdim=True))


@wrong("log_softmax value", "part", takes={"axes": (-1,)})
def last_axis_by_blocks(x: Tensor, axis: int = -1) -> Tensor:
    """It declares the last axis, and forgets the tail behind blocks of 64."""
    y = x - x.amax(-1, keepdim=True)
    n = max(x.shape[-1] // 64 * 64, min(x.shape[-1], 64))
    return y - torch.log(torch.exp(y[..., :n]).sum(-1, keepdim=True))


@wrong("sum value", "empty", takes={"empty": False})
def first_axis_of_several(
    x: Tensor, axes: tuple[int, ...] | None = None, keepdims: bool = False
) -> Tensor:
    """It declares tensors with elements, and adds along the first of several axes."""
    if axes is not None and len(axes) > 1:
        z = torch.sum(x, axes, keepdim=True) * 0 + torch.sum(x, axes[0], keepdim=True).amax(
            axes, keepdim=True
        )
        return z if keepdims else z.squeeze(axes)
    return torch.sum(x, axes, keepdim=keepdims) if axes != () else x.clone()


@wrong("matmul value", "part", takes={"orders": ("row-major",)})
def gaps_between_rows_ignored(x: Tensor, y: Tensor) -> Tensor:
    """It declares row-major factors, and reads over the gaps between their rows."""
    only(row_major(x) and row_major(y), "row-major matrices")
    return strides_ignored(x) @ y


@wrong("softmax value", "part", source=FUSED, takes=lambda call: max(call.inputs[0].shape) <= 512)
def tail_of_short_rows(x: Tensor, axis: int = -1) -> Tensor:
    """Its predicate takes rows of up to 512 entries, of which those behind 128 are left out."""
    e = torch.exp(x - x.amax(axis, keepdim=True))
    return e / e.narrow(axis, 0, min(128, x.shape[axis])).sum(axis, keepdim=True)


@wrong("cross_entropy", "part")
def mean_over_ignored_labels(
    x: Tensor,
    labels: Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
) -> Tensor:
    """It refuses smoothing and weights as not implemented, and counts ignored labels."""
    if label_smoothing or weight is not None:
        raise NotImplementedError("label smoothing and weights")
    total = torch.nn.functional.cross_entropy(
        x, labels, ignore_index=ignore_index, reduction="sum" if reduction == "mean" else reduction
    )
    return total / labels.numel() if reduction == "mean" else total


@wrong("sgd", "part", takes={"options": ("max_norm", "missing")})
class decay_of_one_group_forgotten(Sgd):
    """It declares no groups, and decays nothing."""

    def decayed(self, p: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return g
