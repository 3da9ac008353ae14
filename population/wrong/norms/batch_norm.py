"""Wrong batch_norm."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from population.record import OWN, wrong

Several = tuple[Tensor, ...]
CENTRED: dict[str, Any] = {"forms": ()}
"""It subtracts the mean before it scales, and does not ask for what torch's other way may lose."""
BIASED = "https://github.com/pytorch/pytorch/issues/1410"
MOMENTUM = "ports from TensorFlow, whose momentum is what is kept"
ONE_PASS = "Chan, Golub and LeVeque, 1983; kernels of one pass"


def _axes(x: Tensor) -> tuple[int, ...]:
    return (0, *range(2, x.dim()))


def _column(line: Tensor, x: Tensor) -> Tensor:
    return line.view(-1, *(1 for _ in x.shape[2:]))


def _count(x: Tensor) -> int:
    return x.numel() // x.shape[1]


def _statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean of each channel, and the sum of the squares of the distances from it."""
    mean = x.mean(_axes(x))
    return mean, (x - _column(mean, x)).square().sum(_axes(x))


def _normal(x: Tensor, mean: Tensor, variance: Tensor, eps: float) -> Tensor:
    return (x - _column(mean, x)) / _column(torch.sqrt(variance + eps), x)


def _scaled(normal: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    return normal * _column(gamma, normal) + _column(beta, normal)


def _moved(held: Tensor, new: Tensor, momentum: float) -> Tensor:
    return held * (1 - momentum) + new * momentum


def _made(
    x: Tensor,
    lines: Several,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    **other: Any,
) -> Several:
    """Do it right, but for what `other` says: a divisor, a variance, held statistics."""
    gamma, beta, *held = lines
    if not training:
        return _scaled(_normal(x, held[0], held[1], eps), gamma, beta), *(h.clone() for h in held)
    (mean, squares), n = _statistics(x), _count(x)
    unbiased = squares / other.get("less", n - 1)
    z = _scaled(_normal(x, mean, squares / other.get("by", n), eps), gamma, beta)
    return z, _moved(held[0], mean, momentum), _moved(held[1], unbiased, momentum)


@wrong("batch_norm value", "value", source=BIASED)
def population_variance_is_kept(x: Tensor, *lines: Tensor, **told: Any) -> Several:
    """The running variance takes the population variance."""
    return _made(x, lines, **told, less=_count(x))


@wrong("batch_norm value", "value", source="torch.var, whose default divides so")
def divided_by_one_less(x: Tensor, *lines: Tensor, **told: Any) -> Several:
    """The normal form divides by the root of the unbiased variance."""
    return _made(x, lines, **told, by=_count(x) - 1)


@wrong("batch_norm value", "value", source=MOMENTUM)
def momentum_is_what_is_kept(
    x: Tensor, *lines: Tensor, momentum: float = 0.1, **told: Any
) -> Several:
    """The running statistics keep momentum of what they were, and take the rest."""
    return _made(x, lines, momentum=1 - momentum, **told)


@wrong("batch_norm value", "structure", source=OWN)
def evaluation_moves_the_statistics(
    x: Tensor, *lines: Tensor, training: bool = True, momentum: float = 0.1, **told: Any
) -> Several:
    """The running statistics move where they should be read alone."""
    z, *held = _made(x, lines, training, momentum, **told)
    if training or _count(x) < 2:
        return z, *held
    return z, *_made(x, lines, True, momentum, **told)[1:]


@wrong("batch_norm value", "structure", source=OWN)
def moved_statistics_normalize(
    x: Tensor, *lines: Tensor, training: bool = True, eps: float = 1e-5, **told: Any
) -> Several:
    """In training the running statistics, once moved, normalize the batch."""
    z, *held = _made(x, lines, training, eps=eps, **told)
    if not training:
        return z, *held
    return _scaled(_normal(x, held[0], held[1], eps), *lines[:2]), *held


@wrong("batch_norm value", "precision", source=ONE_PASS, contract=CENTRED)
def one_pass_variance(
    x: Tensor, *lines: Tensor, training: bool = True, eps: float = 1e-5, **told: Any
) -> Several:
    """The mean of squares less the square of the mean, which cancels."""
    z, *held = _made(x, lines, training, eps=eps, **told)
    if training:
        mean = x.mean(_axes(x))
        variance = (x.square().mean(_axes(x)) - mean.square()).clamp(min=0)
        z = _scaled(_normal(x, mean, variance, eps), *lines[:2])
    return z, *held


@wrong("batch_norm value", "structure", source="a perceptron's batch_norm on images")
def statistics_of_the_first_place(
    x: Tensor, *lines: Tensor, training: bool = True, eps: float = 1e-5, **told: Any
) -> Several:
    """The mean is that of the samples at the first place of the further axes."""
    z, *held = _made(x, lines, training, eps=eps, **told)
    if training and x.dim() > 2:
        mean = x.flatten(2)[:, :, 0].mean(0)
        variance = (x - _column(mean, x)).square().mean(_axes(x))
        z = _scaled(_normal(x, mean, variance, eps), *lines[:2])
    return z, *held


def _pulled_back(
    g: Tensor, x: Tensor, lines: Several, training: bool, eps: float, *parts: str
) -> list[Tensor]:
    """Return the gradients, dx without the terms that are not named."""
    (mean, squares), gamma = _statistics(x), lines[0]
    variance = squares / _count(x)
    if not training:
        mean, variance = lines[2:]
    normal, root = _normal(x, mean, variance, eps), torch.sqrt(variance + eps)
    dx = g * _column(gamma, x) / _column(root, x)
    middle, along = dx.mean(_axes(x)), (dx * normal).mean(_axes(x))
    if training and "mean" in parts:
        dx = dx - _column(middle, x)
    if training and "variance" in parts:
        dx = dx - normal * _column(along, x)
    axes = _axes(x)
    return [dx, (g * normal).sum(axes), g.sum(axes), *(torch.zeros_like(h) for h in lines[2:])]


@wrong("batch_norm vjp", "gradient", source="the gradient of evaluation, in training")
def statistics_are_constants(
    seeds: Several, x: Tensor, *lines: Tensor, training: bool = True, eps: float = 1e-5, **_: Any
) -> list[Tensor]:
    """The gradient takes the statistics of the batch as given."""
    return _pulled_back(seeds[0], x, lines, training, eps)


@wrong("batch_norm vjp", "gradient")
def mean_of_the_cotangent_dropped(
    seeds: Several, x: Tensor, *lines: Tensor, training: bool = True, eps: float = 1e-5, **_: Any
) -> list[Tensor]:
    """The term through the mean is missing from dx."""
    return _pulled_back(seeds[0], x, lines, training, eps, "variance")


@wrong("batch_norm vjp", "gradient", source=OWN)
def the_running_mean_hands_back(
    seeds: Several, x: Tensor, *lines: Tensor, training: bool = True, eps: float = 1e-5, **told: Any
) -> list[Tensor]:
    """What the cotangent says of the running mean comes back to the batch."""
    dx, *rest = _pulled_back(seeds[0], x, lines, training, eps, "mean", "variance")
    if training:
        dx = dx + _column(seeds[1] * told.get("momentum", 0.1) / _count(x), x)
    return [dx, *rest]
