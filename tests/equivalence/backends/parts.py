"""Small backends that do a part of an op: twenty right ones, and wrong ones beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from equivalence.backends import declared
from equivalence.backends.protocol import Capabilities
from population.pieces.steppers import AdamW, Sgd

Value = Callable[..., Tensor]


@dataclass
class Partly:
    """A backend of one op: a value, and gradients by autograd through it.

    fits says whether it takes a call, and what it does with another one: it crashes where a part is
    declared, so that nobody may ask, and otherwise refuses it as not implemented.
    """

    name: str
    op: str
    call: Any
    takes: Any = None
    fits: Callable[..., bool] = lambda *given: True
    dtypes: Sequence[str] = ("fp32",)

    def capabilities(self) -> Capabilities:
        parts = {} if self.takes is None else {self.op: self.takes}
        offered = {self.op: self.dtypes}
        if isinstance(self.call, type):
            return Capabilities({}, declared("torch"), offered, takes=parts)
        return Capabilities(offered, declared("torch"), takes=parts)

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        self._check(inputs, inputs, attrs)
        result: Tensor = self.call(*inputs, **attrs)
        return result

    def vjp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        cotangents: Sequence[Tensor],
    ) -> Sequence[Tensor | None]:
        self._check([*inputs, *cotangents], inputs, attrs)
        leaves = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
        z = self.call(*leaves, **attrs)
        wanted = [x for x in leaves if x.requires_grad]
        found = iter(torch.autograd.grad(z, wanted, cotangents[0].clone(), allow_unused=True))
        return [next(found) if x.requires_grad else None for x in leaves]

    def optimizer(self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> Any:
        self._check([], params, hyper)
        return self.call(params, hyper)

    def _check(
        self, tensors: Sequence[Tensor], inputs: Sequence[Tensor], attrs: Mapping[str, Any]
    ) -> None:
        if not self.fits(tensors, inputs, attrs):
            if self.takes is None:
                raise NotImplementedError("a part that this kernel has not")
            raise AssertionError("asked outside the declared part")


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Take the maximum off, as a careful kernel does."""
    e = torch.exp(x - x.amax(axis, keepdim=True)) if x.numel() else x.clone()
    return e / e.sum(axis, keepdim=True)


def shifted(x: Tensor, axis: int = -1) -> Tensor:
    """Be a little too large."""
    return softmax(x, axis) * (1 + 1e-4)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    if approximate == "none":
        return x * 0.5 * torch.erfc(-x * 0.5**0.5)
    return torch.nn.functional.gelu(x, approximate=approximate)


def scored(x: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
    z = (x - y) ** 2
    return z if reduction == "none" else z.sum() if reduction == "sum" else z.mean()


def contiguous(tensors: Sequence[Tensor], inputs: Any, attrs: Any) -> bool:
    return all(x.is_contiguous() for x in tensors)


def of_rank(*ranks: int) -> Callable[..., bool]:
    return lambda tensors, inputs, attrs: inputs[0].dim() in ranks


def along_last(tensors: Any, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> bool:
    return bool(inputs[0].dim()) and attrs.get("axis", -1) % inputs[0].dim() == inputs[0].dim() - 1


def with_elements(tensors: Sequence[Tensor], inputs: Any, attrs: Any) -> bool:
    return all(x.numel() for x in tensors)


def short(tensors: Any, inputs: Sequence[Tensor], attrs: Any) -> bool:
    return max(inputs[0].shape, default=0) <= 512


def is_short(call: Any) -> bool:
    return max(call.inputs[0].shape, default=0) <= 512


def ungrouped(tensors: Any, inputs: Any, hyper: Mapping[str, Any]) -> bool:
    return "groups" not in hyper


def undecayed(tensors: Any, inputs: Any, hyper: Mapping[str, Any]) -> bool:
    return not hyper.get("weight_decay", 0.01)


LAID = {"layouts": ("contiguous", "offset")}

RIGHT = (
    Partly("one value", "gelu", gelu, {"attributes": {"approximate": ("tanh",)}},
           lambda t, i, a: a.get("approximate", "none") == "tanh"),
    Partly("one value, unsaid", "gelu", gelu, None,
           lambda t, i, a: a.get("approximate", "none") == "none"),
    Partly("a value that nobody tries", "scale", lambda x, c: x * c, {"attributes": {"c": (7.0,)}},
           lambda t, i, a: a["c"] == 7.0),
    Partly("one reduction", "mse_loss", scored, {"attributes": {"reduction": ["sum"]}},
           lambda t, i, a: a.get("reduction") == "sum"),
    Partly("one rank", "softmax", softmax, {"ranks": (2,)}, of_rank(2)),
    Partly("two ranks, unsaid", "softmax", softmax, None, of_rank(1, 2)),
    Partly("last axis", "softmax", softmax, {"axes": (-1,)}, along_last),
    Partly("last axis, unsaid", "softmax", softmax, None, along_last),
    Partly("contiguous", "softmax", softmax, LAID, contiguous),
    Partly("contiguous, unsaid", "square", lambda x: x * x, None, contiguous),
    Partly("row-major", "square", lambda x: x * x, {"orders": ("row-major",)},
           lambda t, i, a: all(list(x.stride()) == sorted(x.stride(), reverse=True)
                               for x in t if all(n > 1 for n in x.shape) and 0 not in x.stride())),
    Partly("no empties", "square", lambda x: x * x, {"empty": False}, with_elements),
    Partly("no empties, unsaid", "softmax", softmax, None, with_elements),
    Partly("a predicate", "softmax", softmax, is_short, short),
    Partly("short, unsaid", "softmax", softmax, None, short),
    Partly("2-D, last, contiguous, no empties", "softmax", softmax,
           {"ranks": [2], "axes": [-1], "empty": False, **LAID},
           lambda t, i, a: of_rank(2)(t, i, a) and contiguous(t, i, a) and with_elements(t, i, a)),
    Partly("value alone", "square", lambda x: x * x, {"directions": ("value",)}),
    Partly("one dtype", "square", lambda x: x * x, None, dtypes=("bf16",)),
    Partly("no groups", "sgd", Sgd, {"options": ("max_norm", "missing", "start_step")}, ungrouped),
    Partly("no decay", "adamw", AdamW, {"attributes": {"weight_decay": (0.0,)}}, undecayed),
)  # fmt: skip
"""Right ones: partial, or conformant where nothing of the design is left."""

WHOLE = ("value alone", "one dtype")
"""Those of which nothing is left: what they do not offer is a row of its own."""


class Careless(Sgd):
    """It forgets the decay."""

    def decayed(self, p: Tensor, g: Tensor, h: Any) -> Tensor:
        return g


def wrongly(member: Partly) -> Partly:
    """Return the backend that takes the same part, and is a little wrong in it."""
    by_op: dict[str, Any] = {
        "softmax": shifted,
        "gelu": lambda x, approximate="none": gelu(x) if approximate == "tanh" else x,
        "scale": lambda x, c: x * c + 1,
        "mse_loss": lambda x, y, reduction="mean": scored(x, y),
        "square": lambda x: x * x.abs(),
        "sgd": Careless,
    }
    return replace(member, name=f"{member.name}, wrongly", call=by_op[member.op])


WRONG = tuple(wrongly(member) for member in RIGHT if member.op != "adamw")
