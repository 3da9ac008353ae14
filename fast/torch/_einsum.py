"""Einstein's sums of torch tensors, by the ops of products and sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fast.einsum import contracted
from fast.kernels import checks
from fast.torch._library import call, define, provider_of, refuse_tangents, same


def einsum(equation: str, *operands: Any, provider: str | None = None) -> Tensor:
    """Sum products over named axes, such as "bij,bjk->bik"; operands are arguments, or a list.

    Equations are those of a session: letters and one "..." in each term, and a "->". Operands are
    multiplied from left to right, and not broadcast. `Rejected` says which constraint of
    `fast.einsum` is broken; see `fast.ops.bmm`, `matmul`, `mul` and `sum`.
    """
    listed = len(operands) == 1 and isinstance(operands[0], (list, tuple))
    given: tuple[Any, ...] = tuple(operands[0]) if listed else operands
    chosen = [provider_of("einsum", provider, x) for x in given]
    refuse_tangents("einsum", given)
    for x in given:
        checks.floats("einsum", x)
    ops = _Ops(chosen[0]) if chosen else None
    found: _Ref = contracted(equation, [_Ref(x, ops) for x in given])
    return found.tensor.contiguous()


class _Ref:
    """A tensor as an equation sees it, with the ops that take it."""

    def __init__(self, tensor: Tensor, session: _Ops | None) -> None:
        """Hold a tensor."""
        self.tensor, self.session = tensor, session
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype


@dataclass(frozen=True)
class _Ops:
    """The ops that an equation is made of: torch moves entries, and our kernels compute."""

    provider: str

    def permute(self, x: _Ref, *, axes: Sequence[int]) -> _Ref:
        """Bring axes into another order."""
        return _Ref(x.tensor.permute(*axes), self)

    def reshape(self, x: _Ref, *, shape: Sequence[int]) -> _Ref:
        """Lay a tensor out in another shape."""
        return _Ref(x.tensor.reshape(tuple(shape)), self)

    def take(self, x: _Ref, indices: Sequence[int], *, axis: int) -> _Ref:
        """Take places along an axis."""
        places = torch.tensor(indices, dtype=torch.long, device=x.tensor.device)
        return _Ref(x.tensor.index_select(axis, places), self)

    def sum(self, x: _Ref, *, axes: Sequence[int]) -> _Ref:
        """Add along axes."""
        return self._called("sum", (x,), list(axes))

    def mul(self, *pair: _Ref) -> _Ref:
        """Multiply entry by entry."""
        return self._called("mul", pair)

    def matmul(self, *pair: _Ref) -> _Ref:
        """Multiply two matrices."""
        return self._called("matmul", pair)

    def bmm(self, *pair: _Ref) -> _Ref:
        """Multiply batches of matrices."""
        return self._called("bmm", pair)

    def _called(self, name: str, inputs: Sequence[_Ref], *rest: Any) -> _Ref:
        tensors = tuple(x.tensor for x in inputs)
        return _Ref(call(name, tensors, *rest, self.provider, who="einsum"), self)


def _without(x: Tensor, axes: Sequence[int]) -> Sequence[Any]:
    gone = {axis % x.dim() for axis in axes}
    return [n for axis, n in enumerate(x.shape) if axis not in gone]


define("mul", "Tensor x, Tensor y", "", (), same, 2)
define("sum", "Tensor x", "int[] axes", ("axes",), _without, 1)
