"""An optimizer on plain tensors, outside any session: for judges and for short scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fast.device import dtypes
from fast.device.arena import Arena, Layout
from fast.errors import Rejected, Unavailable
from fast.optim import clip
from fast.optim._flat import FlatOptimizer
from fast.optim._rule import Groups, Rule, grouped
from fast.optim._state import fields, fits, told

_DTYPES = {
    "aten": tuple(dtypes.OF),
    "triton": tuple(storage for storage, dtype in dtypes.OF.items() if dtype.kernels),
}


class Functional:
    """One rule over a list of tensors, in one flat arena per dtype; the tensors are copied in."""

    def __init__(
        self,
        rule: Rule,
        params: Sequence[Tensor],
        hyper: Mapping[str, Any],
        provider: str,
        groups: Groups = None,
        max_norm: float | None = None,
        max_value: float | None = None,
    ) -> None:
        """Check everything, then copy the parameters in; `groups` name them by their positions."""
        if provider not in _DTYPES:
            raise Rejected(
                f"{rule.name}: unknown provider {provider!r}; there are {', '.join(_DTYPES)}"
            )
        self._rule = rule
        self._provider = provider
        self._groups = groups
        self._max_norm: float | None = None
        self._max_value: float | None = None
        self._places: list[tuple[torch.dtype, int]] = []
        layouts: dict[torch.dtype, Layout] = {}
        for k, param in enumerate(params):
            if param.dtype not in _DTYPES[provider]:
                raise Unavailable(
                    f"{rule.name}: parameter {k} is {param.dtype}; provider {provider!r} "
                    f"takes {', '.join(map(str, _DTYPES[provider]))}"
                )
            rule.need_matrix(f"parameter {k}", param.shape)
            layout = layouts.setdefault(param.dtype, Layout())
            self._places.append((param.dtype, layout.append(tuple(param.shape))))
        self.set_hyper(hyper)
        self.set_max_norm(max_norm)
        self.set_max_value(max_value)
        self._clipped: dict[torch.dtype, Arena] = {}
        self._gradients: dict[torch.dtype, Arena] = {}
        self._flat: dict[torch.dtype, FlatOptimizer] = {}
        device = params[0].device if params else torch.device("cpu")
        for dtype, layout in layouts.items():
            masters = Arena(layout, dtype, device)
            flag = torch.zeros(1, dtype=torch.int64, device=device)
            self._flat[dtype] = FlatOptimizer(rule, masters, provider, flag)
            self._gradients[dtype] = Arena(layout, dtype, device)
        for (dtype, slot), param in zip(self._places, params, strict=True):
            self._flat[dtype].masters.views[slot].copy_(param.detach())

    def set_hyper(self, hyper: Mapping[str, Any], groups: Groups = None) -> None:
        """Use other hyper-parameters from the next step on, after checking them.

        `groups` replaces the groups; None leaves them as they are.
        """
        rule, places = self._rule, self._places
        given = self._groups if groups is None else groups
        formats = {dtypes.computed_in(own) for own, _ in places}
        hypers, group_of = grouped(rule, hyper, given, len(places), self._position, formats)
        self._bounds = clip.bounds_of(self._max_norm, self._max_value, given)
        self._hypers, self._groups = hypers, given
        self._group_of = {
            dtype: tuple(group_of[k] for k, (own, _) in enumerate(places) if own is dtype)
            for dtype in dict.fromkeys(own for own, _ in places)
        }

    def set_max_norm(self, max_norm: float | None) -> None:
        """Clip the gradients' norm to another bound from the next step on; None clips nothing.

        Rejected says that a bound is not finite or not above 0.
        """
        self._max_norm = None if max_norm is None else clip.check(max_norm)
        self._bounds = clip.bounds_of(self._max_norm, self._max_value, self._groups)

    def set_max_value(self, max_value: float | None) -> None:
        """Clip the gradients' entries to another bound from the next step on; None clips nothing.

        Rejected says that a bound is not finite or not above 0.
        """
        self._bounds = clip.bounds_of(self._max_norm, max_value, self._groups)
        self._max_value = max_value

    def step(self, grads: Sequence[Tensor | None], grad_scale: float = 1.0) -> None:
        """Update every parameter that has a gradient; None leaves one and its state untouched.

        Gradients come `grad_scale` times too large, and are divided before anything else.
        """
        self.check(grads)
        grad_scale = clip.check_scale(grad_scale)
        active = {dtype: bytearray(len(a.views)) for dtype, a in self._gradients.items()}
        for (dtype, slot), grad in zip(self._places, grads, strict=True):
            if grad is not None:
                self._gradients[dtype].views[slot].copy_(grad.detach())
                active[dtype][slot] = 1
        updates = [
            (flat, (self._gradients[dtype], bytes(active[dtype]), self._hypers, groups))
            for (dtype, flat), groups in zip(
                self._flat.items(), self._group_of.values(), strict=True
            )
        ]
        if self._bounds is not None:
            self._step_clipped(updates, self._bounds, grad_scale)
            return
        scales = [self._scale(flat, updates, grad_scale) for flat, _ in updates]
        for (flat, update), scale in zip(updates, scales, strict=True):
            flat.step(*update, scale)

    def _step_clipped(
        self,
        updates: Sequence[tuple[FlatOptimizer, Any]],
        bounds: clip.Bounds,
        grad_scale: float,
    ) -> None:
        """Update by copies of the gradients, clipped by values or several norms."""
        parts = []
        for flat, (gradients, *rest) in updates:
            stored = gradients.flat.dtype
            dtype = dtypes.computed_in(stored)
            if stored not in self._clipped:
                self._clipped[stored] = Arena(gradients.layout, dtype, gradients.flat.device)
            inverse, into = clip.inverse_of(grad_scale, dtype), self._clipped[stored]
            parts.append(flat.clamped(gradients, into, bounds, inverse, *rest))
        clip.scale_sets(parts, bounds)
        for (flat, (gradients, *rest)), part in zip(updates, parts, strict=True):
            # By a scale, torch's kernels are given masters as wide as the copy.
            scale = part.into.new_ones(1) if gradients.flat.dtype in dtypes.NARROW else None
            flat.step(self._clipped[gradients.flat.dtype], *rest, scale)

    def _scale(
        self, flat: FlatOptimizer, updates: Sequence[tuple[FlatOptimizer, Any]], grad_scale: float
    ) -> Tensor | None:
        """Return what the gradients of one arena are multiplied by; the norm is that of all."""
        if self._max_norm is None and grad_scale == 1.0:
            return None

        def squares(inverse: float) -> Tensor:
            return torch.cat([other.squares(*update, inverse) for other, update in updates])

        return clip.of_update(
            self._provider, flat.masters.flat, squares, self._max_norm, grad_scale
        )

    def params(self) -> list[Tensor]:
        """Return the parameters, as views that later steps write."""
        return [self._flat[dtype].masters.views[slot] for dtype, slot in self._places]

    def state(self) -> dict[str, list[Any]]:
        """Return each state under torch's name, as a list along the parameters.

        An optional one is there if some parameter has it.
        """
        states = [self._flat[dtype].state(slot) for dtype, slot in self._places]
        optional = self._rule.optional
        names = [n for n in fields(self._rule) if n not in optional or any(n in s for s in states)]
        return {name: [state.get(name) for state in states] for name in names}

    def load_state(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Replace the state of every parameter by what `state` returned earlier.

        All of it is copied, after all of it was read; what does not fit is Rejected, and then no
        parameter's state is written.
        """
        columns = self._columns(state)
        read = [
            self._flat[dtype].checked(slot, {name: column[k] for name, column in columns.items()})
            for k, (dtype, slot) in enumerate(self._places)
        ]
        for (dtype, slot), one in zip(self._places, read, strict=True):
            self._flat[dtype].put(slot, one)

    def _columns(self, state: Any) -> dict[str, Sequence[Any]]:
        """Return the columns of a state, one entry per parameter in each, or refuse them."""
        rule = self._rule.name
        if not isinstance(state, Mapping) or not fits(self._rule, state):
            came = list(state) if isinstance(state, Mapping) else type(state).__name__
            raise Rejected(f"{rule}: a state has {told(self._rule)}, got {came}")
        for name, column in state.items():
            if not isinstance(column, Sequence) or len(column) != len(self._places):
                raise Rejected(
                    f"{rule}: {name} has an entry for each of the {len(self._places)} parameters"
                )
        return dict(state)

    def _position(self, parameter: Any, what: str) -> int:
        if type(parameter) is not int or not 0 <= parameter < len(self._places):
            raise Rejected(
                f"{what}: a parameter is given by its position, from 0 to "
                f"{len(self._places) - 1}; got {parameter!r}"
            )
        return parameter

    def check(self, grads: Sequence[Tensor | None]) -> None:
        """Refuse gradients that are not one per parameter, each of its shape, dtype and device."""
        if len(grads) != len(self._places):
            raise Rejected(
                f"{self._rule.name}: {len(self._places)} gradients are needed, one per parameter, "
                f"None where it has none; got {len(grads)}"
            )
        check_gradients(self._rule.name, self.params(), grads)


def check_gradients(name: str, params: Sequence[Tensor], grads: Sequence[Tensor | None]) -> None:
    """Refuse gradients that are not of their parameter's shape, dtype and device."""
    for k, (param, grad) in enumerate(zip(params, grads, strict=True)):
        if grad is None:
            continue
        if not isinstance(grad, Tensor) or grad.shape != param.shape:
            raise Rejected(
                f"{name}: the gradient of parameter {k} must have the shape "
                f"{tuple(param.shape)}, got {tuple(getattr(grad, 'shape', ())) or grad!r}"
            )
        if grad.dtype != param.dtype or grad.device != param.device:
            raise Rejected(
                f"{name}: the gradient of parameter {k} must be {param.dtype} on "
                f"{param.device}, got {grad.dtype} on {grad.device}"
            )
