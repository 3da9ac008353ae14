"""Torch's own optimizers behind the suite's optimizer protocol."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from equivalence.backends.protocol import APART
from equivalence.registry import OPTIMIZERS as PAGES

TUPLES = {"betas": ("beta1", "beta2"), "ns_coefficients": ("ns_a", "ns_b", "ns_c")}
"""The hyper-parameters of which torch makes one tuple, by its name there."""

EPS = 1e-8
"""What Adam and AdamW add to a root by default."""


def offered() -> dict[str, Callable[..., torch.optim.Optimizer]]:
    """Return the optimizers that torch has too, those of a caller among them."""
    classes = {name: page.torch for name, page in PAGES.items() if page.torch is not None}
    there = {name: getattr(torch.optim, of, None) for name, of in classes.items()}
    return {name: found for name, found in there.items() if found is not None}


class TorchOptimizer:
    """Parameters under one of torch's optimizers, one tensor at a time (foreach off)."""

    def __init__(self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> None:
        """Translate the hyper-parameters' names; the parameters are updated where they are."""
        known = offered()
        if name not in known:
            raise ValueError(f"unknown optimizer {name!r}; there are {', '.join(known)}")
        self._class = known[name]
        self.name, self.page = name, PAGES[name]
        self._params = [p.detach() for p in params]
        self._max_norm: float | None = hyper.get("max_norm")
        self._max_value: float | None = hyper.get("max_value")
        self._groups: Sequence[Mapping[str, Any]] = hyper.get("groups", ())
        self._optimizer = self._make(hyper)
        if self.page.counted and hyper.get("start_step"):
            for p in self._params:
                self._optimizer.state[p] = {
                    "step": torch.tensor(float(hyper["start_step"])),
                    **{moment: torch.zeros_like(p) for moment in self.page.moments},
                }

    def _make(self, hyper: Mapping[str, Any]) -> torch.optim.Optimizer:
        shared = {name: value for name, value in hyper.items() if name not in APART}
        groups = [{n: v for n, v in group.items() if n not in APART} for group in self._groups]
        first, *others = [
            self._made({**shared, **group}) for group in ({"params": self._rest()}, *groups)
        ]
        for other in others:
            first.add_param_group(other.param_groups[0])
            first.state.update(other.state)
        return first

    def _rest(self, but: Collection[str] = ()) -> list[int]:
        """Name the parameters that are in no group, or in one that has none of some settings."""
        apart = [group for group in self._groups if not but or not group.keys().isdisjoint(but)]
        named = {k for group in apart for k in group["params"]}
        return [k for k in range(len(self._params)) if k not in named]

    def _made(self, group: dict[str, Any]) -> torch.optim.Optimizer:
        """Put one group under an optimizer of its own.

        torch's Adagrad fills its sums by its own argument, whatever a group says.
        """
        named = self._named(group)
        return self._class([named], **{k: v for k, v in named.items() if k != "params"})

    def _named(self, group: dict[str, Any]) -> dict[str, Any]:
        """Return a group as torch has it: tensors, and tuples of what it joins.

        The dtype of an iteration is not torch's to ask for: it iterates in bf16.
        """
        group.pop("ns_dtype", None)
        group["params"] = [self._params[k] for k in group["params"]]
        for whole, parts in TUPLES.items():
            if {*parts} <= {*self.page.arguments}:
                usual = self.page.hyper
                group[whole] = tuple(group.pop(name, getattr(usual, name)) for name in parts)
        knows = "foreach" in inspect.signature(self._class).parameters
        return {**group, **({"foreach": False} if knows else {})}

    def step(self, grads: Sequence[Tensor | None]) -> None:
        """Update every parameter that has a gradient; copies of gradients are clipped."""
        values, norms = self._bounds("max_value"), self._bounds("max_norm")
        for p, gradient in zip(self._params, grads, strict=True):
            clipped = gradient is not None and bool(values or norms)
            p.grad = gradient.clone() if clipped and gradient is not None else gradient
        for bound, own in values:
            if any(p.grad is not None for p in own):  # Else torch's function fails.
                clip_grad_value_(own, bound, foreach=False)
        for bound, own in norms:
            clip_grad_norm_(own, bound, foreach=False)
        self._optimizer.step()
        self._optimizer.zero_grad()

    def _bounds(self, name: str) -> list[tuple[float, list[Tensor]]]:
        """Return bounds of a kind with those whose gradients each is of, a group's own apart."""
        usual = self._max_norm if name == "max_norm" else self._max_value
        among = [(usual, self._rest((name,)))]
        among += [(group[name], group["params"]) for group in self._groups if name in group]
        return [(b, [self._params[k] for k in own]) for b, own in among if b is not None and own]

    def set_lr(self, lr: float, group: int) -> None:
        """Use another learning rate from the next step on, in one group."""
        self._optimizer.param_groups[group]["lr"] = lr

    def set_hyper(self, name: str, value: float, group: int) -> None:
        """Use another hyper-parameter from the next step on, in one group."""
        own = self._optimizer.param_groups[group]
        whole = next((whole for whole, parts in TUPLES.items() if name in parts), None)
        if whole is None:
            own[name] = value
            return
        pairs = zip(TUPLES[whole], own[whole], strict=True)
        own[whole] = tuple(value if part == name else old for part, old in pairs)

    def set_max_norm(self, max_norm: float) -> None:
        """Clip the global norm of the gradients to another bound, from the next step on."""
        self._max_norm = max_norm

    def load(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Replace the state of every parameter by copies of this one."""
        for k, p in enumerate(self._params):
            every = {name: state[name][k] for name in self.page.moments}
            moments = {name: t.clone() for name, t in every.items() if t is not None}
            counted = {"step": torch.tensor(float(state["step"][k]))} if self.page.counted else {}
            self._optimizer.state[p] = {**counted, **moments}

    def write(self, parameter: int, field: str, numbers: Tensor) -> None:
        """Put other numbers into a parameter or into one of its moments."""
        p = self._params[parameter]
        (p if field == "parameter" else self._optimizer.state[p][field]).copy_(numbers)

    def params(self) -> Sequence[Tensor]:
        """Return the parameters' current values."""
        return [p.detach() for p in self._params]

    def state(self) -> Mapping[str, Sequence[Tensor | None]]:
        """Return each state field, None where a parameter has none yet."""
        states = [self._optimizer.state.get(p, {}) for p in self._params]
        fields = (*self.page.moments, *(("step",) if self.page.counted else ()))
        return {field: [state.get(field) for state in states] for field in fields}
