"""Optimizers whose steps have the size that earlier gradients gave, or one size alone.

They are cut as those in `steppers` are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from population.pieces.steppers import Hyper, State, Stepper


class Scaler(Stepper):
    """What they share: a gradient is negated to maximize, and the decay joins it."""

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        """Steer, remember, and descend."""
        if not self.states[k]:
            self.states[k] = self.first(p)
        self.descend(k, p, self.steered(p, g, h), h, t)

    def steered(self, p: Tensor, g: Tensor, h: Hyper) -> Tensor:
        """Negate the gradient to maximize, and add the decay."""
        g = -g if h["maximize"] else g
        return g + h["weight_decay"] * p if h["weight_decay"] else g

    def descend(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        """Take the step by a steered gradient."""
        raise NotImplementedError


class Adagrad(Scaler):
    """Each entry's rate falls with the squares of its gradients, which are added up."""

    page = "adagrad"

    def descend(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        """Add the square, and divide by the root of the sum."""
        state = self.states[k]
        before = self.before(k, p, h, t)
        state["sum"] = self.added(before, g, h)
        p.sub_(self.rate(h, t) * (g / self.bottom(state["sum"], h)))

    def before(self, k: int, p: Tensor, h: Hyper, t: int) -> Tensor:
        """Return the sum before the step, which starts from a hyper-parameter."""
        if t > 1:
            return self.states[k]["sum"]
        return p.new_full(p.shape, h["initial_accumulator_value"])

    def added(self, s: Tensor, g: Tensor, h: Hyper) -> Tensor:
        """Return the sum after one more gradient."""
        return s + g * g

    def rate(self, h: Hyper, t: int) -> float:
        """Return the rate of the step of a number."""
        rate: float = h["lr"] / (1 + (t - 1) * h["lr_decay"])
        return rate

    def bottom(self, s: Tensor, h: Hyper) -> Tensor:
        """Return what the gradient is divided by."""
        return s.sqrt() + h["eps"]


class Adadelta(Scaler):
    """The size of a step follows from the sizes of earlier steps and gradients."""

    page = "adadelta"

    def descend(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        """Average the square, form the step, and average its square."""
        state = self.states[k]
        state["square_avg"] = self.mean(state["square_avg"], g, h)
        d = self.delta(state["acc_delta"], state["square_avg"], g, h)
        state["acc_delta"] = self.mean(state["acc_delta"], d, h)
        p.sub_(h["lr"] * d)

    def mean(self, m: Tensor, x: Tensor, h: Hyper) -> Tensor:
        """Return a mean of squares after one more number."""
        return h["rho"] * m + (1 - h["rho"]) * (x * x)

    def delta(self, u: Tensor, v: Tensor, g: Tensor, h: Hyper) -> Tensor:
        """Return the step but for the rate."""
        return (u + h["eps"]).sqrt() / (v + h["eps"]).sqrt() * g


class Lion(Stepper):
    """Every entry moves by the same size, by the sign of a mean of gradients."""

    page = "lion"

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        """Decay, step by the sign, and average."""
        if not self.states[k]:
            self.states[k] = self.first(p)
        m = self.states[k]["exp_avg"]
        p.mul_(1 - h["lr"] * h["weight_decay"])
        p.sub_(h["lr"] * self.sign(self.mean(m, g, h["beta1"])))
        self.states[k]["exp_avg"] = self.mean(m, g, h["beta2"])

    def mean(self, m: Tensor, g: Tensor, beta: float) -> Tensor:
        """Return what lies between the mean and the gradient."""
        return beta * m + (1 - beta) * g

    def sign(self, c: Tensor) -> Tensor:
        """Return the sign, which is 0 at 0 and NaN at NaN."""
        return torch.where(c.isnan(), c, c.sign())


class RMSprop(Scaler):
    """Each entry's gradient is divided by the root of a mean of its squares."""

    page = "rmsprop"

    def first(self, p: Tensor) -> State:
        """Return the state before the first step: a mean of squares alone."""
        return {"square_avg": torch.zeros_like(p)}

    def descend(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        """Average, divide, blend, and step."""
        state = self.states[k]
        state["square_avg"] = self.square(state["square_avg"], g, h)
        spread = state["square_avg"]
        if h["centered"]:
            mean = state.get("grad_avg", torch.zeros_like(p))
            state["grad_avg"] = mean + (1 - h["alpha"]) * (g - mean)
            spread = self.variance(spread, state["grad_avg"])
        d = g / self.bottom(spread, h)
        if h["momentum"]:
            d = self.blended(state.get("momentum_buffer", torch.zeros_like(p)), d, h)
            state["momentum_buffer"] = d
        p.sub_(h["lr"] * d)

    def square(self, v: Tensor, g: Tensor, h: Hyper) -> Tensor:
        """Return the mean of squares after one more gradient."""
        return h["alpha"] * v + (1 - h["alpha"]) * (g * g)

    def variance(self, v: Tensor, m: Tensor) -> Tensor:
        """Return what is left of the mean of squares without the square of the mean."""
        return torch.clamp(v - m * m, min=0.0)

    def bottom(self, spread: Tensor, h: Hyper) -> Tensor:
        """Return what the gradient is divided by."""
        return spread.sqrt() + h["eps"]

    def blended(self, b: Tensor, d: Tensor, h: Hyper) -> Tensor:
        """Return the buffer after one more direction."""
        return h["momentum"] * b + d
