"""The store: a session's parameters and buffers, and the memory that they and gradients take."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any
from weakref import WeakMethod

from torch import Tensor

from fast.device import bridge, flags
from fast.device.arena import Arena, Layout
from fast.device.named import NamedBuffer
from fast.device.options import Options
from fast.errors import Rejected
from fast.runtime.param import Param, check_name, check_trainable
from fast.runtime.shadow import Shadow


class Store:
    """Parameters by slot, their masters and 16-bit copies, and spare gradient memory.

    It outlives every tape. `overwritten` says whether a parameter has changed since the present
    tape began, so that leaves which borrow its memory may be stale. `edits` counts what is done to
    parameters beside updates: as long as it stays, there are no others, each takes gradients or
    not as before, and its value lies where it lay. `reader` is what has yet to read the parameters
    as they are, if anything has: a session that puts computations off.
    """

    __slots__ = (
        "_names",
        "_pool",
        "buffers",
        "edits",
        "masters",
        "options",
        "overwritten",
        "params",
        "reader",
        "shadow",
    )

    def __init__(self, options: Options) -> None:
        """Start without parameters and buffers; what they need is allocated as they come."""
        self.options = options
        self.params: list[Param] = []
        self.buffers: list[NamedBuffer] = []
        self.masters = Arena(Layout(), options.master, options.device)
        self.overwritten = False
        self.edits = 0
        self._names: set[str] = set()
        self.shadow: Shadow | None = None
        if options.compute is not options.master:
            self.shadow = Shadow(self.masters, options.compute)
        self._pool: list[Arena] = []
        self.reader: WeakMethod[Callable[[], None]] | None = None

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
        self.before_change()
        slot = self.masters.layout.append(tuple(host.shape))
        self.masters.fit()
        parameter = Param(self, slot, host, name, requires_grad)
        self.params.append(parameter)
        self._names.add(name)
        self.edited()
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
        """Return the memory that ops read a parameter's value from, brought up to date."""
        if self.shadow is not None:
            return self.shadow.view(parameter, self.params)
        if parameter.mirror_current:
            return self.masters.views[parameter.slot]
        return parameter.device_view()

    def before_change(self) -> None:
        """Let be read what a parameter holds, or where it lies, before that changes."""
        reader = None if self.reader is None else self.reader()
        if reader is not None:
            reader()

    def changed(self) -> None:
        """Note that a parameter has changed."""
        self.overwritten = True

    def edited(self) -> None:
        """Note that a parameter was made, written, frozen or thawed."""
        self.edits += 1

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
