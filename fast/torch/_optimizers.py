"""The optimizers as subclasses of torch.optim.Optimizer, updated by the rules of fast.optim.

A parameter group is updated at once: by the provider `aten` where it lies (fast.torch._in_place),
by `triton` in flat memory that the optimizer keeps, into which parameters and gradients are copied.
`state` shows the moments under torch's names, so that a state_dict goes to torch's own class of the
same name and back. A state that was changed since is what the next step uses.

`step` validates the hyper-parameters, parameters, states and gradients of every group before it
writes any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_
from typing import Any, ClassVar

import torch
from torch import Tensor

from fast.device import mode
from fast.device.dtypes import KERNELS
from fast.optim._hypers import NOT_OF_TORCH
from fast.optim._rule import Rule
from fast.optim._state import unused
from fast.torch import _checks
from fast.torch._engine import Engine
from fast.torch._in_place import InPlace

Params = Iterable[Tensor] | Iterable[dict[str, Any]]

IN_PLACE = frozenset({"aten"})
"""The providers whose rules take tensors wherever they lie."""


class TorchOptimizer(torch.optim.Optimizer):
    """What the classes have in common; `rule` is the optimizer's own."""

    rule: ClassVar[Rule]

    def __init__(self, params: Params, defaults: dict[str, Any], provider: str | None) -> None:
        self._provider = provider
        self._engines: dict[int, Engine | InPlace] = {}
        self._given: dict[int, tuple[list[Any], dict[str, Any]]] = {}
        self._read(type(self).__name__, defaults)
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group as torch does; one that no step could take is refused and not added.

        Raises `Rejected` for hyper-parameters, flags, layouts, devices and a provider that are not
        taken, `Unavailable` for dtypes that the provider does not take.
        """
        super().add_param_group(param_group)
        try:
            group, who = self.param_groups[-1], self._who(len(self.param_groups) - 1)
            self._check_params(who, group["params"], self._read(who, group))
        except BaseException:
            self.param_groups.pop()
            raise

    # The states that are shown are found and replaced by their identity, which a graph does not
    # know: a compiled program runs the step as it is, between what it has compiled.
    @torch.compiler.disable(reason="fast.torch: an optimizer's step runs as it is")
    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; return the closure's loss, if one is given.

        Raises `Rejected` for a hyper-parameter, a parameter, a state or a gradient that breaks a
        rule; nothing is written then, in any group.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        prepared = [self._prepared(number) for number in range(len(self.param_groups))]
        self._engines = {number: engine for number, (engine, _) in enumerate(prepared)}
        for engine, grads in prepared:
            engine.step(grads, self.state)
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Return the state_dict that torch's class of the same name takes.

        A parameter without an update is in it if that class makes states before the first one.
        """
        found: dict[str, Any] = super().state_dict()
        indices = [index for group in found["param_groups"] for index in group["params"]]
        owners = [(p, group) for group in self.param_groups for p in group["params"]]
        for index, (param, group) in zip(indices, owners, strict=True):
            if not found["state"].get(index):
                start = unused(self.rule, param.shape, group)
                found["state"].update({index: start} if start else {})
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state_dict of this class, or of torch's class of the same name.

        Raises `Rejected` for a state of another algorithm, and for one with a field too few or too
        many; whatever is raised, nothing has changed then.
        """
        before = self.state, self.param_groups, self._engines
        try:
            super().load_state_dict(state_dict)
            for number, own in enumerate(before[1]):
                self._check_loaded(self._who(number), self.param_groups[number], own)
        except BaseException:
            self.state, self.param_groups, self._engines = before
            raise

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle keeps: everything but the flat memory."""
        state: dict[str, Any] = super().__getstate__()
        return {**state, "_provider": self._provider}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy or an unpickled optimizer; its flat memory is made anew."""
        super().__setstate__(state)
        self._engines, self._given = {}, {}

    def _who(self, number: int) -> str:
        return f"{type(self).__name__}: group {number}"

    def _read(self, who: str, group: Mapping[str, Any]) -> dict[str, Any]:
        """Return a group's hyper-parameters as the rule names them, after checking its flags."""
        _checks.check_flags(who, group, self.rule)
        return _checks.read_hyper(who, self.rule, group)

    def _read_again(self, number: int, who: str, group: dict[str, Any]) -> dict[str, Any]:
        """Return what `_read` does; what the last step found in the group is known to be good."""
        given = [*group, *group.values()]
        before, hyper = self._given.get(number, ([], {}))
        if len(given) != len(before) or not all(map(is_, given, before)):
            hyper = self._read(who, group)
            stays = all(map(_checks.stays, (v for key, v in group.items() if key != "params")))
            self._given[number] = given if stays else [], hyper
        return hyper

    def _check_loaded(self, who: str, group: dict[str, Any], own: Mapping[str, Any]) -> None:
        group.update({n: own[n] for n in NOT_OF_TORCH if n in own and n not in group})
        needed = (*_checks.names(self.rule), *_checks.telling(self.rule))
        _checks.check_loaded_keys(who, group, needed, own)
        group.update(dict.fromkeys(_checks.HOW))
        self._known(who, group["params"], self._read(who, group))

    def _known(
        self, who: str, params: Sequence[Tensor], hyper: Mapping[str, Any]
    ) -> list[_checks.State | None]:
        return [
            _checks.read_state(who, self.rule, k, param, self.state.get(param, {}), hyper)
            for k, param in enumerate(params)
        ]

    def _check_params(self, who: str, params: Sequence[Tensor], hyper: dict[str, Any]) -> str:
        """Return the provider that updates these parameters, after checking that it can."""
        provider = self._provider or ("triton" if _on_gpu(params) else "aten")
        _checks.check_params(who, self.rule, params, hyper, provider)
        if provider == "triton":
            # Past add_param_group, torch's constructor, ours, and that of the class.
            mode.say_if_interpreted(who, stacklevel=6)
        return provider

    def _prepared(self, number: int) -> tuple[Engine | InPlace, list[Tensor | None]]:
        """Return a group's engine, which may be new, and its gradients; all of it is checked."""
        group, who = self.param_groups[number], self._who(number)
        hyper, params = self._read_again(number, who, group), group["params"]
        engine = self._engines.get(number)
        if engine is None or not engine.serves(params, self.state):
            provider = self._check_params(who, params, hyper)
            known = self._known(who, params, hyper)
            engine = (
                InPlace(self.rule, params, known)
                if provider in IN_PLACE
                else Engine(self.rule, params, hyper, provider, known)
            )
        _checks.check_writable(who, params)
        return engine, engine.prepare(hyper)


def _on_gpu(params: Sequence[Tensor]) -> bool:
    return bool(params) and all(p.is_cuda and p.dtype in KERNELS for p in params)
