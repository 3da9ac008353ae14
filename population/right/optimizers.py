"""Right optimizers: the same update by other formulas and in other orders."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from equivalence.backends.torch.optim import TorchOptimizer
from population.pieces.orthogonal import Muon, MuonInBf16, by_addmm
from population.pieces.steppers import Adam, AdamW, Hyper, Sgd, State, Stepper
from population.record import right

PAPER = "Kingma and Ba, ICLR 2015, algorithm 1"


@right("adam", "optimizer", source=PAPER)
class mean_as_in_the_paper(Adam):
    """The first moment is b m + (1 - b) g."""

    def mean(self, m: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return h["beta1"] * m + (1 - h["beta1"]) * g


@right("adamw", "optimizer", source=PAPER)
class weighted_mean(AdamW):
    """The first moment is torch's lerp."""

    def mean(self, m: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return torch.lerp(m, g, 1 - h["beta1"])


@right("adam", "optimizer", source="torch.optim")
class square_in_one_step(Adam):
    """The second moment is torch's addcmul."""

    def square(self, v: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return (h["beta2"] * v).addcmul(g, g, value=1 - h["beta2"])


@right("adam", "optimizer", source=PAPER)
class moments_corrected_first(Adam):
    """Both moments are corrected before they are divided."""

    def descend(self, p: Tensor, state: State, h: Hyper, t: int) -> None:
        first, second = self.corrections(h, t)
        m, v = state["exp_avg"] / first, state["exp_avg_sq"] / second
        p.sub_(h["lr"] * m / (v.sqrt() + h["eps"]))


@right("adam", "optimizer", source="Kingma and Ba, end of section 2")
class corrections_in_the_rate(Adam):
    """Both corrections are in the rate, and eps is corrected with them."""

    def descend(self, p: Tensor, state: State, h: Hyper, t: int) -> None:
        first, second = self.corrections(h, t)
        root = math.sqrt(second)
        bottom = state["exp_avg_sq"].sqrt() + h["eps"] * root
        p.sub_(h["lr"] * root / first * (state["exp_avg"] / bottom))


@right("adam", "optimizer", source="Kingma and Ba, end of section 2")
class corrected_rate_times_the_moment(Adam):
    """Both corrections are in the rate, by which the first moment is multiplied first."""

    def descend(self, p: Tensor, state: State, h: Hyper, t: int) -> None:
        first, second = self.corrections(h, t)
        root = math.sqrt(second)
        bottom = state["exp_avg_sq"].sqrt() + h["eps"] * root
        p.sub_(h["lr"] * root / first * state["exp_avg"] / bottom)


@right("adam", "optimizer", source="torch.optim")
class quotient_added(Adam):
    """The step is torch's addcdiv."""

    def descend(self, p: Tensor, state: State, h: Hyper, t: int) -> None:
        first, second = self.corrections(h, t)
        bottom = self.bottom(state["exp_avg_sq"], second, h)
        p.addcdiv_(state["exp_avg"], bottom, value=-h["lr"] / first)


@right("adamw", "optimizer", source="Loshchilov and Hutter, ICLR 2019, algorithm 2")
class decay_with_the_step(AdamW):
    """Decay and step are added, and multiplied by the rate."""

    def decayed(self, p: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return g

    def descend(self, p: Tensor, state: State, h: Hyper, t: int) -> None:
        first, second = self.corrections(h, t)
        step = (state["exp_avg"] / first) / self.bottom(state["exp_avg_sq"], second, h)
        p.sub_(h["lr"] * (step + h["weight_decay"] * p))


@right("adamw", "optimizer")
class decay_subtracted(AdamW):
    """The decay is subtracted, not multiplied."""

    def decayed(self, p: Tensor, g: Tensor, h: Hyper) -> Tensor:
        p.sub_(h["lr"] * h["weight_decay"] * p)
        return g


class _Double(Stepper):
    """One update in double, rounded to the parameters' dtype when it is done."""

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        own = self.states[k]
        wide = {name: tensor.double() for name, tensor in own.items()}
        self.states[k], double = wide, p.double()
        super().update(k, double, g.double(), h, t)
        p.copy_(double)
        self.states[k] = {name: tensor.to(p.dtype) for name, tensor in self.states[k].items()}


@right("adam", "precision")
class adam_in_double(_Double, Adam):
    """Every step is taken in double, and rounded once."""


@right("adamw", "precision")
class adamw_in_double(_Double, AdamW):
    """Every step is taken in double, and rounded once."""


@right("sgd", "precision")
class sgd_in_double(_Double, Sgd):
    """Every step is taken in double, and rounded once."""


class _Masters(Stepper):
    """Parameters and moments as float32, of which the caller sees copies in bfloat16.

    What was given is converted there and back, which changes the payload of a NaN.
    """

    def __init__(self, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> None:
        super().__init__([p.float() for p in params], hyper)
        self.dtype = params[0].dtype

    def load(self, state: Mapping[str, Sequence[Any]]) -> None:
        wide = {
            name: [t.float() if isinstance(t, Tensor) else t for t in row]
            for name, row in state.items()
        }
        super().load(wide)

    def step(self, grads: Sequence[Tensor | None]) -> None:
        super().step([None if g is None else g.float() for g in grads])

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        super().update(k, p, g, h, t)
        for kept in (p, *self.states[k].values()):
            kept.copy_(kept.to(self.dtype))

    def params(self) -> Sequence[Tensor]:
        return [p.to(self.dtype) for p in self.kept]

    def state(self) -> Mapping[str, Sequence[Tensor | None]]:
        return {
            name: [t if t is None or name == "step" else t.to(self.dtype) for t in row]
            for name, row in super().state().items()
        }


@right("adamw", "precision", dtypes=("bf16",))
class masters_in_float32(_Masters, AdamW):
    """Parameters are kept in float32, with the numbers of bfloat16."""


@right("sgd", "precision", dtypes=("bf16",))
class sgd_on_masters(_Masters, Sgd):
    """Parameters are kept in float32, with the numbers of bfloat16."""


@right("sgd", "optimizer")
class direction_scaled_first(Sgd):
    """Momentum and gradient are multiplied by torch's scaled additions."""

    def decayed(self, p: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return g.add(p, alpha=h["weight_decay"]) if h["weight_decay"] else g

    def ahead(self, d: Tensor, b: Tensor, h: Hyper) -> Tensor:
        return d.add(b, alpha=h["momentum"])


@right("sgd", "optimizer")
class norm_of_norms(Sgd):
    """The global norm is the norm of the gradients' norms."""

    def norm(self, grads: Sequence[Tensor]) -> Tensor:
        found: Tensor = torch.linalg.vector_norm(torch.stack([g.norm() for g in grads]))
        return found


@right("adamw", "optimizer")
class norm_in_one_row(AdamW):
    """The global norm is that of all gradients in one row."""

    def norm(self, grads: Sequence[Tensor]) -> Tensor:
        found: Tensor = torch.linalg.vector_norm(torch.cat([g.reshape(-1) for g in grads]))
        return found


@right("sgd", "optimizer")
class norm_scaled_by_the_largest(Sgd):
    """The largest entry is divided out before entries are squared."""

    def norm(self, grads: Sequence[Tensor]) -> Tensor:
        flat = torch.cat([g.reshape(-1) for g in grads])
        top = flat.abs().max()
        if not bool(top.isfinite()) or top == 0:
            return top
        return top * ((flat / top) ** 2).sum().sqrt()


class _Torchs(TorchOptimizer):
    """Torch's own optimizer, all tensors at once (foreach), which is handed copies of gradients:
    its SGD adds Nesterov's momentum to them where they lie."""

    name_of = ""

    def __init__(self, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> None:
        super().__init__(self.name_of, params, hyper)

    def _named(self, group: dict[str, Any]) -> dict[str, Any]:
        return {**super()._named(group), "foreach": True}

    def step(self, grads: Sequence[Tensor | None]) -> None:
        super().step([None if g is None else g.clone() for g in grads])


@right("adam", "optimizer", source="torch.optim.Adam(foreach=True)")
class adam_all_at_once(_Torchs):
    """It is torch's Adam over lists of tensors."""

    name_of = "adam"


@right("adamw", "optimizer", source="torch.optim.AdamW(foreach=True)")
class adamw_all_at_once(_Torchs):
    """It is torch's AdamW over lists of tensors."""

    name_of = "adamw"


@right("sgd", "optimizer", source="torch.optim.SGD(foreach=True)")
class sgd_all_at_once(_Torchs):
    """It is torch's SGD over lists of tensors."""

    name_of = "sgd"


@right("muon", "optimizer", source="torch.optim.Muon")
class products_that_are_added_to(Muon):
    """Both mixtures are torch's addmm."""

    def turned(self, x: Tensor, h: Hyper, turn: int) -> Tensor:
        return by_addmm(x, h)


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


@right("muon", "optimizer", source="torch.optim.Muon", extras=("ns_dtype",))
class narrow_products_that_are_added_to(MuonInBf16):
    """In bfloat16 both mixtures are torch's addmm, which rounds once."""

    def turned(self, x: Tensor, h: Hyper, turn: int) -> Tensor:
        return by_addmm(x, h)
