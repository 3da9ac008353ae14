"""How the suite calls our own pages: one adapter for both providers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from equivalence.backends.fence import fenced
from equivalence.backends.protocol import APART, Capabilities, OptimizerHandle
from equivalence.budgets.declared import ContractRule, declared, family_of
from equivalence.conventions import OURS


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
            ring=self.ring,
            device=self.device,
            labelled=True,
            conventions=OURS,
        )

    def contract_on(self, ring: str) -> ContractRule:
        """Return the contracts that the same provider declares on another ring."""
        return declared(family_of(self.provider, ring))

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        """Check, then compute the value; an op of indices returns a tuple of them."""
        with fenced():
            result = self._forward(op, inputs, attrs)[0]
        return result[0] if isinstance(result, tuple) else result

    def vjp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        cotangents: Sequence[Tensor],
    ) -> Sequence[Tensor | None]:
        """Compute the value, then pull the cotangent back through what it saved."""
        from fast.ops import OPS

        page = OPS[op]
        needs = [k not in page.index_inputs for k in range(len(inputs))]
        with fenced():
            saved = self._forward(op, inputs, attrs)[1]
            gradients: Sequence[Tensor | None] = page.hosts(self.provider)[1](
                saved, cotangents[0], needs
            )
        return gradients

    def _forward(
        self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]
    ) -> tuple[Tensor | tuple[Tensor, ...], tuple[Any, ...]]:
        from fast.ops import OPS

        bound, attributes = checked(op, inputs, attrs, self.device)
        return OPS[op].hosts(self.provider)[0](*bound, **attributes)

    def optimizer(
        self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]
    ) -> OptimizerHandle:
        """Put parameters under one of our optimizers, with the step count that they start from."""
        return FastOptimizer(name, params, hyper, self.provider)


class FastOptimizer:
    """Parameters under one of our optimizers."""

    def __init__(
        self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any], provider: str
    ) -> None:
        """Copy the parameters in, with the step count that they start from."""
        from fast.optim import OPTIMIZERS
        from fast.optim._functional import Functional

        rule = OPTIMIZERS[name]
        self._hyper = {key: value for key, value in hyper.items() if key not in APART}
        self._groups = [dict(group) for group in hyper.get("groups", ())]
        self._grad_scale = 1.0
        self._held = Functional(
            rule, params, self._hyper, provider, self._groups, hyper.get("max_norm")
        )
        if rule.counted and hyper.get("start_step"):
            zeros = [torch.zeros_like(p) for p in params]
            steps = [int(hyper["start_step"])] * len(params)
            self._held.load_state({**dict.fromkeys(rule.states, zeros), "step": steps})

    def step(self, grads: Sequence[Tensor | None]) -> None:
        """Update every parameter that has a gradient."""
        self._held.step(grads, self._grad_scale)

    def params(self) -> Sequence[Tensor]:
        """Return the parameters' current values."""
        return self._held.params()

    def state(self) -> Mapping[str, Sequence[Tensor | None]]:
        """Return each state field, None where a parameter has none yet."""
        return self._held.state()

    def set_lr(self, lr: float, group: int) -> None:
        """Use another learning rate from the next step on, in one group."""
        (self._groups[group - 1] if group else self._hyper)["lr"] = lr
        self._held.set_hyper(self._hyper, self._groups)

    def set_grad_scale(self, grad_scale: float) -> None:
        """Take gradients to be so many times too large, from the next step on."""
        self._grad_scale = grad_scale

    def load(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Replace the state of every parameter by copies of this one."""
        self._held.load_state(state)

    def write(self, parameter: int, field: str, numbers: Tensor) -> None:
        """Put other numbers into a parameter or into one of its moments, by the views of them."""
        row = self._held.params() if field == "parameter" else self._held.state()[field]
        row[parameter].copy_(numbers)


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
