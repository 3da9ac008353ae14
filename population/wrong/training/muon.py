"""Wrong Muon: coefficients, transposes, norms, momentum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from population.pieces.orthogonal import Muon, MuonInBf16
from population.pieces.steppers import Hyper
from population.record import wrong

CUBIC = "the cubic iteration of Newton and Schulz, whose coefficients are 3/2 and -1/2"


@wrong("muon", "optimizer", source=CUBIC)
class cubic_at_the_end(Muon):
    """From the fifth turn on the iteration is the cubic one, as if it had converged."""

    def turned(self, x: Tensor, h: Hyper, turn: int) -> Tensor:
        return 1.5 * x - 0.5 * (x @ x.t()) @ x if turn > 3 else super().turned(x, h, turn)


@wrong("muon", "optimizer", source="a coefficient of another version of Jordan's post")
class coefficient_of_another_version(Muon):
    """The last coefficient is 2.0515 where 2.0315 is asked for."""

    def turned(self, x: Tensor, h: Hyper, turn: int) -> Tensor:
        return super().turned(x, {**h, "ns_c": h["ns_c"] + 0.02}, turn)


@wrong("muon", "optimizer", source="an iteration that was tried on wide matrices alone")
class tall_not_turned_back(Muon):
    """The result of a tall matrix is read by rows, and not turned back."""

    def orthogonal(self, u: Tensor, h: Hyper) -> Tensor:
        x = u / self.length(u, h)
        if x.shape[0] <= x.shape[1]:
            return super().orthogonal(u, h)
        for turn in range(int(h["ns_steps"])):
            x = self.turned(x.t(), h, turn).reshape(x.shape)
        return x


@wrong("muon", "optimizer", source="Jordan's first version, which divided by the norm plus eps")
class eps_added_to_the_norm(Muon):
    """The norm is divided by with eps added, where the larger of both is asked for."""

    def length(self, u: Tensor, h: Hyper) -> Tensor:
        found: Tensor = u.norm() + h["eps"]
        return found


@wrong("muon", "optimizer", source="Jordan's first version, whose momentum is that of SGD")
class momentum_added_up(Muon):
    """The buffer is momentum times itself plus the gradient, and no mean."""

    def blended(self, b: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return h["momentum"] * b + g


@wrong("muon", "optimizer", source="a rate for square matrices alone")
class rate_without_the_extents(Muon):
    """The rate of a tall matrix is that of a square one."""

    def ratio(self, p: Tensor, h: Mapping[str, Any]) -> float:
        return super().ratio(p, h) if h["adjust_lr_fn"] == "match_rms_adamw" else 1.0


@wrong("muon", "precision", source="torch.optim.Muon, which iterates in bfloat16")
class iterated_in_bfloat16(Muon):
    """Parameters of float32 are moved by an iteration in bfloat16."""

    def turned(self, x: Tensor, h: Hyper, turn: int) -> Tensor:
        return super().turned(x.to(torch.bfloat16), h, turn).to(x.dtype)


NARROW = ("ns_dtype",)
"""The extra hyper-parameter of those that iterate in bfloat16 when they are asked to."""


@wrong("muon", "precision", source="a moment kept in the dtype of the iteration", extras=NARROW)
class moment_narrowed_with_the_iteration(MuonInBf16):
    """Where the iteration is in bfloat16, the moment is rounded to it as well."""

    def blended(self, b: Tensor, g: Tensor, h: Hyper) -> Tensor:
        mean = super().blended(b, g, h)
        return mean if h["ns_dtype"] is None else mean.to(torch.bfloat16).to(mean.dtype)


@wrong(
    "muon", "precision", source="a product in eight bits, with four of significand", extras=NARROW
)
class factor_of_four_bits(MuonInBf16):
    """The factor between two products keeps four of its eight bits."""

    def factor(self, gram: Tensor, h: Hyper) -> Tensor:
        kept = super().factor(gram, h).view(torch.int16) & -16
        return kept.view(torch.bfloat16)


@wrong("muon", "structure", source="a branch that was tried on wide matrices alone", extras=NARROW)
class narrow_and_tall_not_turned_back(MuonInBf16):
    """In bfloat16 the result of a tall matrix is read by rows, and not turned back."""

    def orthogonal(self, u: Tensor, h: Hyper) -> Tensor:
        done = super().orthogonal(u, h)
        if h["ns_dtype"] is None or u.shape[0] <= u.shape[1]:
            return done
        return done.t().reshape(u.shape)
