"""One parameter group that is updated where it lies, by torch's own fused kernels.

The provider `aten` needs no flat memory: a rule's ATen twin takes lists of tensors, and these are
the caller's own parameters and gradients, and moments beside them. A parameter or a gradient that
is not contiguous is updated in a copy of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, compress
from operator import attrgetter, eq, is_
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fast.device.dtypes import computed_in
from fast.optim._functional import check_gradients
from fast.optim._rule import Batch, Rule
from fast.optim._state import State as Held
from fast.torch._checks import NUMBERS, contiguous
from fast.torch._engine import State, check_dense


class _Cut(NamedTuple):
    """What one call of the twin takes, but for gradients; valid for one set of parameters."""

    chosen: tuple[int, ...]
    params: list[Tensor]
    states: tuple[list[Tensor], ...]
    steps: list[Tensor]
    first: bool


class _Seen(NamedTuple):
    """An optimizer's state as it was found, flat: who is looked for in it has them side by side."""

    keys: list[Tensor]
    lengths: list[int]
    names: list[str]
    values: list[Tensor]

    @classmethod
    def of(cls, state: State) -> _Seen | None:
        """Note what a state holds, if all its entries are dicts."""
        held = state.values()
        if {*map(type, held)} - {dict}:
            return None
        values = chain.from_iterable(entry.values() for entry in held)
        return cls([*state], [*map(len, held)], [*chain.from_iterable(held)], [*values])

    def again(self, state: State) -> bool:
        """Say whether a state holds the same objects in the same order."""
        # This runs for every parameter of every step: no line of Python is run for one of them.
        held = state.values()
        return (
            {*map(type, held)} <= {dict}
            and [*map(len, held)] == self.lengths
            and all(map(is_, state, self.keys))
            and [*chain.from_iterable(held)] == self.names
            and all(map(is_, chain.from_iterable(map(dict.values, held)), self.values))
        )


class InPlace:
    """One group's parameters as they are, and the moments and counts that its optimizer shows."""

    def __init__(self, rule: Rule, params: Sequence[Tensor], known: Sequence[Held | None]) -> None:
        """Take over copies of what is known of the states, None where a parameter is new."""
        self._rule = rule
        self._params = list(params)
        ages = [0 if one is None else one.age for one in known]
        # torch counts in fp32, on the host; its kernels read counts beside the parameters.
        self._steps = torch.tensor(ages, dtype=torch.float32)
        self._counted = self._steps.clone()
        device = self._params[0].device if self._params else self._steps.device
        self._beside = self._steps if device.type == "cpu" else self._steps.to(device)
        self._counts = {id(t): t for t in (self._steps, self._counted, self._beside)}.values()
        self._kinds = [[*map(of, self._params)] for of in (_SHAPE, _DTYPE, _DEVICE)]
        self._place = {id(param): k for k, param in enumerate(self._params)}
        self._formats = {computed_in(param.dtype) for param in self._params}
        self._given: dict[str, Any] | None = None
        self._values: Any = None
        self._kept: tuple[str, ...] = ()
        self._nothing = torch.zeros((), device=device)
        self._shown: list[dict[str, Tensor]] = [{} for _ in self._params]
        self._unshown = {k for k, one in enumerate(known) if one is not None}
        self._cuts: tuple[Any, list[_Cut]] | None = None
        self._seen: _Seen | None = None
        for k, one in enumerate(known):
            if one is not None and one.age:
                self._make(k, dict(zip(rule.states, one.tensors, strict=True)))

    def serves(self, params: Sequence[Tensor], state: State) -> bool:
        """Say whether these are still the parameters, and this is still their state."""
        mine = self._params
        if len(params) != len(mine) or self._unshown or not all(map(is_, params, mine)):
            return False
        if not _alike(params, self._kinds) or not self._shows(state):
            return False
        return self._steps.equal(self._counted)

    def prepare(self, hyper: dict[str, Any]) -> list[Tensor | None]:
        """Use these hyper-parameters, and return the gradients, checked."""
        if hyper != self._given or not NUMBERS.issuperset(map(type, hyper.values())):
            self._values, self._given = self._rule.read(hyper, self._formats), dict(hyper)
        self._kept = self._rule.kept(self._values)
        grads = [param.grad for param in self._params]
        given = [grad for grad in grads if grad is not None]
        kinds = self._kinds
        if len(given) < len(grads):
            kinds = [[*compress(kind, (g is not None for g in grads))] for kind in kinds]
        if not _alike(given, kinds) or {*map(_LAYOUT, given)} - {torch.strided}:
            check_dense(self._rule.name, grads)
            check_gradients(self._rule.name, self._params, grads)
        return grads

    def step(self, grads: Sequence[Tensor | None], state: dict[Tensor, dict[str, Any]]) -> None:
        """Update every parameter that has a gradient, and let the optimizer's state be ours."""
        active = tuple([k for k, grad in enumerate(grads) if grad is not None])
        cuts = self._cut(active)
        if active and self._kept:
            whole = len(active) == len(self._params)
            for counts in self._counts:
                if whole:
                    counts.add_(1.0)
                else:
                    counts[list(active)] += 1.0
        for cut in cuts:
            self._update(cut, [grads[k] for k in cut.chosen])
        if self._unshown:
            self._show(state)

    def _update(self, cut: _Cut, grads: list[Any]) -> None:
        """Call the twin once; what is not contiguous goes by a copy."""
        whole = contiguous(cut.params)
        params = cut.params if whole else [p.contiguous() for p in cut.params]
        dense = grads if contiguous(grads) else [grad.contiguous() for grad in grads]
        batch = Batch(params, dense, cut.states, cut.steps, cut.first)
        self._rule.aten(batch, self._values, None)
        if not whole:
            for param, copy in zip(cut.params, params, strict=True):
                if copy is not param:
                    param.copy_(copy)

    def _cut(self, active: tuple[int, ...]) -> list[_Cut]:
        """Sort parameters by what one call takes: one dtype, and all new or all not."""
        key = active, self._kept
        if self._cuts is not None and self._cuts[0] == key:
            return self._cuts[1]
        sorted_by: dict[tuple[torch.dtype, bool], list[int]] = {}
        for k in active:
            new = bool(self._kept) and not self._shown[k]
            if not self._shown[k].keys() >= {*self._kept}:
                self._make(k, {**dict.fromkeys(self._kept, self._nothing), **self._shown[k]})
                self._unshown.add(k)
            sorted_by.setdefault((self._params[k].dtype, new), []).append(k)
        cuts = [
            _Cut(
                tuple(chosen),
                [self._params[k] for k in chosen],
                tuple(
                    [self._shown[k][name] for k in chosen] if name in self._kept else []
                    for name in self._rule.states
                ),
                [self._beside[k] for k in chosen],
                new,
            )
            for (_, new), chosen in sorted_by.items()
        ]
        lasting = not any(cut.first for cut in cuts)
        self._cuts = (key, cuts) if lasting else None
        return cuts

    def _make(self, k: int, given: Mapping[str, Tensor | None]) -> None:
        """Make the state of a parameter: copies of what is given."""
        like = torch.empty_like(self._params[k].detach(), memory_format=torch.contiguous_format)
        count = {"step": self._steps[k]} if self._rule.counted else {}
        moments = {name: given.get(name) for name in self._rule.states}
        made = {n: torch.empty_like(like).copy_(m) for n, m in moments.items() if m is not None}
        self._shown[k] = {**count, **made}

    def _shows(self, state: State) -> bool:
        """Say whether an optimizer's state holds what it was shown, and no more."""
        if self._seen is not None and self._seen.again(state):
            return True
        found = self._holds(state)
        self._seen = _Seen.of(state) if found else None
        return found

    def _holds(self, state: State) -> bool:
        """Look through an optimizer's state, entry by entry."""
        missing = sum(map(bool, self._shown))
        for param, held in state.items():
            k = self._place.get(id(param))
            if k is None:
                continue
            shown = self._shown[k]
            if type(held) is not dict or [*held] != [*shown]:
                return False
            for name, value in shown.items():
                if held[name] is not value:
                    return False
            missing -= bool(shown)
        return not missing

    def _show(self, state: dict[Tensor, dict[str, Any]]) -> None:
        """Let the optimizer's state be ours, and empty where there is none yet."""
        for k in self._unshown:
            shown = state.setdefault(self._params[k], {})
            shown.clear()
            shown.update(self._shown[k])
        self._unshown = set()


_SHAPE, _DTYPE, _DEVICE, _LAYOUT = map(attrgetter, ("shape", "dtype", "device", "layout"))


def _alike(tensors: Sequence[Tensor], kinds: Sequence[Sequence[Any]]) -> bool:
    """Say whether tensors have these shapes, dtypes and devices."""
    shapes, dtypes, devices = kinds
    return (
        all(map(eq, map(_SHAPE, tensors), shapes))
        and all(map(is_, map(_DTYPE, tensors), dtypes))
        and all(map(eq, map(_DEVICE, tensors), devices))
    )
