"""Normalizing over a batch on torch tensors, whose running statistics are moved in place."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fast.errors import Rejected
from fast.ops import OPS
from fast.optim._rule import as_double as number
from fast.torch._groups import by_channel
from fast.torch._library import call, define, provider_of, refuse_tangents, same


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    provider: str | None = None,
) -> Tensor:
    """Normalize each channel over the batch; scale it by weight, and shift it by bias.

    The arguments are those of torch.nn.functional.batch_norm. In training the statistics are those
    of the batch, and the running ones, unless both are None, are moved towards them in place, once
    the call has succeeded. Else the running ones are read, and needed. Raises `Rejected` for an
    input of one axis (C1), for what does not fit its channels (C2), in training for channels of
    less than two entries (C3), for a momentum beyond [0, 1] (C4), for eps <= 0 (C5) and for
    running statistics that are None in part, need a gradient, or share memory. See
    `fast.ops.batch_norm`.
    """
    chosen = provider_of("batch_norm", provider, input)
    if input.dim() < 2:
        OPS["batch_norm"].check(*(input,) * 5)  # It is refused.
    if type(training) is not bool:
        raise Rejected(f"fast.torch.batch_norm: training is True or False, got {training!r}")
    running = _running(input, running_mean, running_var, training)
    gamma, beta = by_channel("batch_norm", input, {"weight": weight, "bias": bias})
    zeros = input.new_zeros(input.shape[1:2])
    tensors = (input, gamma, beta, *(running or (zeros, zeros)))
    refuse_tangents("batch_norm", tensors)
    step, least = number("batch_norm: momentum", momentum), number("batch_norm: eps", eps)
    made: Any = call("batch_norm", tensors, training, step, least, chosen)
    z: Tensor = made[0]
    if running and training:
        with torch.no_grad():
            for old, new in zip(running, made[1:], strict=True):
                old.copy_(new)
    return z


def _running(
    x: Tensor, mean: Tensor | None, var: Tensor | None, training: bool
) -> tuple[Tensor, Tensor] | None:
    """Return the running statistics, which in training may both be None."""
    if mean is None or var is None:
        if mean is var and training:
            return None
        raise Rejected(
            "fast.torch.batch_norm: running_mean and running_var are both tensors, or, with "
            f"training=True, both None; got running_mean={_word(mean)} and "
            f"running_var={_word(var)} with training={training}"
        )
    by_channel("batch_norm", x, {"running_mean": mean, "running_var": var})
    for name, one in (("running_mean", mean), ("running_var", var)):
        if one.requires_grad:
            raise Rejected(
                f"fast.torch.batch_norm: {name} has no gradient, so that requires_grad is False; "
                "got True; detach() takes it out"
            )
        if training and one.shape[0] > 1 and one.stride(0) == 0:
            raise Rejected(
                f"fast.torch.batch_norm: {name} is moved in place, and its entries share memory: "
                f"its strides are {one.stride()}; give it a clone"
            )
    if training and mean is var:
        raise Rejected(
            "fast.torch.batch_norm: running_mean and running_var are moved in place, each by "
            "itself; got one tensor twice"
        )
    return mean, var


def _word(statistic: Tensor | None) -> str:
    return "None" if statistic is None else "a tensor"


define(
    "batch_norm",
    "Tensor x, Tensor gamma, Tensor beta, Tensor running_mean, Tensor running_var",
    "bool training, float momentum, float eps",
    ("training", "momentum", "eps"),
    same,
    3,
)
