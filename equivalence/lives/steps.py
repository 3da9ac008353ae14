"""Updates of a life: every optimizer, from every form of gradients, all or nothing.

The reference is handed the backend's own gradients, parameters and states, exactly, and makes the
same update; what it makes is a budget for what the backend wrote. What no gradient reached and what
is frozen must stay as it was, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from equivalence.budgets.violation import Violation, check_bits, check_equal
from equivalence.lives.base import SCRIBBLE, Base, statement
from equivalence.lives.model import Dense, Groups, Pieces, Sparse, State
from equivalence.measure.reference import held_state
from equivalence.registry import OPTIMIZERS
from equivalence.worlds.arithmetic import Arithmetic
from spec.tape import Dense as SpecDense

OF_AN_UPDATE = ("max_norm", "grad_scale")
"""What an update takes that is no hyper-parameter of a parameter."""


class Steps(Base):
    """Updates from gradients of a backward pass, and from gradients that the host made up."""

    @statement
    def step(self, optimizer: str, grads: int, groups: Groups = (), **hyper: Any) -> None:
        """Update what gradients reach."""
        model = self.model.grads[grads]
        direct = isinstance(model, Sparse) and not model.loose
        self._update(optimizer, self.grads[grads], model.pieces(), groups, hyper, direct,
                     isinstance(model, Dense))  # fmt: skip

    @statement
    def step_host(
        self, optimizer: str, seed: int, form: str = "mapping", groups: Groups = (), **hyper: Any
    ) -> None:
        """Update by gradients by leaf id: host data in a mapping or a sequence, or buffers."""
        given, pieces = self.made_up(seed, form)
        self._update(optimizer, given, pieces, groups, hyper, False, False)
        for value in given.values() if isinstance(given, Mapping) else given:
            if isinstance(value, Tensor):
                value.fill_(SCRIBBLE)

    def made_up(self, seed: int, form: str) -> tuple[Any, Pieces]:
        """Make gradients up for the present tape; a parameter in three has none."""
        given: dict[int, Any] = {}
        pieces: Pieces = []
        for leaf, known in self.model.tape.leaves.items():
            if known.param is None:
                continue
            value = self.draw_master(seed + leaf, known.shape)
            if (seed + leaf) % 3 == 2:
                given[leaf] = None
                continue
            pieces.append((known.param, value.clone()))
            given[leaf] = self.twin.fast.upload(value) if form == "buffers" else value
            if form == "buffers":
                pieces[-1] = (known.param, given[leaf].tensor.clone())
        if form == "sequence":
            return [given.get(leaf) for leaf in range(len(self.refs))], pieces
        return given, pieces

    @statement
    def state(self, optimizer: str, param: int) -> None:
        """Read a parameter's optimizer state back."""
        found = self.twin.fast.optimizer_state(optimizer, self.twin.params[param].fast)
        self.model.fit_states(optimizer)
        due = self.model.params[param].states.get(optimizer, State())
        for field in OPTIMIZERS[optimizer].moments:
            moment = found[field]
            if due.moments is not None:
                check_bits(f"{optimizer} state: {field}", moment, due.moments[field])
                moment.fill_(SCRIBBLE)
            elif moment is not None:
                check_equal(f"{optimizer} state: {field} is fresh", bool(moment.any()), False)
        if "step" in found:
            check_equal(f"{optimizer} state: step", found["step"], due.step)

    def fast_groups(self, groups: Groups, side: str) -> list[dict[str, Any]]:
        """Write groups as a session takes them."""
        return [
            {"params": [getattr(self.twin.params[p], side) for p in params], **changed}
            for params, changed in groups
        ]

    def hyper_of(self, param: int, groups: Groups, hyper: Mapping[str, Any]) -> dict[str, Any]:
        """Return a parameter's own hyper-parameters."""
        own = {name: value for name, value in hyper.items() if name not in OF_AN_UPDATE}
        for params, changed in groups:
            if param in params:
                own.update(changed)
        return own

    def _update(
        self, optimizer: str, given: Any, pieces: Pieces, groups: Groups,
        hyper: Mapping[str, Any], direct: bool, dense: bool,
    ) -> None:  # fmt: skip
        arguments: dict[str, Any] = {**hyper, "grads": given}
        if groups:
            arguments["groups"] = self.fast_groups(groups, "fast")
        getattr(self.twin.fast, f"{optimizer}_step")(**arguments)
        self.model.held(optimizer, pieces, groups, hyper, direct)
        with self.twin.updating(optimizer) as arithmetic:
            self._reference(optimizer, pieces, groups, hyper, arithmetic, dense)
            for slot in sorted(self.model.updated(pieces)):
                self._adopted(optimizer, slot, self.hyper_of(slot, groups, hyper))
        for slot in range(len(self.model.params)):
            self._tell(slot)

    def _reference(
        self, optimizer: str, pieces: Pieces, groups: Groups, hyper: Mapping[str, Any],
        arithmetic: Arithmetic, dense: bool,
    ) -> None:  # fmt: skip
        """Let the reference make the update, from what the backend had before."""
        spec = self.twin.spec
        for owner, param in zip(self.twin.params, self.model.params, strict=True):
            owner.spec.set(self.twin.lift(param.value))
            state = param.states.get(optimizer, State())
            held = held_state(state.moments, state.step, optimizer, arithmetic)
            spec.load_state(owner.spec, held)
        used = spec.params_by_leaf
        spec.params_by_leaf = {k: self.twin.params[p].spec for k, (p, _) in enumerate(pieces)}
        lifted = [self.twin.lift(bits) for _, bits in pieces]
        grads: Any = SpecDense(lifted, range(len(lifted))) if dense else dict(enumerate(lifted))
        more = {"groups": self.fast_groups(groups, "spec")} if groups else {}
        before = [p.spec.version for p in self.twin.params]
        getattr(spec, f"{optimizer}_step")(**hyper, **more, grads=grads)
        spec.params_by_leaf = used
        written = {k for k, p in enumerate(self.twin.params) if p.spec.version != before[k]}
        check_equal("parameters that the reference updates", written, self.model.updated(pieces))

    def _adopted(self, optimizer: str, slot: int, hyper: Mapping[str, Any]) -> None:
        """Judge a parameter and its state after an update, and adopt what the backend wrote."""
        param, spec = self.model.params[slot], self.twin.params[slot].spec
        got = self.twin.fast.store.masters.views[slot]
        self.twin.judge(f"{optimizer}: parameter {slot}", got, spec.value)
        param.written(got.clone(), "device")
        param.used[optimizer] = dict(hyper)
        if not OPTIMIZERS[optimizer].stateful(hyper):
            return
        state, found = self.twin.spec.state(spec), self.twin.moments(optimizer, slot)
        if found is None:
            raise Violation(f"{optimizer}: parameter {slot} has no moments after an update")
        for field, moment in found.items():
            label = f"{optimizer}: {field} of parameter {slot}"
            self.twin.judge(label, moment, getattr(state, field))
        step = param.states.get(optimizer, State()).step + 1
        moments = {field: moment.clone() for field, moment in found.items()}
        param.states[optimizer] = State(moments, step)
        check_equal(f"{optimizer}: step of parameter {slot}",
                    self.twin.steps(optimizer, slot), step)  # fmt: skip
