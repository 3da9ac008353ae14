"""What comes into a session: parameters and their uses, inputs, constants and buffers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from fast.device import bridge
from fast.device.buffer import Buffer
from fast.device.integers import is_integer
from fast.device.named import NamedBuffer
from fast.errors import Rejected, SessionError
from fast.kernels import checks
from fast.ref import Ref
from fast.runtime.param import Param, check_name, check_trainable
from fast.runtime.recording import Recording


class Leaves(Recording):
    """The parameters that a session owns, and the leaves of its tape."""

    def param(self, value: Any, name: str | None = None, requires_grad: bool = True) -> Param:
        """Make a parameter of the data's shape from host data, copied and rounded once.

        It belongs to the session and is not on the tape until it is used. Where no name is given,
        it is `param` with its position, or the next number that is free. A name that is taken, or
        no str, a requires_grad that is no bool, and data that `fast.device.bridge` does not read
        are Rejected.
        """
        return self.store.param(value, name, requires_grad)

    def buffer(self, value: Any, name: str | None = None) -> NamedBuffer:
        """Make a named buffer of the data's shape from a copy, rounded once as parameters are.

        It is state that outlives tapes and takes no gradient, such as the running statistics of a
        normalization: programs hand it to the ops that update it, and checkpoints hold it. `value`
        reads it and `set` overwrites it. Programs that `fast.autodiff` runs leave it as it was.
        Where no name is given, it is `buffer` with its position, or the next number that is free. A
        name that another buffer has, or no str, and data that `fast.device.bridge` does not read
        are Rejected.
        """
        return self.store.buffer(value, name)

    def use(self, parameter: Param) -> Ref:
        """Record a parameter's value as a leaf; each use is a leaf, and an update adds them up.

        The leaf borrows the mirror, which is uploaded first if it is stale and which outlives the
        tape. What is no parameter of this session raises SessionError.
        """
        # This runs for every parameter of every step, so it asks the store what costs no call.
        store = self.store
        if type(parameter) is not Param or parameter.store is not store:
            raise SessionError(f"use: {parameter!r} is not a parameter of this session")
        tape = self._tape
        if parameter.mirror_current and store.shadow is None:
            view = store.masters.views[parameter.slot]
        else:
            view = store.view(parameter)
        again = parameter.used_on is tape
        parameter.used_on = tape
        return Ref(tape, tape.use(view, parameter, parameter.trainable, again))

    _use = use
    """The same, as a session calls it itself: `use` reads what people write (fast.answers)."""

    @property
    def params_by_leaf(self) -> dict[int, Param]:
        """The parameters in use on the present tape, trainable or not, by the ids of their leaves.

        With `optimizer_state`, this shows an optimizer's state by leaf id.
        """
        return {identity: parameter for identity, (parameter, _) in self._tape.uses.items()}

    def input(self, value: Any, name: str | None = None, requires_grad: bool = False) -> Ref:
        """Record a copy of host data, or of a device buffer, as a leaf of the data's shape.

        The tape owns the copy. With requires_grad backward passes keep its gradient; updates do not
        write it. Data that `fast.device.bridge` does not read, a name that is no str and a
        requires_grad that is no bool are Rejected.
        """
        check_trainable("input", requires_grad)
        if name is not None:
            check_name("input", name)
        options, tape = self.options, self._tape
        tensor = bridge.to_device(value, options.compute, options.device)
        return Ref(tape, tape.leaf(tensor, requires_grad, name))

    def _given(self, inputs: Iterable[Any]) -> list[Any]:
        """Record a program's data as inputs, in order; integers and booleans stay as they are."""
        return [value if is_integer(value) else self.input(value) for value in inputs]

    def const(self, value: Any) -> Ref:
        """Record a copy of data, of their shape, as a leaf that takes no gradient.

        Refusals are `input`'s.
        """
        return self.input(value)

    def constant(self, value: Any, shape: tuple[int, ...] = (), like: Ref | None = None) -> Ref:
        """Record one number, rounded once and repeated to a shape; no tensor crosses.

        It has the dtype of like, or the session's. What is no real number, and no shape, is
        Rejected.
        """
        checks.extents("constant", shape)
        if like is not None and not isinstance(like, Ref):
            raise Rejected(f"constant: like is a ref of this session, got {type(like).__name__}")
        dtype = self.options.compute if like is None else like.dtype
        number = bridge.round_number(value, dtype)
        tensor = torch.full(shape, number, dtype=dtype, device=self.options.device)
        return Ref(self._tape, self._tape.leaf(tensor, False))

    def upload(self, value: Any) -> Buffer:
        """Copy host data into a device buffer of the session's precision; the caller owns it.

        Data that `fast.device.bridge` does not read are Rejected.
        """
        return Buffer(bridge.to_device(value, self.options.compute, self.options.device))
