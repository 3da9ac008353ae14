"""The store: a session's parameters and buffers, and the memory that they and gradients take."""

from __future__ import annotations

from itertools import count
from typing import Any

from torch import Tensor

from fast.device import bridge, flags
from fast.device.arena import Arena, Layout
from fast.device.named import NamedBuffer
from fast.device.options import Options
from fast.errors import Rejected, SessionError
from fast.runtime.param import Param, check_name, check_trainable
from fast.runtime.shadow import Shadow


class Store:
    """Parameters by slot, their masters and 16-bit copies, and spare gradient memory.

    It outlives every tape. `overwritten` says whether a parameter has changed since the present
    tape began, so that leaves which borrow its memory may be stale.
    """

    __slots__ = (
        "_names",
        "_pool",
        "_shadow",
        "buffers",
        "masters",
        "options",
        "overwritten",
        "params",
    )

    def __init__(self, options: Options) -> None:
        """Start without parameters and buffers; what they need is allocated as they come."""
        self.options = options
        self.params: list[Param] = []
        self.buffers: list[NamedBuffer] = []
        self.masters = Arena(Layout(), options.master, options.device)
        self.overwritten = False
        self._names: set[str] = set()
        self._shadow: Shadow | None = None
        if options.compute is not options.master:
            self._shadow = Shadow(self.masters, options.compute)
        self._pool: list[Arena] = []

    def param(self, value: Any, name: str | None, requires_grad: bool) -> Param:
        """Make a parameter of the data's shape; what `Session.param` refuses changes nothing."""
        if name is None:
            free = (f"param{k}" for k in count(len(self.params)))
            name = next(known for known in free if known not in self._names)
        check_name("param", name)
        check_trainable(f"param {name!r}", requires_grad)
        if name in self._names:
            raise Rejected(f"param: the name {name!r} is taken; names are unique in a session")
        host = bridge.to_host(value, self.options.master)
        slot = self.masters.layout.append(tuple(host.shape))
        self.masters.fit()
        parameter = Param(self, slot, host, name, requires_grad)
        self.params.append(parameter)
        self._names.add(name)
        return parameter

    def buffer(self, value: Any, name: str | None) -> NamedBuffer:
        """Make a named buffer; what `Session.buffer` refuses changes nothing."""
        known = {buffer.name for buffer in self.buffers}
        if name is None:
            free = (f"buffer{k}" for k in count(len(self.buffers)))
            name = next(found for found in free if found not in known)
        check_name("buffer", name)
        if name in known:
            raise Rejected(f"buffer: the name {name!r} is taken; a session's buffers have others")
        contents = bridge.to_device(value, self.options.master, self.options.device)
        self.buffers.append(NamedBuffer(self, name, contents))
        return self.buffers[-1]

    def owns(self, parameter: object) -> bool:
        """Say whether something is a parameter of this store."""
        return type(parameter) is Param and parameter.store is self

    def view(self, parameter: Param) -> Tensor:
        """Return the memory that ops read a parameter's value from, brought up to date.

        What is no parameter of this store raises SessionError.
        """
        # As `owns` asks, without a call: this runs for every parameter of every step.
        if type(parameter) is not Param or parameter.store is not self:
            raise SessionError(f"use: {parameter!r} is not a parameter of this session")
        if self._shadow is not None:
            return self._shadow.view(parameter, self.params)
        if parameter.mirror_current:
            return self.masters.views[parameter.slot]
        return parameter.device_view()

    def changed(self) -> None:
        """Note that a parameter has changed."""
        self.overwritten = True

    def check_flag(self) -> None:
        """Raise if a kernel has met an index out of range: since then, no update wrote anything."""
        flags.raise_if_set(self.options.device)

    def take_gradients(self) -> Arena:
        """Take a gradient arena from the pool; its contents are left over and must be written."""
        if not self._pool:
            return Arena(self.masters.layout, self.options.master, self.options.device)
        arena = self._pool.pop()
        if len(arena.views) != len(self.params):
            arena.fit()
        return arena

    def return_gradients(self, arena: Arena) -> None:
        """Put a gradient arena back, so that the next backward pass allocates nothing."""
        self._pool.append(arena)

    def collect(self) -> None:
        """Free the spare gradient memory."""
        self._pool.clear()
