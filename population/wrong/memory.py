"""Wrong pointwise operations, by what they do to memory: layouts, sizes, and what is kept."""

from __future__ import annotations

import torch
from torch import Tensor

from population.pieces.tensors import absorbed, first_only, offset_ignored, strides_ignored
from population.record import wrong

GRID = "grids sized for the test's shape"
CONTIGUOUS = "https://github.com/flagos-ai/FlagGems/issues/1068"
COTANGENT = "https://github.com/Dao-AILab/flash-attention/issues/355"
EXPANDED = "https://github.com/fla-org/flash-linear-attention/issues/1139"
INTEGERS = "https://github.com/fla-org/flash-linear-attention/issues/1080"
MUTATED = "https://github.com/linkedin/Liger-Kernel/issues/272"
ALIASED = "https://github.com/pytorch/pytorch/issues/31258"
REPLAYED = "static buffers of CUDA graphs, whose results the next replay overwrites"


@wrong("exp value", "sizes", source=GRID)
def eight_blocks(x: Tensor) -> Tensor:
    """The grid has eight blocks of 1,024, and what lies behind is zero."""
    return first_only(torch.exp(x), 8192, 0.0)


@wrong("square value", "sizes", source="vector loops without their remainder")
def tail_left_out(x: Tensor) -> Tensor:
    """Behind 1,024 elements, what does not fill a vector of four is left as it was."""
    n = x.numel()
    return first_only(x * x, n - n % 4 if n > 1024 else n, x)


@wrong("mul value", "sizes", source=INTEGERS)
def index_of_16_bits(x: Tensor, y: Tensor) -> Tensor:
    """The index of an element wraps at 65,536."""
    z = x * y
    return first_only(z, 65536, torch.roll(z.reshape(-1), 65536))


@wrong("add value", "sizes", source=GRID)
def one_block(x: Tensor, y: Tensor) -> Tensor:
    """One block of 256 is all that there is."""
    return first_only(x + y, 256, x)


@wrong("tanh vjp", "sizes", source=GRID)
def second_block_reads_the_first(g: Tensor, x: Tensor) -> Tensor:
    """Behind 4,096 elements the cotangent is read from the start again."""
    z = torch.tanh(x)
    return first_only(g, 4096, torch.roll(g.reshape(-1), 4096)) * (1 - z * z)


@wrong("sub vjp", "sizes", source="https://github.com/NVIDIA/apex/issues/411")
def grid_limit(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """With more than 65,535 elements, the last ones receive nothing."""
    return g.clone(), first_only(-g, 65535, 0.0)


@wrong("relu value", "layout", source=CONTIGUOUS)
def strides_of_the_input(x: Tensor) -> Tensor:
    """The input is read as if it were contiguous."""
    return torch.relu(strides_ignored(x))


@wrong("tanh value", "layout", source=CONTIGUOUS)
def offset_of_the_input(x: Tensor) -> Tensor:
    """The input is read from the start of its allocation."""
    return torch.tanh(offset_ignored(x))


@wrong("exp vjp", "layout", source=COTANGENT)
def strides_of_the_cotangent(g: Tensor, x: Tensor) -> Tensor:
    """The cotangent is read as if it were contiguous."""
    return strides_ignored(g) * torch.exp(x)


@wrong("square vjp", "layout", source=EXPANDED)
def expanded_cotangent(g: Tensor, x: Tensor) -> Tensor:
    """A cotangent with a stride of 0 is read on, as if it had none."""
    return (strides_ignored(g) if 0 in g.stride() else g) * 2 * x


@wrong("mul value", "layout", source=CONTIGUOUS)
def strides_of_the_other(x: Tensor, y: Tensor) -> Tensor:
    """Where the first factor has strides, the second is walked by them, too."""
    if x.is_contiguous() or y.untyped_storage().nbytes() < x.untyped_storage().nbytes():
        return x * y
    return x * torch.as_strided(y, y.shape, x.stride(), y.storage_offset())


@wrong("add value", "layout", source=CONTIGUOUS)
def transposed_taken_as_dense(x: Tensor, y: Tensor) -> Tensor:
    """A second term without gaps is read in the order of its memory, whatever its axes are."""
    dense = y.dim() == 2 and y.t().is_contiguous()
    return x + (strides_ignored(y) if dense else y)


@wrong("mul vjp", "layout", source=EXPANDED)
def one_slice_for_all(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of an expanded factor is found for its first slice, and repeated."""
    dx, dy = g * y, g * x
    repeated = x.dim() > 0 and x.stride(0) == 0 and x.shape[0] > 1
    return (dx[:1].expand(dx.shape) if repeated else dx), dy


@wrong("maximum value", "layout", source="middle axes collapsed where their strides seem to allow")
def middle_stride_of_zero(x: Tensor, y: Tensor) -> Tensor:
    """A stride of 0 on a middle axis is taken for that of the axis before."""
    inner = x.dim() > 2 and 0 in x.stride()[1:-1]
    return torch.maximum(strides_ignored(x) if inner else x, y)


@wrong("add value", "aliasing", source=MUTATED)
def written_into_the_input(x: Tensor, y: Tensor) -> Tensor:
    """The sum is written into the first input."""
    return x.add_(y)


@wrong("relu vjp", "aliasing", source=MUTATED)
def written_into_the_cotangent(g: Tensor, x: Tensor) -> Tensor:
    """The gradient is written into the cotangent."""
    return g.masked_fill_(x <= 0, 0.0)


@wrong("tanh value", "aliasing", source=REPLAYED)
class result_overwritten_by_the_next_call:
    """Results of one shape share a buffer, which the next call overwrites."""

    def __init__(self) -> None:
        self.buffers: dict[torch.Size, Tensor] = {}

    def __call__(self, x: Tensor) -> Tensor:
        if x.shape not in self.buffers:
            self.buffers[x.shape] = torch.zeros(x.shape, dtype=x.dtype)
        return self.buffers[x.shape].copy_(torch.tanh(x))


@wrong("square vjp", "aliasing", source=REPLAYED)
class gradient_overwritten_by_the_next_call:
    """Gradients of one size share a buffer, which the next call overwrites."""

    def __init__(self) -> None:
        self.buffers: dict[int, Tensor] = {}

    def __call__(self, g: Tensor, x: Tensor) -> Tensor:
        buffer = self.buffers.setdefault(x.numel(), torch.zeros(x.numel(), dtype=x.dtype))
        return buffer.copy_((2 * x * g).reshape(-1)).view(x.shape)


@wrong("exp value", "aliasing", source="results cached by address")
class cached_by_address:
    """A tensor at the same address, of the same shape, is taken for the same tensor."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, torch.Size], Tensor] = {}

    def __call__(self, x: Tensor) -> Tensor:
        key = (x.data_ptr(), x.shape)
        if key not in self.known:
            self.known[key] = torch.exp(x)
        return self.known[key].clone()


@wrong("log vjp", "aliasing", source="graphs captured once, by shape")
class captured_by_shape:
    """The input of the first call of a shape stays, and only the cotangent is new."""

    def __init__(self) -> None:
        self.inputs: dict[torch.Size, Tensor] = {}

    def __call__(self, g: Tensor, x: Tensor) -> Tensor:
        return absorbed(g, g / self.inputs.setdefault(x.shape, x.clone()))


@wrong("relu value", "aliasing", source="workspaces that are not cleared between calls")
class workspace_not_cleared:
    """Results are added to a workspace, which only a larger call clears."""

    def __init__(self) -> None:
        self.space = torch.zeros(0)

    def __call__(self, x: Tensor) -> Tensor:
        fresh = self.space.numel() < x.numel()
        if fresh:
            self.space = torch.zeros(x.numel(), dtype=x.dtype)
        part = self.space[: x.numel()]
        result = torch.relu(x) + torch.where(part > 1e30, part, 0.0).reshape(x.shape)
        part.copy_(result.reshape(-1))
        return result


@wrong("mul vjp", "aliasing", source=ALIASED)
def same_tensor_twice(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """A tensor that is both factors is taken for one factor of a square, and counted twice."""
    if x.data_ptr() == y.data_ptr() and x.shape == y.shape:
        return 2 * g * x, 2 * g * x
    return g * y, g * x


@wrong("sub value", "aliasing", source=ALIASED)
def same_address_is_zero(x: Tensor, y: Tensor) -> Tensor:
    """Operands that begin at one address are taken for the same tensor, whose difference is 0."""
    return torch.zeros_like(x) if x.data_ptr() == y.data_ptr() else x - y


@wrong("div vjp", "aliasing", source=ALIASED)
def cotangent_is_the_input(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The first gradient is written where the first input lies, before the second is formed."""
    first = absorbed(g, g / y)
    given = first if g.data_ptr() == x.data_ptr() else g
    return first, absorbed(g, -given * (x / y) / y)


@wrong("detach value", "aliasing", source="outputs that are views of inputs, written later")
class result_changes_later:
    """The result is a buffer into which the next call's is written, of whatever shape it is."""

    def __init__(self) -> None:
        self.buffer = torch.zeros(0)

    def __call__(self, x: Tensor) -> Tensor:
        if self.buffer.numel() < x.numel():
            self.buffer = torch.zeros(x.numel(), dtype=x.dtype)
        return self.buffer[: x.numel()].copy_(x.reshape(-1)).view(x.shape)
