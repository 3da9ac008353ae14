"""How the suite calls our own pages: one adapter for both providers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from equivalence.backends.fast.contract import family_of
from equivalence.backends.fast.optim import FastOptimizer
from equivalence.backends.fence import fenced
from equivalence.backends.libraries import declared
from equivalence.backends.parts import every_extra
from equivalence.backends.protocol import Capabilities, OptimizerHandle, Results
from equivalence.conventions import OURS
from equivalence.worlds.contract import ContractRule


class FastBackend:
    """The pages of `fast.ops` under one provider, checks first, as a session runs them."""

    def __init__(
        self, name: str, provider: str, dtypes: Collection[str], *, ring: str, device: str
    ) -> None:
        """Remember the provider; its pages are imported when first asked for."""
        self.name = name
        self.provider = provider
        self.dtypes = dtypes
        self.ring = ring
        self.device = device

    def capabilities(self) -> Capabilities:
        """Offer every page in every dtype of the provider."""
        from fast.ops import OPS
        from fast.optim import OPTIMIZERS

        return Capabilities(
            ops=dict.fromkeys(OPS, self.dtypes),
            contract=declared(family_of(self.provider, self.ring)),
            optimizers=dict.fromkeys(OPTIMIZERS, self.dtypes),
            extras=every_extra(OPTIMIZERS),
            ring=self.ring,
            device=self.device,
            labelled=True,
            checks_constraints=True,
            conventions=OURS,
        )

    def contract_on(self, ring: str) -> ContractRule:
        """Return the contracts that the same provider declares on another ring."""
        return declared(family_of(self.provider, ring))

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Results:
        """Check, then compute the value, or the values; an op of indices has a tuple of one."""
        with fenced():
            result = self._forward(op, inputs, attrs)[0]
        made = list_of(op, inputs, result)
        return made[0] if len(made) == 1 else tuple(made)

    def vjp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        cotangents: Sequence[Tensor],
    ) -> Sequence[Tensor | None]:
        """Compute the value, then pull the cotangents back through what it saved."""
        from fast.ops import OPS

        page = OPS[op]
        needs = [k not in page.index_inputs for k in range(len(inputs))]
        seed = tuple(cotangents) if page.results > 1 else cotangents[0]
        with fenced():
            saved = self._forward(op, inputs, attrs)[1]
            gradients: Sequence[Tensor | None] = page.hosts(self.provider)[1](saved, seed, needs)
        return with_zeros(op, inputs, gradients)

    def _forward(
        self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]
    ) -> tuple[Tensor | tuple[Tensor, ...], tuple[Any, ...]]:
        from fast.ops import OPS

        page = OPS[op]
        bound, attributes = checked(op, inputs, attrs, self.device)
        made = page.hosts(self.provider)[0](*bound, **attributes)
        if self.ring == "device" and page.index_inputs:
            _read_back(self.device)
        return made

    def optimizer(
        self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]
    ) -> OptimizerHandle:
        """Put parameters under one of our optimizers, with the step count that they start from."""
        return FastOptimizer(name, params, hyper, self.provider)


def _read_back(device: str) -> None:
    """Raise what a session raises when it reads a result back: a kernel has met a bad index."""
    from fast.device import flags

    place = torch.device(device)
    try:
        flags.raise_if_set(place)
    finally:
        flags.clear(place)


def list_of(op: str, inputs: Sequence[Tensor], result: Any) -> list[Tensor]:
    """Return an op's results, and behind them what its buffers hold afterwards.

    To the reference these are results like others. A buffer that stays holds what was given.
    """
    from fast.ops import OPS

    made = list(result) if isinstance(result, tuple) else [result]
    first = OPS[op].results
    pairs = zip(made[first:], OPS[op].buffers, strict=True)
    kept = [inputs[k].clone() if new is None else new for new, k in pairs]
    return [*made[:first], *kept]


def with_zeros(
    op: str, inputs: Sequence[Tensor], gradients: Sequence[Tensor | None]
) -> Sequence[Tensor | None]:
    """Return gradients with zeros for buffers, which no gradient reaches."""
    from fast.ops import OPS

    held = OPS[op].buffers
    found = enumerate(gradients)
    return (
        [torch.zeros_like(inputs[k]) if k in held else one for k, one in found]
        if held
        else gradients
    )


def checked(
    op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any], device: str
) -> tuple[Sequence[Tensor], Mapping[str, Any]]:
    """Return inputs and attributes as a page of `fast` takes them; it refuses what breaks a rule.

    An op without inputs is told where its result lies.
    """
    from fast.ops import OPS

    page, place = OPS[op], {}
    if page.source:
        place = {"dtype": attrs["dtype"], "device": torch.device(device)}
    own = {name: value for name, value in attrs.items() if name not in place}
    bound, attributes = page.bind(inputs, own)
    page.check(*bound, **attributes, **place)
    return bound, {**attributes, **place}
