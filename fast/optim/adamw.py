"""Twin of spec.optim.adamw.

One launch over flat arenas: a program per chunk, and one more for the step counts. Its arithmetic,
and how the ATen twin torch._fused_adamw_ differs, are described in fast.optim._moments.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from fast.optim._functional import Functional
from fast.optim._moments import moments_rule


class Hyper(NamedTuple):
    """The hyper-parameters, in the order of the kernel's table."""

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 1e-2
    amsgrad: bool = False
    maximize: bool = False


RULE = moments_rule(
    "adamw",
    Hyper,
    torch._fused_adamw_,
    decoupled=True,
    order=("lr", "weight_decay", "beta1", "beta2", "eps", "amsgrad", "maximize"),
    torch=torch.optim.AdamW,
)


class AdamW(Functional):
    """AdamW on a list of tensors, copied in: `step(grads)`, `params()`, `state()`."""

    def __init__(
        self, params: list[Tensor], hyper: Any = None, provider: str = "aten", **more: Any
    ) -> None:
        super().__init__(RULE, params, hyper or {}, provider, **more)
