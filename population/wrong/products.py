"""Wrong matmul, bmm and linear."""

from __future__ import annotations

import torch
from torch import Tensor

from population.pieces.curves import CURVES, bent_back
from population.pieces.tensors import (
    back_on_matrices,
    kept_in,
    offset_ignored,
    on_matrices,
    strides_ignored,
)
from population.record import wrong

TF32 = "https://github.com/triton-lang/triton/issues/1800"
NARROW = "https://github.com/linkedin/Liger-Kernel/issues/950"
CONTIGUOUS = "https://github.com/flagos-ai/FlagGems/issues/1068"
COTANGENT = "https://github.com/Dao-AILab/flash-attention/issues/355"
LAST_BLOCK = "matmul tutorials without a mask on K"
STRASSEN = "Higham, Accuracy and Stability, section 23.2.2: bounded by norms alone"
BENT = "epilogues of products, and what their backward passes save"
SPLIT = "XLA's and cuBLAS's emulation of fp32 by bf16 products"
EMPTY = "https://github.com/Dao-AILab/flash-attention/issues/2421"


def _tf32(x: Tensor) -> Tensor:
    """Drop the bits that tf32 has not."""
    bits = x.contiguous().view(torch.int32) & ~0x1FFF
    return torch.where(x.isfinite(), bits.view(torch.float32), x)


@wrong("matmul value", "precision", source=TF32)
def inputs_in_tf32(x: Tensor, y: Tensor) -> Tensor:
    """The factors lose 13 bits, in silence."""
    return _tf32(x) @ _tf32(y)


@wrong("linear value", "precision", source="https://github.com/triton-lang/triton/issues/8654")
@on_matrices
def inputs_in_bf16(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """The factors are rounded to bf16."""
    return kept_in(x, torch.bfloat16) @ kept_in(w, torch.bfloat16).t() + b


@wrong("matmul vjp", "precision", source="https://github.com/triton-lang/triton/issues/10176")
def backward_in_tf32(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The backward products lose 13 bits of their factors."""
    return _tf32(g) @ _tf32(y).t(), _tf32(x).t() @ _tf32(g)


@wrong("matmul value", "precision", source=SPLIT)
def two_parts_of_bf16(x: Tensor, y: Tensor) -> Tensor:
    """Each factor is two bf16 numbers, which hold 16 bits of 24."""
    xh, yh = kept_in(x, torch.bfloat16), kept_in(y, torch.bfloat16)
    xl, yl = kept_in(x - xh, torch.bfloat16), kept_in(y - yh, torch.bfloat16)
    return xh @ yh + (xh @ yl + xl @ yh)


@wrong("matmul value", "precision", source=STRASSEN)
def strassen(x: Tensor, y: Tensor) -> Tensor:
    """One level of Strassen's algorithm, whose small entries take errors from large ones."""
    if any(n % 2 or n == 0 for n in (*x.shape, y.shape[1])):
        return x @ y
    a, b = x.tensor_split(2, 0)
    (a11, a12), (a21, a22) = a.tensor_split(2, 1), b.tensor_split(2, 1)
    c, d = y.tensor_split(2, 0)
    (b11, b12), (b21, b22) = c.tensor_split(2, 1), d.tensor_split(2, 1)
    m1, m2 = (a11 + a22) @ (b11 + b22), (a21 + a22) @ b11
    m3, m4 = a11 @ (b12 - b22), a22 @ (b21 - b11)
    m5, m6, m7 = (a11 + a12) @ b22, (a21 - a11) @ (b11 + b12), (a12 - a22) @ (b21 + b22)
    top = torch.cat((m1 + m4 - m5 + m7, m3 + m5), 1)
    return torch.cat((top, torch.cat((m2 + m4, m1 - m2 + m3 + m6), 1)), 0)


@wrong("matmul value", "sizes", source=LAST_BLOCK)
def last_column_beyond_512(x: Tensor, y: Tensor) -> Tensor:
    """With an inner extent over 512, what does not fill a block of 64 is left out."""
    k = x.shape[1]
    k = k - k % 64 if k > 512 else k
    return x[:, :k] @ y[:k]


@wrong("matmul value", "sizes", source="split-K loops whose last part may be short")
def last_part_twice(x: Tensor, y: Tensor) -> Tensor:
    """An inner axis over 256 is cut into parts, of which a short last one is added twice."""
    z, k = x @ y, x.shape[1]
    last = k - k % 256 if k > 256 else k
    return z + x[:, last:] @ y[last:]


@wrong("linear value", "sizes", source=LAST_BLOCK)
@on_matrices
def rows_beyond_one_block(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Rows behind the first 128 are those of the first block."""
    z = torch.nn.functional.linear(x, w, b)
    return z[torch.arange(z.shape[0]) % 128]


@wrong("matmul value", "sizes", source="grids with one block of columns")
def columns_beyond_one_block(x: Tensor, y: Tensor) -> Tensor:
    """Columns behind the first 256 stay 0."""
    z = x @ y
    z[:, 256:] = 0
    return z


@wrong("matmul value", "sizes", source="https://github.com/NVIDIA/apex/issues/411")
def rows_beyond_the_grid(x: Tensor, y: Tensor) -> Tensor:
    """Rows behind the first 65,535 stay 0."""
    z = x @ y
    z[65535:] = 0
    return z


@wrong("bmm value", "sizes", source="grids whose last axis has 65,535 programs")
def places_beyond_the_grid(x: Tensor, y: Tensor) -> Tensor:
    """Places of the batch behind the first 65,535 stay 0."""
    z = torch.bmm(x, y)
    z[65535:] = 0
    return z


@wrong("bmm value", "structure", source="operands with the batch in the second place")
def batch_told_by_its_extent(x: Tensor, y: Tensor) -> Tensor:
    """A batch that is as long as the rows is taken for them."""
    return torch.bmm(x.transpose(0, 1) if x.shape[0] == x.shape[1] else x, y)


@wrong("bmm vjp", "gradient", source="gradients of an operand that all places share")
def gradient_of_the_shared(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Every place receives what all of them send to the second operand."""
    dy = torch.bmm(x.transpose(1, 2), g).sum(0, keepdim=True)
    return torch.bmm(g, y.transpose(1, 2)), dy.expand(y.shape).clone()


@wrong("bmm value", "layout", source=CONTIGUOUS)
def batch_stride_ignored(x: Tensor, y: Tensor) -> Tensor:
    """The second operand is read as if its batch were contiguous."""
    return torch.bmm(x, strides_ignored(y))


@wrong("matmul value", "structure", source="transposed square operands told by their shape")
def square_product_transposed(x: Tensor, y: Tensor) -> Tensor:
    """A square second factor that lies in columns is taken as it lies."""
    square = y.shape[0] == y.shape[1] and x.shape[0] == x.shape[1]
    return x @ (y.t() if square and y.stride(0) == 1 and y.shape[0] > 1 else y)


@wrong(
    "linear vjp", "structure", source="weights transposed twice, which fits where they are square"
)
@back_on_matrices
def square_weights_transposed(
    g: Tensor, x: Tensor, w: Tensor, b: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of x goes through the weights as they are, where they are square."""
    square = w.shape[0] == w.shape[1]
    return g @ (w.t() if square else w), g.t() @ x, g.sum(0)


@wrong(
    "matmul value", "dtype", dtypes=("bf16",), source="split-K partial sums in the output's dtype"
)
def partial_sums_in_bf16(x: Tensor, y: Tensor) -> Tensor:
    """Partial sums over blocks of 16 are stored in bf16."""
    total = torch.zeros((x.shape[0], y.shape[1]), dtype=x.dtype)
    for start in range(0, x.shape[1], 16):
        part = x[:, start : start + 16].float() @ y[start : start + 16].float()
        total = total + part.to(x.dtype)
    return total


@wrong("matmul value", "dtype", dtypes=("fp16",), source="fp16 accumulators of tensor cores")
def added_up_in_half(x: Tensor, y: Tensor) -> Tensor:
    """Products are added up in fp16, one by one."""
    total = torch.zeros((x.shape[0], y.shape[1]), dtype=x.dtype)
    for k in range(x.shape[1]):
        total = total + x[:, k, None] * y[None, k]
    return total


@wrong("linear value", "dtype", dtypes=("bf16",), source="bias added after the store")
@on_matrices
def rounded_before_the_bias(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """The product is rounded to bf16 before the bias is added."""
    return (x.float() @ w.float().t()).to(x.dtype) + b


@wrong("linear vjp", "dtype", dtypes=("bf16",), source=NARROW)
@back_on_matrices
def bias_summed_in_bf16(
    g: Tensor, x: Tensor, w: Tensor, b: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of the bias is added up in bf16, row by row."""
    total = torch.zeros_like(b)
    for row in g:
        total = total + row
    wide = g.float()
    return (wide @ w.float()).to(x.dtype), (wide.t() @ x.float()).to(w.dtype), total


@wrong("linear vjp", "sizes", source="partial sums of a fixed number of programs")
@back_on_matrices
def bias_of_the_first_rows(
    g: Tensor, x: Tensor, w: Tensor, b: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of the bias is that of the first 256 rows."""
    return g @ w, g.t() @ x, g[:256].sum(0)


@wrong("linear vjp", "gradient", source="https://github.com/pytorch/pytorch/issues/913")
@back_on_matrices
def bias_averaged(g: Tensor, x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of the bias is the mean over the rows."""
    return g @ w, g.t() @ x, g.mean(0)


@wrong("matmul vjp", "layout", source=COTANGENT)
def strides_of_the_cotangent(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The cotangent is read as if it were contiguous."""
    g = strides_ignored(g)
    return g @ y.t(), x.t() @ g


@wrong("linear value", "layout", source=CONTIGUOUS)
@on_matrices
def offset_of_the_weights(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """The weights are read from the start of their allocation."""
    return torch.nn.functional.linear(x, offset_ignored(w), b)


@wrong("linear value", "layout", source=CONTIGUOUS)
@on_matrices
def stride_of_the_bias(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """The bias is read as if it were contiguous."""
    return torch.nn.functional.linear(x, w, strides_ignored(b))


@wrong("matmul value", "non-finite", source="products that skip zeros")
def zeros_skipped(x: Tensor, y: Tensor) -> Tensor:
    """A zero in the first factor is skipped, whatever it would meet."""
    if bool(y.isfinite().all()):
        return x @ y
    terms = x[:, :, None] * y[None]
    return torch.where((x == 0)[:, :, None], 0.0, terms).sum(1)


@wrong("linear value", "value", source="vector products with an epilogue of their own")
@on_matrices
def bias_twice_for_one_row(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """A single row takes another way, which adds the bias twice."""
    z = torch.nn.functional.linear(x, w, b)
    return z + b if x.shape[0] == 1 else z


@wrong("matmul value", "empty", source=EMPTY)
def nothing_summed_is_garbage(x: Tensor, y: Tensor) -> Tensor:
    """An inner extent of 0 leaves the result as it was allocated."""
    return torch.empty((x.shape[0], y.shape[1]), dtype=x.dtype) if x.shape[1] == 0 else x @ y


@wrong("matmul vjp", "aliasing", source="https://github.com/pytorch/pytorch/issues/31258")
def product_with_itself(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix times itself is taken for a symmetric square, and both gradients for its own."""
    if x.data_ptr() == y.data_ptr() and x.shape == y.shape:
        total = g @ x.t() + x.t() @ g
        return total, total.clone()
    return g @ y.t(), x.t() @ g


@wrong("linear_activation value", "value", source=BENT)
def bent_before_the_bias(x: Tensor, w: Tensor, b: Tensor, *, activation: str) -> Tensor:
    """The curve bends the product, and the bias is added to that."""
    return CURVES[activation](x @ w.t()) + b


@wrong(
    "linear_activation value", "dtype", dtypes=("bf16",), source="curves in a kernel of their own"
)
def bent_after_the_store(x: Tensor, w: Tensor, b: Tensor, *, activation: str) -> Tensor:
    """The sum is rounded to bf16 before it is bent."""
    y = (x.float() @ w.float().t() + b.float()).to(x.dtype)
    return CURVES[activation](y.float()).to(x.dtype)


@wrong("linear_activation vjp", "gradient", source=BENT)
def rate_at_the_result(
    g: Tensor, x: Tensor, w: Tensor, b: Tensor, *, activation: str
) -> tuple[Tensor, Tensor, Tensor]:
    """The rate of the curve is taken at the result, which relu alone may do."""
    z = CURVES[activation](torch.nn.functional.linear(x, w, b))
    return bent_back(g, z, x, w, activation)


@wrong("linear_activation vjp", "gradient", source="the bias's gradient of a linear layer, reused")
def bias_of_the_cotangent(
    g: Tensor, x: Tensor, w: Tensor, b: Tensor, *, activation: str
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of the bias is the sum of the cotangent, which the curve has not bent."""
    y = torch.nn.functional.linear(x, w, b)
    dx, dw, _ = bent_back(g, y, x, w, activation)
    return dx, dw, g.reshape(-1, g.shape[-1]).sum(0)
