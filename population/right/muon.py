"""Right Muon: the same update by other formulas and in other orders."""

from __future__ import annotations

import torch
from torch import Tensor

from population.pieces.orthogonal import Muon
from population.pieces.steppers import Hyper
from population.record import right


@right("muon", "optimizer", source="torch.optim.Muon")
class products_that_are_added_to(Muon):
    """Both mixtures are torch's addmm."""

    def turned(self, x: Tensor, h: Hyper, turn: int) -> Tensor:
        gram = x @ x.t()
        factor = torch.addmm(gram, gram, gram, beta=h["ns_b"], alpha=h["ns_c"])
        return torch.addmm(x, factor, x, beta=h["ns_a"])


@right("muon", "optimizer", source="torch.optim.Muon")
class blended_by_lerp(Muon):
    """The moment, and what Nesterov's form takes of it, are torch's lerp."""

    def blended(self, b: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return torch.lerp(b, g, 1 - h["momentum"])


@right("muon", "optimizer")
class tall_as_it_stands(Muon):
    """A tall matrix is not transposed: its change is X F with G = X^T X."""

    def orthogonal(self, u: Tensor, h: Hyper) -> Tensor:
        if u.shape[0] <= u.shape[1]:
            return super().orthogonal(u, h)
        x = u / self.length(u, h)
        for _ in range(int(h["ns_steps"])):
            gram = x.t() @ x
            x = h["ns_a"] * x + x @ (h["ns_b"] * gram + h["ns_c"] * gram @ gram)
        return x
