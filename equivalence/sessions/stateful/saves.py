"""What of a run is saved and restored: by the session's own methods, and by checkpoints."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equivalence.budgets.violation import check_equal
from equivalence.sessions.judge import State
from equivalence.sessions.stateful.base import Base, statement
from equivalence.sessions.stateful.model import Param
from fast import checkpoint
from fast.errors import Rejected
from spec.optim import OPTIMIZERS


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds, and by which optimizers."""

    params: tuple[Param, ...]
    optimizers: frozenset[str]
    calls: int
    buffers: tuple[Tensor, ...]


class Saves(Base):
    """Checkpoints: written, loaded into the same session, and gone on from in a new one."""

    folder: str | None = None
    saved: Saved | None = None
    past: tuple[Any, ...] = ()

    @statement
    def save(self) -> None:
        """Write a checkpoint, which reads everything back."""
        if self.folder is None:
            self.folder = tempfile.mkdtemp()
            # A run that breaks ends anywhere; its folder goes with it.
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        checkpoint.save(self.file, self.pair.fast, {"statements": len(self.program)})
        self._read_back()
        params = self.model.params
        kept = {
            name for name in self.model.optimizers if any(holds(param, name) for param in params)
        }
        copies = tuple(copied(param) for param in params)
        held = tuple(self.model.buffers)
        self.saved = Saved(copies, frozenset(kept), self.model.calls, held)

    @statement
    def load(self) -> None:
        """Load the checkpoint: all of it, or nothing, where it was made for other parameters or by
        other hyper-parameters.
        """
        assert self.saved is not None
        # A refusal reads the state of some optimizers; then it makes no difference of which.
        for name in self.model.optimizers:
            for param in self.pair.params:
                self.pair.fast.optimizer_state(name, param.fast)
            self.model.fit_states(name)
        if self.conflicts():
            self.refused(lambda: checkpoint.load(self.file, self.pair.fast), Rejected)
            return
        checkpoint.load(self.file, self.pair.fast)
        self._read_back()
        self._restored(self.saved)
        self._loaded(self.saved)

    @statement
    def restore(self) -> None:
        """Write the saved values and states by the session's own methods."""
        assert self.saved is not None
        names = self.model.optimizers | self.saved.optimizers
        for slot, param in enumerate(self.saved.params):
            owner = self.pair.params[slot].fast
            owner.set(param.value)
            for name in sorted(names):
                state = param.states.get(name, State())
                self.pair.fast.load_optimizer_state(name, owner, written(name, state))
        self._restored(self.saved)
        for param in self.model.params[: len(self.saved.params)]:
            param.used.clear()

    @statement
    def resume(self) -> None:
        """Leave the session and go on from the checkpoint in a new one."""
        assert self.saved is not None
        shapes = [param.shape for param in self.saved.params]
        self.grads.clear()
        self.pair.reset_tape()
        # The old session stays, so that what it holds cannot go at some moment of its own.
        self.past = (*self.past, self.pair)
        self.born()
        for slot, shape in enumerate(shapes):
            value = self.draw_master(slot, shape)
            self.pair.param(value, f"p{slot}", True)
            self.model.params.append(Param(shape, True, value))
            self.model.fit(self.model.masters)
        for held in self.saved.buffers:
            self._have_buffer(torch.zeros_like(held))
        checkpoint.load(self.file, self.pair.fast)
        self._restored(self.saved)
        self._loaded(self.saved)

    @property
    def file(self) -> Path:
        """Where the checkpoint lies."""
        assert self.folder is not None
        return Path(self.folder) / "run.safetensors"

    def conflicts(self) -> bool:
        """Say whether the checkpoint is of another session, as far as a session can tell."""
        assert self.saved is not None
        if len(self.saved.params) != len(self.model.params):
            return True
        if len(self.saved.buffers) != len(self.model.buffers):
            return True
        names = self.saved.optimizers & self.model.optimizers
        pairs = [
            (old.used.get(name), new.used.get(name))
            for name in names
            for old, new in zip(self.saved.params, self.model.params, strict=True)
        ]
        return any(differ(old, new) for old, new in pairs if old and new)

    def _read_back(self) -> None:
        for name in self.model.optimizers:
            self.model.fit_states(name)
        for param in self.model.params:
            param.synchronized()

    def _restored(self, saved: Saved) -> None:
        """Note what a checkpoint was loaded into."""
        self.model.optimizers |= saved.optimizers
        for slot, old in enumerate(saved.params):
            param = self.model.params[slot]
            param.written(old.value.clone(), "host")
            for name in sorted(self.model.optimizers):
                self.model.fit_states(name)
                state = old.states.get(name, State())
                if state.moments is not None:
                    self.model.hold_states(name, state.moments)
                if not OPTIMIZERS[name].counted:
                    # Only that there is a state is loaded, and not how many updates made it.
                    state = State(state.moments, int(state.moments is not None))
                param.states[name] = state
            param.used = dict(old.used)
            self._tell(slot)
        check_equal("optimizers", set(self.pair.fast.optimizers), self.model.optimizers)

    def _loaded(self, saved: Saved) -> None:
        """Note what a checkpoint restores beside: who is trainable, and the random counter."""
        self.model.calls = self.pair.spec.random_counter = saved.calls
        for k, held in enumerate(saved.buffers):
            self._hold(k, held)
        for slot, old in enumerate(saved.params):
            self.model.params[slot].trainable = old.trainable
            self.pair.params[slot].spec.requires_grad = old.trainable


def holds(param: Param, optimizer: str) -> bool:
    """Say whether a checkpoint mentions a parameter under an optimizer."""
    return optimizer in param.used or param.states.get(optimizer, State()).moments is not None


def copied(param: Param) -> Param:
    """Copy what is known of a parameter."""
    return Param(param.shape, param.trainable, param.value.clone(), states=dict(param.states),
                 used=dict(param.used))  # fmt: skip


def written(optimizer: str, state: State) -> dict[str, Tensor | int | None]:
    """Write a state as a session takes it."""
    moments: dict[str, Tensor | None] = dict.fromkeys(OPTIMIZERS[optimizer].moments)
    moments.update(state.moments or {})
    return {**moments, **({"step": state.step} if OPTIMIZERS[optimizer].counted else {})}


def differ(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Say whether two records of hyper-parameters differ, the learning rate apart."""
    return any(old[name] != new[name] for name in old if name != "lr")
