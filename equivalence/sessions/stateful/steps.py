"""Updates of a run: every optimizer, from every form of gradients, all or nothing.

The reference is handed the backend's own gradients, parameters and states, exactly, and makes the
same update; what it makes is a budget for what the backend wrote. What no gradient reached and what
is frozen must stay as it was, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from equivalence.budgets.violation import Violation, check_equal
from equivalence.sessions.judge import State
from equivalence.sessions.stateful.base import SCRIBBLE, Base, statement
from equivalence.sessions.stateful.model import Dense, Groups, Pieces, Sparse
from spec.optim import OPTIMIZERS
from spec.tape import Dense as SpecDense

OF_AN_UPDATE = ("max_norm", "grad_scale", "max_value")
"""What an update takes that is no hyper-parameter of a parameter; groups may have bounds, too."""


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
            given[leaf] = self.pair.fast.upload(value) if form == "buffers" else value
            if form == "buffers":
                pieces[-1] = (known.param, given[leaf].tensor.clone())
        if form == "sequence":
            return [given.get(leaf) for leaf in range(len(self.refs))], pieces
        return given, pieces

    @statement
    def state(self, optimizer: str, param: int) -> None:
        """Read a parameter's optimizer state back."""
        found = self.pair.fast.optimizer_state(optimizer, self.pair.params[param].fast)
        self.model.fit_states(optimizer)
        due = self.model.params[param].states.get(optimizer, State())
        self.pair.check_state(f"{optimizer} state", optimizer, found, due)
        for name in due.moments or ():
            found[name].fill_(SCRIBBLE)

    def fast_groups(self, groups: Groups, side: str) -> list[dict[str, Any]]:
        """Write groups as a session takes them."""
        return [
            {"params": [getattr(self.pair.params[p], side) for p in params], **changed}
            for params, changed in groups
        ]

    def hyper_of(self, param: int, groups: Groups, hyper: Mapping[str, Any]) -> dict[str, Any]:
        """Return a parameter's own hyper-parameters."""
        own = dict(hyper)
        for params, changed in groups:
            if param in params:
                own.update(changed)
        return {name: value for name, value in own.items() if name not in OF_AN_UPDATE}

    def _update(
        self, optimizer: str, given: Any, pieces: Pieces, groups: Groups,
        hyper: Mapping[str, Any], direct: bool, dense: bool,
    ) -> None:  # fmt: skip
        arguments: dict[str, Any] = {**hyper, "grads": given}
        if groups:
            arguments["groups"] = self.fast_groups(groups, "fast")
        getattr(self.pair.fast, f"{optimizer}_step")(**arguments)
        self.model.held(optimizer, pieces, groups, hyper, direct)
        self._reference(optimizer, pieces, groups, hyper, dense)
        for slot in sorted(self.model.updated(pieces)):
            self._adopted(optimizer, slot, self.hyper_of(slot, groups, hyper))
        for slot in range(len(self.model.params)):
            self._tell(slot)

    def _reference(
        self, optimizer: str, pieces: Pieces, groups: Groups, hyper: Mapping[str, Any], dense: bool
    ) -> None:
        """Let the reference make the update, from what the backend had before."""
        spec = self.pair.spec
        for owner, param in zip(self.pair.params, self.model.params, strict=True):
            state = param.states.get(optimizer, State())
            self.pair.hand_over(spec, owner.spec, param.value, state, optimizer)
        used = spec.params_by_leaf
        spec.params_by_leaf = {k: self.pair.params[p].spec for k, (p, _) in enumerate(pieces)}
        lifted = [self.pair.gradient(bits, optimizer) for _, bits in pieces]
        grads: Any = SpecDense(lifted, range(len(lifted))) if dense else dict(enumerate(lifted))
        more = {"groups": self.fast_groups(groups, "spec")} if groups else {}
        before = [p.spec.version for p in self.pair.params]
        getattr(spec, f"{optimizer}_step")(**hyper, **more, grads=grads)
        spec.params_by_leaf = used
        written = {k for k, p in enumerate(self.pair.params) if p.spec.version != before[k]}
        check_equal("parameters that the reference updates", written, self.model.updated(pieces))

    def _adopted(self, optimizer: str, slot: int, hyper: Mapping[str, Any]) -> None:
        """Judge a parameter and its state after an update, and adopt what the backend wrote."""
        param, spec = self.model.params[slot], self.pair.params[slot].spec
        label, kept = f"{optimizer}: parameter {slot}", OPTIMIZERS[optimizer].stateful(hyper)
        got = self.pair.fast.store.masters.views[slot]
        found = self.pair.moments(optimizer, slot) if kept else {}
        if found is None:
            raise Violation(f"{label} has no moments after an update")
        due = spec.value, self.pair.spec.state(spec)
        before = param.states.get(optimizer, State())
        state = self.pair.judge_update(label, optimizer, (got, found), due, before)
        param.written(got.clone(), "device")
        param.used[optimizer] = dict(hyper)
        if kept:
            param.states[optimizer] = state
            check_equal(f"{label}: step", self.pair.steps(optimizer, slot), state.step)
