"""Normalizers of channels on torch tensors, by the op of groups of them."""

from __future__ import annotations

from torch import Tensor

from fast.errors import Rejected
from fast.optim._rule import as_double as number
from fast.torch._library import call, define, described, provider_of, refuse_tangents, same


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    provider: str | None = None,
) -> Tensor:
    """Normalize groups of channels, the second axis; scale them by weight, and shift by bias.

    The arguments are those of torch.nn.functional.group_norm: weight and bias have an entry for
    each channel, or are None. Raises `Rejected` for an input of one axis (C1), for groups of
    different sizes (C2), for parameters that do not fit (C3) and for eps <= 0 (C4). See
    `fast.ops.group_norm`.
    """
    chosen = provider_of("group_norm", provider, input)
    return _of_groups("group_norm", input, num_groups, (weight, bias), eps, chosen)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    provider: str | None = None,
) -> Tensor:
    """Normalize each channel of each sample; scale channels by weight, and shift them by bias.

    The arguments are those of torch.nn.functional.instance_norm, without running statistics: these
    are Rejected, and so is use_input_stats=False, which would read them; momentum is theirs alone.
    A channel of one entry gives bias, where torch refuses it. Else `group_norm` says what is
    Rejected.
    """
    chosen = provider_of("instance_norm", provider, input)
    for argument, value in (("running_mean", running_mean), ("running_var", running_var)):
        if value is not None:
            raise Rejected(
                f"fast.torch.instance_norm: {argument} is not supported; leave it out: statistics "
                "are those of the input"
            )
    if use_input_stats is not True:
        raise Rejected(
            "fast.torch.instance_norm: use_input_stats is True, as there are no running "
            f"statistics; got {use_input_stats!r}"
        )
    channels = max(1, *input.shape[1:2], 0)
    return _of_groups("instance_norm", input, channels, (weight, bias), eps, chosen)


def _of_groups(
    name: str,
    x: Tensor,
    groups: int,
    affine: tuple[Tensor | None, Tensor | None],
    eps: float,
    provider: str,
) -> Tensor:
    """Run the op, with ones and zeros for parameters that are None."""
    gamma, beta = by_channel(name, x, dict(zip(("weight", "bias"), affine, strict=True)))
    if type(groups) is not int:
        raise Rejected(f"group_norm C2: groups is an integer >= 1, got {groups!r}")
    refuse_tangents(name, (x, gamma, beta))
    return call("group_norm", (x, gamma, beta), groups, number(f"{name}: eps", eps), provider)


def by_channel(name: str, x: Tensor, given: dict[str, Tensor | None]) -> tuple[Tensor, Tensor]:
    """Return two tensors of an entry for each channel; one that is None is ones, then zeros."""
    channels = tuple(x.shape[1:2])
    for argument, value in given.items():
        if value is not None and (not isinstance(value, Tensor) or tuple(value.shape) != channels):
            raise Rejected(
                f"fast.torch.{name}: {argument} is a tensor of an entry for each channel, of shape "
                f"{channels}, or None; got {described(value)}"
            )
    first, second = given.values()
    return (
        x.new_ones(channels) if first is None else first,
        x.new_zeros(channels) if second is None else second,
    )


define(
    "group_norm",
    "Tensor x, Tensor gamma, Tensor beta",
    "int groups, float eps",
    ("groups", "eps"),
    same,
    3,
)
