"""Updates a session's parameters: every form of gradients, all or nothing.

Everything is validated first: the hyper-parameters of every group, and each gradient's presence,
shape and owner. Then one update writes the parameters that are trainable and were reached.

`groups` are a list of mappings with 'params' and the hyper-parameters that differ for them.
`grad_scale` divides the gradients of everything that the update writes, then `max_value` clips each
entry, and then `max_norm` scales them, in all groups together, by their global norm, which never
leaves the device; the gradients themselves stay as they are (fast.optim.clip). A group may have a
`max_value` of its own, and a `max_norm`, which bounds the norm of its gradients alone; these do not
count elsewhere. Where gradients are not finite, the update goes on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fast.device import bridge, flags
from fast.device.arena import Arena
from fast.device.options import Options
from fast.errors import Rejected, SessionError, Unmoved, outside
from fast.optim import OPTIMIZERS, clip
from fast.optim._flat import FlatOptimizer
from fast.optim._rule import Groups, Rule, grouped
from fast.optim._steps import SessionSteps
from fast.runtime.gathering import gathered
from fast.runtime.gradmap import GradMap
from fast.runtime.param import Param
from fast.runtime.recording import Recording

Wanted = tuple[
    FlatOptimizer, tuple[Any, ...], tuple[int, ...] | None, float | None, float, clip.Bounds | None
]
"""An update as it was asked for, checked: the optimizer, the hyper-parameters by group, the slots'
groups, the largest norm, the scale of gradients, and bounds beyond one norm of everything, if there
are any. It is made in every step, so it is a tuple."""


class Active(NamedTuple):
    """The parameters that an update writes, in a list and by slot, and when that was found out.

    `touched` says which slots the gradients reached, and `edits` are the store's.
    """

    touched: bytes
    edits: int
    params: Sequence[Param]
    slots: bytes


class Updates(Recording, SessionSteps[Any]):
    """The optimizers of a session, whose state belongs to its parameters."""

    _flat: type[FlatOptimizer] = FlatOptimizer

    def __init__(self, options: Options) -> None:
        """Start without optimizers; each is made at its first update."""
        super().__init__(options)
        self.optimizers: dict[str, FlatOptimizer] = {}
        self._active = Active(b"", -1, (), b"")

    def optimizer_state(self, name: str, parameter: Param) -> dict[str, Any]:
        """Download a parameter's state in one optimizer, under torch's names.

        The tensors, of the parameter's shape and dtype, are new and the caller's; before the first
        update they are None or zeros. An unknown optimizer is Rejected, a parameter of another
        session raises SessionError.
        """
        self.check_flag()
        state = self._optimizer(name).state(self._slot(parameter, name))
        return {k: bridge.download(v) if isinstance(v, Tensor) else v for k, v in state.items()}

    def optimizer_hyper(self, name: str, parameter: Param) -> dict[str, Any] | None:
        """Return the hyper-parameters that an optimizer last used for a parameter, if it did."""
        hyper = self._optimizer(name).used(self._slot(parameter, name))
        return None if hyper is None else hyper._asdict()

    def load_optimizer_state(
        self,
        name: str,
        parameter: Param,
        state: Mapping[str, Any],
        hyper: Mapping[str, Any] | None = None,
    ) -> None:
        """Replace a parameter's state in one optimizer by what `optimizer_state` returned.

        The tensors are copied, without their graphs, and rounded once to the parameter's dtype.
        They are dense and real, of its shape, finite there, and squares are not below 0; moments
        other than zeros have a step count from 1 to 2^30. What does not fit is Rejected and
        nothing is changed. `hyper` says what made it, as `optimizer_hyper` returned it; None where
        nobody knows.
        """
        optimizer = self._optimizer(name)
        known = None if hyper is None else optimizer.rule.read(hyper, optimizer.formats)
        optimizer.load(self._slot(parameter, name), state, known)

    def gradient_norm(self, grads: Any) -> float:
        """Return the norm of all gradients by which an update would write, as one vector.

        That is what a step's `max_norm` bounds, unless it clips entries or a group's own norm: of
        parameters that are trainable and that were reached, added up in fp64. Infinities and NaN
        come through. `grads` are what a step takes, stay as they are, and are refused as by a step.
        """
        totals: dict[Param, Tensor] = {}
        for parameter, tensor in gathered("gradient_norm", self.store, self._tape, grads):
            if parameter.trainable:
                known = totals.get(parameter)
                totals[parameter] = tensor if known is None else known + tensor
        norms = [torch.linalg.vector_norm(t, dtype=torch.float64) for t in totals.values()]
        return float(torch.linalg.vector_norm(torch.stack(norms))) if norms else 0.0

    def check_flag(self) -> None:
        """Raise if a kernel has met an index out of range: since then, no update wrote anything."""
        self.store.check_flag()

    def clear_flag(self) -> None:
        """Go on after such an error: optimizers write again."""
        flags.clear(self.options.device)
        for optimizer in self.optimizers.values():
            optimizer.resync()

    def _update(
        self,
        name: str,
        hyper: dict[str, Any],
        grads: Any,
        groups: Groups,
        max_norm: float | None,
        grad_scale: float,
        max_value: float | None,
    ) -> None:
        optimizer = self.optimizers.get(name) or self._optimizer(name)
        group_of = None
        if groups is None:
            hypers = optimizer.read(hyper)
        else:
            count = len(self.store.params)
            rule, formats = optimizer.rule, optimizer.formats
            hypers, group_of = grouped(rule, hyper, groups, count, self._slot, formats)
        if max_norm is not None:
            max_norm = clip.check(max_norm)
        if type(grad_scale) is not float or grad_scale != 1.0:
            grad_scale = clip.check_scale(grad_scale)
        bounds = None
        if groups is not None or max_value is not None:
            bounds = clip.bounds_of(max_norm, max_value, groups)
        self._apply((optimizer, hypers, group_of, max_norm, grad_scale, bounds), grads)

    def _apply(self, wanted: Wanted, grads: Any) -> None:
        """Write an update whose hyper-parameters are checked, by gradients that are not yet."""
        store = self.store
        if isinstance(grads, GradMap) and grads.store is store and grads.whole:
            self._write(wanted, grads.arena, grads.touched)
            return
        found = gathered(wanted[0].rule.name, store, self._tape, grads)
        arena = store.take_gradients()
        try:
            touched = bytearray(len(store.params))
            for parameter, tensor in found:
                view = arena.views[parameter.slot]
                if touched[parameter.slot]:
                    view.add_(tensor)
                else:
                    view.copy_(tensor)
                    touched[parameter.slot] = 1
            self._write(wanted, arena, touched)
        finally:
            store.return_gradients(arena)

    def _write(
        self,
        wanted: Wanted,
        arena: Arena,
        touched: bytes | bytearray,
        step: Callable[[bytes], object] | None = None,
    ) -> None:
        """Update the active slots, those that are trainable and were reached, or let `step` do."""
        optimizer, hypers, group_of, max_norm, grad_scale, bounds = wanted
        if optimizer.rule.matrices:
            self._need_matrices(optimizer.rule, touched)
        # In a training loop the last update was of the same parameters.
        known, edits, updated, active = self._active
        if touched != known or edits != self.store.edits:
            _, _, updated, active = self._active = self._found_active(touched)
        if not updated:
            self._say_unmoved(optimizer.rule.name)
            return
        if step is not None:
            step(active)
        elif bounds is not None:
            self._step_clipped(wanted, bounds, arena, active)
        else:
            scale = None
            if max_norm is not None or grad_scale != 1.0:
                squares = partial(optimizer.squares, arena, active, hypers, group_of)
                kind = optimizer.provider
                scale = clip.of_update(kind, arena.flat, squares, max_norm, grad_scale)
            optimizer.step(arena, active, hypers, group_of, scale)
        for parameter in updated:
            parameter.host_current = False
            parameter.version += 1
        self.store.changed()

    def _found_active(self, touched: bytes | bytearray) -> Active:
        """Find the parameters that an update writes, and upload those that lie on the host."""
        updated, slots = [], bytearray(len(self.store.params))
        for parameter, reached in zip(self.store.params, touched, strict=False):
            if reached and parameter.trainable:
                updated.append(parameter)
                slots[parameter.slot] = 1
                if not parameter.mirror_current:
                    parameter.device_view()
        return Active(bytes(touched), self.store.edits, updated, bytes(slots))

    def _need_matrices(self, rule: Rule, touched: bytes | bytearray) -> None:
        """Refuse what is to be updated and is no matrix."""
        each = zip(self.store.params, touched, strict=False)
        for parameter in [one for one, reached in each if reached and one.trainable]:
            rule.need_matrix(repr(parameter.name), parameter.shape)

    def _step_clipped(
        self, wanted: Wanted, bounds: clip.Bounds, arena: Arena, active: bytes
    ) -> None:
        """Update by a copy of the gradients, clipped by values or several norms."""
        optimizer, hypers, group_of, _, grad_scale, _ = wanted
        into = self.store.take_gradients()
        try:
            inverse = clip.inverse_of(grad_scale, into.flat.dtype)
            part = optimizer.clamped(arena, into, bounds, inverse, active, hypers, group_of)
            clip.scale_sets([part], bounds)
            optimizer.step(into, active, hypers, group_of)
        finally:
            self.store.return_gradients(into)

    def _say_unmoved(self, name: str) -> None:
        """Warn of a step without effect; where a session has no parameters, none is expected."""
        params = self.store.params
        trained = [p.name for p in params if p.trainable]
        why = f"the gradients do not reach {', '.join(trained)}" if trained else "all are frozen"
        if params:
            said = f"{name}_step: no parameter was updated: {why}"
            warnings.warn(said, Unmoved, stacklevel=outside())

    def _optimizer(self, name: str) -> FlatOptimizer:
        if not isinstance(name, str) or name not in OPTIMIZERS:
            raise Rejected(f"session: unknown optimizer {name!r}; there are {list(OPTIMIZERS)}")
        known = self.optimizers.get(name)
        if known is None:
            flag = flags.word(self.options.device)
            masters, provider = self.store.masters, self.options.provider
            known = self._flat(OPTIMIZERS[name], masters, provider, flag)
            self.optimizers[name] = known
        return known

    def _slot(self, parameter: Param, what: str) -> int:
        if not self.store.owns(parameter):
            raise SessionError(f"{what}: {parameter!r} is not a parameter of this session")
        return parameter.slot
