"""Right optimizers: other ways to hold what changes between steps, and to treat special numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from population.pieces.steppers import Adam, AdamW, Hyper, Sgd
from population.record import right


@right("sgd", "optimizer")
class scale_in_a_tensor(Sgd):
    """The scale lies in a tensor of one entry, whose inverse multiplies the gradients."""

    def set_grad_scale(self, grad_scale: float) -> None:
        self.inverse = torch.tensor(1 / grad_scale)

    def step(self, grads: Sequence[Tensor | None]) -> None:
        inverse = getattr(self, "inverse", None)
        super().step([g if g is None or inverse is None else g * inverse for g in grads])


@lru_cache
def _corrections(beta1: float, beta2: float, t: int) -> tuple[float, float]:
    return 1 - beta1**t, 1 - beta2**t


@right("adam", "optimizer")
class corrections_kept_by_all_that_they_depend_on(Adam):
    """What corrects the bias is kept for all handles, by the betas and the step."""

    def corrections(self, h: Hyper, t: int) -> tuple[float, float]:
        return _corrections(h["beta1"], h["beta2"], t)


@right("adam", "non-finite")
class state_made_anew(Adam):
    """A written moment is a new tensor, and no copy into the old one."""

    def write(self, parameter: int, field: str, numbers: Tensor) -> None:
        if field == "parameter":
            super().write(parameter, field, numbers)
        else:
            self.states[parameter][field] = numbers.clone(memory_format=torch.contiguous_format)


@right("adamw", "optimizer")
class decay_by_a_fused_product(AdamW):
    """The decay is subtracted by torch's addcmul."""

    def decayed(self, p: Tensor, g: Tensor, h: Hyper) -> Tensor:
        p.addcmul_(p.clone(), torch.ones_like(p), value=-h["lr"] * h["weight_decay"])
        return g


@right("adamw", "non-finite")
class norm_by_blocks(AdamW):
    """The global norm is formed by blocks of 256 entries."""

    def norm(self, grads: Sequence[Tensor]) -> Tensor:
        blocks = [block for g in grads for block in torch.split(g.reshape(-1).double(), 256)]
        return torch.stack([(block * block).sum() for block in blocks]).sum().sqrt().float()


@right("sgd", "optimizer")
class groups_read_at_each_step(Sgd):
    """The settings of a parameter are looked up at every step, and kept by no name."""

    def __init__(self, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> None:
        super().__init__(params, hyper)
        self.at = {k: n for n, group in enumerate(self.groups) for k in group["params"]}

    def of(self, k: int) -> dict[str, Any]:
        own = {} if k not in self.at else self.groups[self.at[k]]
        return {**self.usual, **{name: v for name, v in own.items() if name != "params"}}
