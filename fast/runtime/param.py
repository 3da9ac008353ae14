"""A parameter: a host copy, a device mirror in the session's arena, and which of them is current.

Readback synchronizes; writing the host copy invalidates the mirror, which the next use uploads;
an update on the device makes the host copy stale. Mirrors survive a tape reset.
Every write and every update bumps the version, so that neither a backward pass nor an op mixes two
versions.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from fast.answers import hints, lacking
from fast.device import bridge
from fast.device.arena import Arena
from fast.device.buffer import Buffer
from fast.device.counters import counters
from fast.device.dtypes import OF
from fast.errors import Rejected


class Memory(Protocol):
    """What a parameter asks of the store that owns it."""

    masters: Arena

    def before_change(self) -> None:
        """Let be read what a parameter holds before that changes."""

    def changed(self) -> None:
        """Hear that a parameter has changed, so that leaves which borrow it may be stale."""

    def edited(self) -> None:
        """Hear that a parameter was written, frozen or thawed, and not by an update."""

    def check_flag(self) -> None:
        """Raise if a kernel has met an index out of range."""


def check_name(who: str, name: object) -> None:
    """Refuse what is no name."""
    if not isinstance(name, str):
        raise Rejected(f"{who}: a name is a str, got {name!r}")


def check_trainable(who: str, value: object) -> None:
    """Refuse anything but True for trainable and False for frozen."""
    if not isinstance(value, bool):
        raise Rejected(f"{who}: requires_grad is True or False, got {value!r}")


_USE = "write ops.use(x), which records its value, and calculate with that"
_SIGNS = ("add", "sub", "mul", "truediv", "matmul", "pow")
_GRAD = "gradients are what backward() returns, and session.grad(them, ref) finds"


@hints(
    {f"__{reverse}{sign}__": _USE for sign in _SIGNS for reverse in ("", "r")}
    | dict.fromkeys(("__getitem__", "__abs__"), _USE)
    | dict.fromkeys(("__float__", "__int__", "__array__"), "write x.value()")
)
@lacking(
    {"grad": _GRAD}
    | dict.fromkeys(("data", "item", "numpy", "tolist"), "write x.value()")
    | dict.fromkeys(("T", "sum", "mean", "max", "min", "reshape", "view", "detach"), _USE)
)
class Param:
    """A trainable (or frozen) tensor that lives in the store of its session, on its device.

    Whoever reads `requires_grad` at every step reads `trainable`, which is the same without a call;
    only the setter of `requires_grad`, which checks, writes it.
    """

    __slots__ = (
        "_host",
        "_name",
        "host_current",
        "mirror_current",
        "slot",
        "store",
        "trainable",
        "used_on",
        "version",
    )

    def __init__(
        self, store: Memory, slot: int, host: Tensor, name: str, requires_grad: bool
    ) -> None:
        """Hold `host`, already rounded to the master dtype; `slot` is its place in the arena."""
        self.store = store
        self.slot = slot
        self._name = name
        self.version = 0
        self.used_on: Any = None
        self.host_current = True
        self.mirror_current = False
        self._host = host
        self.trainable = requires_grad

    @property
    def name(self) -> str:
        """The name, unique in the session, by which checkpoints find the parameter; it stays."""
        return self._name

    @name.setter
    def name(self, value: object) -> None:
        raise Rejected(
            f"param {self._name!r}: a name is given once, by param(value, name=...), since "
            f"checkpoints find a parameter by it; got {value!r}"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return tuple(self._host.shape)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the master copy, in which optimizers work."""
        return self._host.dtype

    @property
    def requires_grad(self) -> bool:
        """Whether backward passes and optimizers include the parameter; False freezes it."""
        return self.trainable

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        check_trainable(f"param {self.name!r}", value)
        self.trainable = value
        self.store.edited()

    @property
    def current(self) -> str:
        """Name the copy that holds the value: `host`, `device` or `both`."""
        if self.host_current:
            return "both" if self.mirror_current else "host"
        return "device"

    def sync(self) -> None:
        """Bring the host copy up to date with the device; does nothing where it is.

        Every public readback does so first. Raises Rejected if a kernel has met an index out of
        range, for then the last updates have written nothing.
        """
        if not self.host_current:
            self.store.check_flag()
            self._host = bridge.download(self._view())
            self.host_current = True

    def value(self, sync: bool = True) -> Tensor:
        """Return the value as a new host tensor, after synchronizing.

        With sync=False nothing crosses: the host copy is returned as it is, which an update on the
        device leaves stale; `host_current` says whether it is.
        """
        if sync:
            self.sync()
        return self._host.clone()

    def set(self, value: Any) -> None:
        """Overwrite the host copy by host data; the mirror becomes invalid until the next use.

        The data are copied, rounded once, and the version rises. Data of another shape are
        Rejected, naming both, and nothing is changed.
        """
        host = bridge.to_host(value, self.dtype)
        self._check_shape(tuple(host.shape), "set")
        self.store.before_change()
        self._host = host
        self.host_current, self.mirror_current = True, False
        self.store.edited()
        self._rise()

    def set_device(self, value: Buffer | Tensor) -> None:
        """Copy a device buffer into the mirror; the host copy becomes stale, and the version rises.

        The buffer stays the caller's. It has the parameter's shape and dtype, on its device, or it
        is Rejected and nothing is changed; one that was released raises Released. Of a tensor that
        requires grad the numbers are taken, and not the graph.
        """
        source = value.tensor if isinstance(value, Buffer) else value
        if not isinstance(source, Tensor):
            raise Rejected(
                f"param {self.name!r}: set_device takes a buffer or a torch tensor, "
                f"got {type(value).__name__}; set() takes host values"
            )
        self._check_shape(tuple(source.shape), "set_device")
        source = bridge.dense(f"param {self.name!r}: set_device", source)
        view = self._view()
        if source.dtype is not view.dtype or source.device != view.device:
            raise Rejected(
                f"param {self.name!r}: set_device takes {view.dtype} on {view.device}, got "
                f"{source.dtype} on {source.device}; fast.device.bridge.upload(data, "
                f"{self._precision!r}, {str(view.device)!r}) makes such a buffer"
            )
        self.store.before_change()
        view.copy_(source)
        self.updated()

    def mirror(self) -> Buffer:
        """Return the device value, of the parameter's shape, uploading it first if it is stale.

        The buffer is a slice of the session's arena, which keeps the memory when it is released.
        """
        return Buffer(self.device_view(), f"the parameter {self.name!r}", in_arena=True)

    def device_view(self) -> Tensor:
        """Return the arena's view, uploading the host copy first if the mirror is invalid."""
        view = self._view()
        if not self.mirror_current:
            view.copy_(self._host)
            counters.uploads += 1
            self.mirror_current = True
        return view

    def updated(self) -> None:
        """Note that the device now holds a newer value than the host."""
        self.mirror_current, self.host_current = True, False
        self.store.edited()
        self._rise()

    def _rise(self) -> None:
        self.version += 1
        self.store.changed()

    def _view(self) -> Tensor:
        return self.store.masters.views[self.slot]

    @property
    def _precision(self) -> str:
        return OF[self.dtype].name

    def _check_shape(self, came: tuple[int, ...], what: str) -> None:
        if came != self.shape:
            raise Rejected(f"param {self.name!r}: {what} needs the shape {self.shape}, got {came}")

    def __repr__(self) -> str:
        frozen = "" if self.trainable else ", frozen"
        return f"Param({self.name!r}, {self.shape}, version={self.version}{frozen})"
