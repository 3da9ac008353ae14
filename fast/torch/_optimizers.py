"""The optimizers as subclasses of torch.optim.Optimizer, updated by the rules of fast.optim.

A parameter group is updated at once, in flat memory that the optimizer keeps: parameters and
gradients are copied in, and parameters out. The moments stay there, and `state` shows them under
torch's names, so that a state_dict goes to torch's own class of the same name and back.

`step` validates the hyper-parameters and gradients of every group before it writes any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from fast.errors import Rejected
from fast.optim import OPTIMIZERS
from fast.optim._functional import Functional
from fast.optim._rule import Rule

Params = Iterable[Tensor] | Iterable[dict[str, Any]]


UNSUPPORTED = ("amsgrad", "maximize", "capturable", "differentiable")
"""The flags of torch's classes that would change what is computed, and are refused."""


class _Optimizer(torch.optim.Optimizer):
    """What the three have in common."""

    rule: ClassVar[Rule]
    _decoupled: ClassVar[bool] = False

    def __init__(
        self,
        params: Params,
        defaults: dict[str, Any],
        provider: str | None,
        unsupported: Mapping[str, object],
    ) -> None:
        for flag, value in unsupported.items():
            if value:
                raise Rejected(
                    f"{type(self).__name__}: {flag}={value!r} is not supported; leave it out, or "
                    f"use torch.optim.{type(self).__name__}"
                )
        self.rule.read(self._hyper(defaults))
        self._provider = provider
        self._engines: dict[int, _Engine] = {}
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group after checking its hyper-parameters and parameters, as torch does."""
        self.rule.read(self._hyper({**self.defaults, **param_group}))
        super().add_param_group(param_group)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Update every parameter that has a gradient; return the closure's loss, if one is given.

        Raises `Rejected` for a hyper-parameter or a gradient that breaks a rule; nothing is written
        then, in any group.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        prepared = [self._prepared(number) for number in range(len(self.param_groups))]
        for engine, grads in prepared:
            engine.step(grads, self.state)
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state_dict of this class, or of torch's class of the same name."""
        before = self.state, self.param_groups
        super().load_state_dict(state_dict)
        try:
            for group in self.param_groups:
                self._refuse_flags(group)
                self.rule.read(self._hyper(group))
        except Rejected:
            self.state, self.param_groups = before
            raise
        self._engines.clear()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle keeps: everything but the flat memory."""
        state: dict[str, Any] = super().__getstate__()
        return {**state, "_provider": self._provider}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy or an unpickled optimizer; its flat memory is made anew."""
        super().__setstate__(state)
        self._engines = {}

    def _prepared(self, number: int) -> tuple[_Engine, list[Tensor | None]]:
        group = self.param_groups[number]
        self._refuse_flags(group)
        hyper, params = self._hyper(group), group["params"]
        self.rule.read(hyper)
        engine = self._engines.get(number)
        if engine is None or not engine.serves(params):
            provider = self._provider or ("triton" if _on_gpu(params) else "aten")
            engine = self._engines[number] = _Engine(self.rule, params, hyper, provider, self.state)
        engine.functional.set_hyper(hyper)
        grads = [param.grad for param in params]
        for grad in grads:
            if grad is not None and grad.layout is not torch.strided:
                raise Rejected(f"{self.rule.name}: a gradient is dense, got {grad.layout}")
        engine.functional.check(grads)
        return engine, grads

    def _refuse_flags(self, group: Mapping[str, Any]) -> None:
        for flag in UNSUPPORTED:
            if group.get(flag):
                raise Rejected(
                    f"{type(self).__name__}: a parameter group has {flag}=True, which is not "
                    "supported; False is"
                )
        if group.get("decoupled_weight_decay", self._decoupled) != self._decoupled:
            raise Rejected(
                f"{type(self).__name__}: decoupled_weight_decay is {self._decoupled}; "
                "Adam and AdamW differ in it"
            )

    def _hyper(self, group: Mapping[str, Any]) -> dict[str, Any]:
        found = {name: group[name] for name in self.rule.hyper._fields if name in group}
        if "betas" in group:
            found["beta1"], found["beta2"] = group["betas"]
        return found


class _Engine:
    """One group's flat memory, and the state of its parameters in it."""

    def __init__(
        self,
        rule: Rule,
        params: list[Tensor],
        hyper: dict[str, Any],
        provider: str,
        state: Mapping[Tensor, dict[str, Any]],
    ) -> None:
        self.params = list(params)
        self.functional = Functional(rule, self.params, hyper, provider)
        self._rule = rule
        self._views: dict[int, list[Tensor | None]] = {}
        names = (*rule.states, *(("step",) if rule.counted else ()))
        columns: dict[str, list[Any]] = {name: [] for name in names}
        for param in self.params:
            known = state.get(param, {})
            for name in names:
                columns[name].append(known.get(name, 0 if name == "step" else None))
        self.functional.load_state(columns)

    def serves(self, params: list[Tensor]) -> bool:
        """Say whether these are still the parameters."""
        same = len(params) == len(self.params)
        return same and all(x is y for x, y in zip(params, self.params, strict=True))

    def step(self, grads: list[Tensor | None], state: dict[Tensor, dict[str, Any]]) -> None:
        """Copy in, update, copy out, and show the state."""
        flat = self.functional.params()
        active = [k for k, grad in enumerate(grads) if grad is not None]
        if not active:
            return
        mine, theirs = [flat[k] for k in active], [self.params[k] for k in active]
        torch._foreach_copy_(mine, theirs)
        self.functional.step(grads)
        torch._foreach_copy_(theirs, mine)
        for k in active:
            self._show(k, state[self.params[k]])

    def _show(self, k: int, shown: dict[str, Any]) -> None:
        """Let a parameter's state be the flat memory itself, and count its step as torch does."""
        if any(view is None for view in self._views.get(k, [None])):
            moments = self.functional.state()
            self._views[k] = [moments[name][k] for name in self._rule.states]
        shown.update(zip(self._rule.states, self._views[k], strict=True))
        if self._rule.counted:
            shown["step"] = shown.get("step", torch.zeros(())) + 1


def _on_gpu(params: list[Tensor]) -> bool:
    return bool(params) and all(p.is_cuda and p.dtype is not torch.float64 for p in params)


class SGD(_Optimizer):
    """Stochastic gradient descent with torch.optim.SGD's arguments; see `fast.optim.sgd`."""

    rule = OPTIMIZERS["sgd"]

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        provider: str | None = None,
        **unsupported: object,
    ) -> None:
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov,
        }  # fmt: skip
        super().__init__(params, defaults, provider, unsupported)


class Adam(_Optimizer):
    """Adam with torch.optim.Adam's arguments; see `fast.optim.adam`."""

    rule = OPTIMIZERS["adam"]

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        provider: str | None = None,
        **unsupported: object,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults, provider, unsupported)


class AdamW(_Optimizer):
    """AdamW with torch.optim.AdamW's arguments; see `fast.optim.adamw`."""

    rule = OPTIMIZERS["adamw"]
    _decoupled = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *,
        provider: str | None = None,
        **unsupported: object,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults, provider, unsupported)
