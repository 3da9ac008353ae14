"""Wrong optimizers whose steps have the size that earlier gradients gave, or one size alone."""

from __future__ import annotations

import torch
from torch import Tensor

from population.pieces.scalers import Adadelta, Adagrad, Lion, RMSprop
from population.pieces.steppers import Adam, AdamW, Hyper, State
from population.record import wrong

EPS = "https://github.com/pytorch/pytorch/issues/22628"


@wrong("adagrad", "optimizer", source=EPS)
class sum_with_eps_inside_the_root(Adagrad):
    """The root is of the sum plus eps."""

    def bottom(self, s: Tensor, h: Hyper) -> Tensor:
        return (s + h["eps"]).sqrt()


@wrong("adagrad", "optimizer", source="steps counted from 1 where the formula counts from 0")
class rate_decayed_a_step_early(Adagrad):
    """The rate of the first step has decayed once."""

    def rate(self, h: Hyper, t: int) -> float:
        return super().rate(h, t + 1)


@wrong("adagrad", "optimizer", source="torch.optim.Adagrad, whose groups fill no sums of their own")
class sums_started_from_zero(Adagrad):
    """The sum starts from zero, whatever the hyper-parameter says."""

    def before(self, k: int, p: Tensor, h: Hyper, t: int) -> Tensor:
        return self.states[k]["sum"]


@wrong("adagrad", "optimizer", source="the sum read before the gradient joins it")
class divided_by_the_sum_before(Adagrad):
    """A step is divided by the root of the sum without its own gradient, but for the first."""

    def descend(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        before = self.before(k, p, h, t)
        after = self.states[k]["sum"] = self.added(before, g, h)
        p.sub_(self.rate(h, t) * (g / self.bottom(before if t > 1 else after, h)))


@wrong(
    "adagrad",
    "optimizer",
    source="maximize taken for a change of the step's sign",
    extras=("maximize",),
)
class decay_climbs_too(Adagrad):
    """The decay joins before the gradient is negated, so that it grows the parameter."""

    def steered(self, p: Tensor, g: Tensor, h: Hyper) -> Tensor:
        g = g + h["weight_decay"] * p if h["weight_decay"] else g
        return -g if h["maximize"] else g


@wrong("adadelta", "optimizer", source=EPS)
class root_with_eps_outside(Adadelta):
    """Eps is added to both roots, not to what is under them."""

    def delta(self, u: Tensor, v: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return (u.sqrt() + h["eps"]) / (v.sqrt() + h["eps"]) * g


@wrong("adadelta", "optimizer", source="Zeiler's algorithm 1, which has no rate, with a rate in it")
class rate_inside_the_mean(Adadelta):
    """The mean of steps is of steps with the rate in them."""

    def descend(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        state = self.states[k]
        state["square_avg"] = self.mean(state["square_avg"], g, h)
        d = self.delta(state["acc_delta"], state["square_avg"], g, h)
        state["acc_delta"] = self.mean(state["acc_delta"], h["lr"] * d, h)
        p.sub_(h["lr"] * d)


@wrong("adadelta", "optimizer", source="the mean read before the gradient joins it")
class gradients_mean_a_step_late(Adadelta):
    """A step is divided by the mean without its own gradient."""

    def descend(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        state = self.states[k]
        d = self.delta(state["acc_delta"], state["square_avg"], g, h)
        state["square_avg"] = self.mean(state["square_avg"], g, h)
        state["acc_delta"] = self.mean(state["acc_delta"], d, h)
        p.sub_(h["lr"] * d)


@wrong("lion", "optimizer", source="Signum, which steps by the sign of the mean that it keeps")
class one_beta_for_both(Lion):
    """The sign is that of the new mean."""

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        super().update(k, p, g, {**h, "beta1": h["beta2"]}, t)


@wrong("lion", "optimizer", source="betas taken in Adam's order, where the first one is kept")
class betas_swapped(Lion):
    """The betas are taken for each other."""

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        super().update(k, p, g, {**h, "beta1": h["beta2"], "beta2": h["beta1"]}, t)


@wrong("lion", "optimizer", source="a sign by one comparison")
class sign_without_zero(Lion):
    """The sign of 0 is 1."""

    def sign(self, c: Tensor) -> Tensor:
        return torch.where(c.isnan(), c, torch.where(c < 0, -1.0, 1.0).to(c.dtype))


@wrong("lion", "non-finite", source="torch.sign, whose value at NaN is 0")
class sign_of_nan_is_zero(Lion):
    """A NaN moves nothing."""

    def sign(self, c: Tensor) -> Tensor:
        return c.sign()


@wrong("rmsprop", "optimizer", source=EPS)
class variance_with_eps_inside_the_root(RMSprop):
    """The root is of the mean plus eps, as it is in TensorFlow's and in Graves's."""

    def bottom(self, spread: Tensor, h: Hyper) -> Tensor:
        return (spread + h["eps"]).sqrt()


@wrong("rmsprop", "optimizer", source="the square of the mean forgotten where it is 0 at first")
class never_centered(RMSprop):
    """The mean of gradients is kept, and nothing is subtracted."""

    def variance(self, v: Tensor, m: Tensor) -> Tensor:
        return v


@wrong("rmsprop", "non-finite", source="torch.optim.RMSprop, whose root of v - m^2 may be NaN")
class variance_below_zero(RMSprop):
    """A variance below 0 has a root of NaN."""

    def variance(self, v: Tensor, m: Tensor) -> Tensor:
        return v - m * m


@wrong("rmsprop", "optimizer", source="momentum as in TensorFlow, whose buffer holds the rate")
class rate_inside_the_momentum(RMSprop):
    """The buffer holds steps, with the rate in them."""

    def descend(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        if not h["momentum"]:
            super().descend(k, p, g, h, t)
            return
        old = p.clone()
        buffer = self.states[k].get("momentum_buffer", torch.zeros_like(p))
        super().descend(k, p, g, {**h, "momentum": 0.0}, t)
        self.states[k]["momentum_buffer"] = h["momentum"] * buffer + (old - p)
        p.copy_(old - self.states[k]["momentum_buffer"])


@wrong(
    "adam",
    "optimizer",
    source="https://github.com/pytorch/pytorch/issues/78807",
    extras=("amsgrad",),
)
class largest_not_kept(Adam):
    """The largest second moment divides the step, and is not kept for the next one."""

    def divisor(self, state: State, h: Hyper) -> Tensor:
        kept = state.get("max_exp_avg_sq", torch.zeros_like(state["exp_avg_sq"])).clone()
        found = super().divisor(state, h)
        if h["amsgrad"]:
            state["max_exp_avg_sq"] = kept
        return found


@wrong(
    "adamw",
    "optimizer",
    source="AMSGrad read as a maximum that replaces the mean",
    extras=("amsgrad",),
)
class mean_replaced_by_the_largest(AdamW):
    """The largest second moment is what the next mean goes on from."""

    def divisor(self, state: State, h: Hyper) -> Tensor:
        found = super().divisor(state, h)
        if h["amsgrad"]:
            state["exp_avg_sq"] = found
        return found


@wrong("adamw", "optimizer", source="maximize left to the caller", extras=("maximize",))
class never_maximizes(AdamW):
    """It descends, whatever it is told."""

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        super().update(k, p, g, {**h, "maximize": False}, t)
