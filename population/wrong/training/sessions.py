"""Wrong sessions: what lies between operations is stale, shared, added up or forgotten.

Each changes one method of `fast` for as long as its context lasts. The patches of the tests
(docs/mutants.md) have more of these, on the lines themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from torch import Tensor

from population.record import wrong

INPLACE = "https://github.com/pytorch/pytorch/issues/24413"
ACCUMULATED = "optimizer.zero_grad() forgotten"
STALE = "https://github.com/pytorch/pytorch/issues/31258"
REUSED = "https://github.com/pytorch/executorch/issues/21686"


@wrong("session", "lifetime", source=INPLACE)
@contextmanager
def versions_never_rise() -> Iterator[None]:
    """A parameter that changes keeps its version, so that no tape knows."""
    from fast.runtime.param import Param

    with patch.object(Param, "_rise", lambda self: self.store.changed()):
        yield


@wrong("session", "lifetime", source=INPLACE)
@contextmanager
def outdated_tapes_pass() -> Iterator[None]:
    """A backward pass never asks whether parameters have changed."""
    from fast.tape import Tape

    with patch.object(Tape, "check_versions", lambda self, *identity: None):
        yield


@wrong("session", "lifetime", source=STALE)
@contextmanager
def host_writes_unseen() -> Iterator[None]:
    """What is written on the host does not reach the device, if that has a value already."""
    from fast.runtime.param import Param

    write = Param.set

    def kept(self: Any, value: Any) -> None:
        current = self.mirror_current
        write(self, value)
        self.mirror_current = current

    with patch.object(Param, "set", kept):
        yield


@wrong("session", "lifetime", source=STALE)
@contextmanager
def host_copy_stale() -> Iterator[None]:
    """A readback returns the host's copy, whatever the device has done since."""
    from fast.runtime.param import Param

    def told(self: Any) -> None:
        self.host_current = True

    with patch.object(Param, "sync", told):
        yield


@wrong("session", "gradient", source="tied weights")
@contextmanager
def last_contribution_alone() -> Iterator[None]:
    """A later contribution to a parameter's gradient replaces the earlier one."""
    from fast.runtime.gradmap import GradMap
    from fast.runtime.param import Param

    add = GradMap.add

    def replaced(self: Any, leaf: int, cotangent: Tensor) -> None:
        owner = self._leaves[leaf]
        if type(owner) is Param:
            self.touched[owner.slot] = 0
        add(self, leaf, cotangent)

    with patch.object(GradMap, "add", replaced):
        yield


@wrong("session", "gradient", source=ACCUMULATED)
@contextmanager
def gradients_of_the_last_pass_stay() -> Iterator[None]:
    """Gradients are added to those of the pass before."""
    from fast.runtime.gradmap import GradMap

    make = GradMap.__init__

    def dirty(self: Any, store: Any, tape: Any) -> None:
        pooled = bool(store._pool)
        make(self, store, tape)
        if pooled:
            self.touched[:] = b"\1" * len(self.touched)

    with patch.object(GradMap, "__init__", dirty):
        yield


@wrong("session", "aliasing", source=REUSED)
@contextmanager
def gradient_memory_handed_out_twice() -> Iterator[None]:
    """Memory of gradients that was given back once is given to every later pass."""
    from fast.runtime.store import Store

    take = Store.take_gradients

    def again(self: Any) -> Any:
        arena = take(self)
        self._pool.append(arena)
        return arena

    with patch.object(Store, "take_gradients", again):
        yield


@wrong("session", "lifetime", source="requires_grad read once, when the parameter was made")
@contextmanager
def frozen_parameters_learn() -> Iterator[None]:
    """Freezing a parameter does nothing."""
    from fast.runtime.param import Param

    freeze = property(lambda self: self.trainable, lambda self, value: None)
    with patch.object(Param, "requires_grad", freeze):
        yield


@wrong("session", "random", source="dropout seeds rewound at every step")
@contextmanager
def a_reset_rewinds_the_draws() -> Iterator[None]:
    """After a reset, the same numbers are drawn once more."""
    from fast.session import Session

    reset = Session.reset_tape

    def rewound(self: Any) -> None:
        reset(self)
        self.random_counter = 0

    with patch.object(Session, "reset_tape", rewound):
        yield


@wrong("session", "aliasing", source=INPLACE)
@contextmanager
def naturals_overwritten_in_place() -> Iterator[None]:
    """Labels that an op has read are overwritten, and the backward pass reads the new ones."""
    from fast.session import Session

    def overwritten(self: Any, ref: Any, values: Any) -> None:
        self._held(ref).copy_(self._vector(values))

    with patch.object(Session, "set_nat_vec", overwritten):
        yield


@wrong("session", "gradient", source="https://github.com/huggingface/candle/issues/3613")
@contextmanager
def leaves_share_the_cotangent() -> Iterator[None]:
    """The gradient of an input is the cotangent itself, in memory that is another's."""
    from fast.device.buffer import Buffer
    from fast.runtime.gradmap import GradMap

    add = GradMap.add

    def borrowed(self: Any, leaf: int, cotangent: Tensor) -> None:
        known = leaf in self._loose
        add(self, leaf, cotangent)
        if leaf in self._loose and not known:
            self._loose[leaf] = Buffer(cotangent, "the gradient map")

    with patch.object(GradMap, "add", borrowed):
        yield
