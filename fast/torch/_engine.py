"""One parameter group in flat memory, and the state that its optimizer shows of it.

What is shown is the memory itself: moments are views that a step writes, and the counts are views
of one tensor. `serves` tells whether it is still what the optimizer's state holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fast.errors import Rejected
from fast.optim._functional import Functional
from fast.optim._rule import Rule
from fast.optim._state import State as Held
from fast.optim._state import fields

State = Mapping[Tensor, dict[str, Any]]


class Engine:
    """One group's flat memory, made of parameters and of what is known of their states."""

    def __init__(
        self,
        rule: Rule,
        params: Sequence[Tensor],
        hyper: dict[str, Any],
        provider: str,
        known: Sequence[Held | None],
    ) -> None:
        """Copy everything in; `known` has an entry for each parameter, None where it is new."""
        self._params = list(params)
        self._rule = rule
        self._functional = Functional(rule, self._params, hyper, provider)
        self._kept: tuple[str, ...] = ()
        self._shown: list[dict[str, Tensor]] = [{} for _ in self._params]
        # torch counts in fp32 on the host.
        ages = [0 if one is None else one.age for one in known]
        self._steps = torch.tensor(ages, dtype=torch.float32)
        self._counted = self._steps.clone()
        self._unshown = {k for k, one in enumerate(known) if one is not None}
        if any(ages):
            self._load(known)

    def serves(self, params: Sequence[Tensor], state: State) -> bool:
        """Say whether these are still the parameters, and this is still their state."""
        mine = self._params
        if len(params) != len(mine) or any(x is not y for x, y in zip(params, mine, strict=True)):
            return False
        flat = self._functional.params()
        alike = all(
            (x.shape, x.dtype, x.device) == (y.shape, y.dtype, y.device)
            for x, y in zip(mine, flat, strict=True)
        )
        return alike and not self._unshown and self._shows(state)

    def prepare(self, hyper: dict[str, Any]) -> list[Tensor | None]:
        """Use these hyper-parameters, and return the gradients, checked."""
        self._functional.set_hyper(hyper)
        self._kept = self._rule.kept(self._rule.read(hyper))
        grads = [param.grad for param in self._params]
        check_dense(self._rule.name, grads)
        self._functional.check(grads)
        return grads

    def step(self, grads: Sequence[Tensor | None], state: dict[Tensor, dict[str, Any]]) -> None:
        """Copy in, update, copy out, and let the optimizer's state be the flat memory."""
        active = [k for k, grad in enumerate(grads) if grad is not None]
        if active:
            flat = self._functional.params()
            mine, theirs = [flat[k] for k in active], [self._params[k] for k in active]
            torch._foreach_copy_(mine, theirs)
            self._functional.step(grads)
            torch._foreach_copy_(theirs, mine)
        if active and self._kept:
            for steps in (self._steps, self._counted):
                steps[active] += 1.0
            self._unshown.update(k for k in active if not self._shown[k].keys() >= {*self._kept})
        if self._unshown:
            self._show(state)

    def _load(self, known: Sequence[Held | None]) -> None:
        """Take over states: their counts by the rule's own check, then the numbers as they are."""
        columns: dict[str, list[Any]] = {name: [] for name in fields(self._rule)}
        for param, one in zip(self._functional.params(), known, strict=True):
            step = 0 if one is None else one.age
            tensors = one.tensors if one is not None and step else [None] * len(self._rule.states)
            for name, moment in zip(self._rule.states, tensors, strict=True):
                columns[name].append(None if moment is None else torch.zeros_like(param))
            if self._rule.counted:
                columns["step"].append(step)
        self._functional.load_state(columns)
        held = self._functional.state()
        for k, one in enumerate(known):
            if one is None or not one.age:
                continue
            for name, moment in zip(self._rule.states, one.tensors, strict=True):
                if moment is not None:
                    held[name][k].copy_(moment.detach())

    def _shows(self, state: State) -> bool:
        for param, shown in zip(self._params, self._shown, strict=True):
            held = state.get(param, {})
            if not isinstance(held, dict):
                return False
            if not shown:
                if any(value is not None for value in held.values()):
                    return False
            elif len(held) != len(shown) or any(held.get(k) is not v for k, v in shown.items()):
                return False
        return self._steps.equal(self._counted)

    def _show(self, state: dict[Tensor, dict[str, Any]]) -> None:
        """Let states be the flat memory itself, and empty where there is none yet."""
        held = self._functional.state()
        for k in self._unshown:
            every = {name: held[name][k] for name in self._rule.states if name in held}
            moments = {name: moment for name, moment in every.items() if moment is not None}
            if moments:
                step = {"step": self._steps[k]} if self._rule.counted else {}
                self._shown[k] = {**step, **moments}
            shown = state.setdefault(self._params[k], {})
            shown.clear()
            shown.update(self._shown[k])
        self._unshown = set()


def check_dense(name: str, grads: Sequence[Tensor | None]) -> None:
    """Refuse gradients that are sparse."""
    for grad in grads:
        if grad is not None and grad.layout is not torch.strided:
            raise Rejected(f"{name}: a gradient is dense, got {grad.layout}")
