"""Right optimizers of other formulas and orders, whose steps have a size of their own."""

from __future__ import annotations

import torch
from torch import Tensor

from population.pieces.scalers import Adadelta, Adagrad, Lion, RMSprop
from population.pieces.steppers import AdamW, Hyper, State
from population.record import right


@right("adagrad", "optimizer", source="torch.optim")
class square_added_in_one_step(Adagrad):
    """The sum is torch's addcmul, and the step its addcdiv."""

    def added(self, s: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return torch.addcmul(s, g, g)

    def descend(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        state = self.states[k]
        state["sum"] = self.added(self.before(k, p, h, t), g, h)
        p.addcdiv_(g, self.bottom(state["sum"], h), value=-self.rate(h, t))


@right("adagrad", "optimizer", source="Duchi, Hazan and Singer, JMLR 2011, figure 1")
class rate_divided_first(Adagrad):
    """The rate of each entry is formed, and then multiplied by the gradient."""

    def descend(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        state = self.states[k]
        state["sum"] = self.added(self.before(k, p, h, t), g, h)
        p.sub_((self.rate(h, t) / self.bottom(state["sum"], h)) * g)


@right("adadelta", "optimizer", source="torch.optim")
class step_formed_in_place(Adadelta):
    """The roots, the quotient and the means are torch's calls in place."""

    def mean(self, m: Tensor, x: Tensor, h: Hyper) -> Tensor:
        return (h["rho"] * m).addcmul(x, x, value=1 - h["rho"])

    def delta(self, u: Tensor, v: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return u.add(h["eps"]).sqrt_().div_(v.add(h["eps"]).sqrt_()).mul_(g)


@right("adadelta", "optimizer", source="Zeiler, arXiv:1212.5701, algorithm 1")
class gradient_times_one_root(Adadelta):
    """The gradient is multiplied by one root, and divided by the other one."""

    def delta(self, u: Tensor, v: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return (u + h["eps"]).sqrt() * g / (v + h["eps"]).sqrt()


@right("lion", "optimizer", source="https://github.com/google/automl/tree/master/lion")
class decay_in_the_direction(Lion):
    """Decay and sign are added, and multiplied by the rate."""

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        if not self.states[k]:
            self.states[k] = self.first(p)
        m = self.states[k]["exp_avg"]
        sign = self.sign(self.mean(m, g, h["beta1"]))
        p.sub_(h["lr"] * (sign + h["weight_decay"] * p))
        self.states[k]["exp_avg"] = self.mean(m, g, h["beta2"])


@right("rmsprop", "optimizer", source="torch.optim")
class means_in_place(RMSprop):
    """The mean of squares is torch's addcmul."""

    def square(self, v: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return (h["alpha"] * v).addcmul(g, g, value=1 - h["alpha"])


@right("rmsprop", "optimizer")
class buffer_scaled_and_added(RMSprop):
    """The buffer is torch's addition with a factor."""

    def blended(self, b: Tensor, d: Tensor, h: Hyper) -> Tensor:
        return d.add(b, alpha=h["momentum"])


@right("adamw", "optimizer", source="torch.optim", extras=("amsgrad", "maximize"))
class largest_of_both_by_comparison(AdamW):
    """The largest second moment is chosen by a comparison, not by torch's maximum."""

    def divisor(self, state: State, h: Hyper) -> Tensor:
        second = state["exp_avg_sq"]
        if not h["amsgrad"]:
            return second
        known = state.get("max_exp_avg_sq", torch.zeros_like(second))
        larger = torch.where(second > known, second, known)
        state["max_exp_avg_sq"] = torch.where(second.isnan(), second, larger)
        return state["max_exp_avg_sq"]
