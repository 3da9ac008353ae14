"""What a recorded program is given: parameters, numbers, and integers that it does not see."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Integral
from operator import is_
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from fast.answers import SIGNS, hints
from fast.compiled.recorded.plan import Log, Plan
from fast.device.bridge import to_device
from fast.device.buffer import Buffer
from fast.device.counters import counters
from fast.device.integers import is_integer, to_integers
from fast.device.options import Options
from fast.errors import Frozen, Rejected, SessionError, outside
from fast.kernels.checks import is_row
from fast.runtime.param import Param
from fast.runtime.store import Store

ROWS = frozenset((list, tuple))
DENSE = torch.contiguous_format

_FLOATS = (
    "integers that run() is given are labels and masks; for numbers to compute with, hand in "
    "floats, such as x.astype(numpy.float32) of an array or x.float() of a tensor"
)
"""How integers become a ref of a recorded program."""


@hints(
    {name: _FLOATS for name, sign in SIGNS.items() if " y" in sign and name != "__contains__"}
    | {"__abs__": _FLOATS}
)
class Indices:
    """Integers or booleans that a recorded program hands on to ops without seeing them."""

    __slots__ = ("_log", "_position", "_tensor")

    def __init__(self, tensor: Tensor, position: int, log: Log) -> None:
        """Hold a device tensor, the one of that position among the program's integer inputs."""
        self._tensor = tensor
        self._position = position
        self._log = log

    made_a_ref = _FLOATS
    """What a refusal says where an op takes a ref."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the data, which every replay has."""
        return tuple(self._tensor.shape)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the data, which every replay has."""
        return self._tensor.dtype

    def __len__(self) -> int:
        """Return the extent of the first axis."""
        return len(self._tensor)

    def _unseen(self, *_: object) -> NoReturn:
        """Refuse to show a value: it would be recorded, and be stale in the next call."""
        raise Rejected(
            "compiled: the values of integer inputs are not known when a program is recorded; it "
            "may hand them to ops and ask for their shape. Prepare them before the call."
        )

    __getitem__ = __iter__ = __bool__ = __eq__ = __ne__ = __array__ = _unseen  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse what a tensor or an array has and this has not."""
        try:
            self._unseen()
        except Rejected as refusal:
            raise AttributeError(str(refusal)) from None


def hashable(program: Callable[..., Any]) -> Callable[..., Any]:
    try:
        hash(program)
    except TypeError as error:
        raise Rejected(
            f"compiled: a program is found again by its hash, got a {type(program).__name__} that "
            "has none; a function is one"
        ) from error
    return program


def is_leaf(value: Any) -> bool:
    """Say whether what was taken of an input becomes a leaf."""
    return isinstance(value, Tensor) and value.is_floating_point()


def kind_of(value: Any) -> tuple[Any, ...]:
    """Return what a recording depends on: a tensor's shape and dtype, a plain integer itself."""
    if isinstance(value, Tensor):
        return (value.shape, value.dtype)
    return (type(value), value)


def outside_of_recording(what: str) -> SessionError:
    return SessionError(
        f"compiled: while a program is recorded it may not {what}; a recorded program has ops and "
        "constants only, takes parameters and data as arguments, and returns refs"
    )


class Again:
    """A call of a lowered program, by which the next one like it is known without a look-up."""

    def __init__(
        self, program: Callable[..., Any], store: Store, params: Sequence[Param],
        taken: Sequence[Any], plan: Plan,
    ) -> None:  # fmt: skip
        """Hold the plan of a call, and the kinds of what was taken of its inputs."""
        self.plan = plan
        self.params = params
        self._program = program
        self._store = store
        self._trainable = [p.trainable for p in params]
        # Where the parameters lie is found out by the next call, and kept while nobody edits them.
        self._edits, self._views = -1, list[Tensor]()
        tensors = [value for value in taken if isinstance(value, Tensor)]
        kinds = [((v.dtype, v.shape, False, True, torch.strided), is_leaf(v)) for v in tensors]
        self._kinds = kinds if len(kinds) == len(taken) else None

    def copied(
        self, program: Callable[..., Any], params: Any, inputs: Any
    ) -> tuple[list[Tensor], list[Tensor]] | None:
        """Return the leaves, and copy the integers, of a call like this one; data are copied.

        None says that it may be another: `CompiledSession.run` reads data that are no tensors of
        the kinds that were taken, or of other parameters, and refuses what it must.
        """
        kinds = self._kinds
        if (
            program is not self._program
            or type(params) not in ROWS
            or type(inputs) not in ROWS
            or len(params) != len(self.params)
            or kinds is None
            or len(inputs) != len(kinds)
            or not all(map(is_, params, self.params))
        ):
            return None
        if self._edits != self._store.edits and not self._renewed():
            return None
        leaves, integers = [*self._views], []
        # Lengths are equal, and a strict zip would be paid for in every step.
        for value, (kind, numbers) in zip(inputs, kinds):  # noqa: B905
            if type(value) is not Tensor or kind != (
                value.dtype, value.shape, value.requires_grad, value.is_cpu, value.layout
            ):  # fmt: skip
                return None
            (leaves if numbers else integers).append(value.clone(memory_format=DENSE))
        counters.uploads += len(inputs)
        return leaves, integers

    def _renewed(self) -> bool:
        """Find out where the parameters lie now, if the same ones take gradients."""
        store = self._store
        if [p.trainable for p in self.params] != self._trainable:
            return False
        self._views = [store.view(p) for p in self.params]
        if store.shadow is None:
            # A copy in 16 bits is brought up to date at each step, and keeps no place.
            self._edits = store.edits
        return True


def listed(store: Store, params: Any, inputs: Any) -> tuple[list[Param], list[Any]]:
    """List the parameters of a store, and the inputs, or refuse what is no list or iterator."""
    for name, what, given in (("params", "parameters", params), ("inputs", "data", inputs)):
        if type(given) in (list, tuple):
            continue
        if isinstance(given, (Mapping, Tensor, str)) or not (
            is_row(given) or isinstance(given, Iterator)
        ):
            way = f"[*{name}.values()]" if isinstance(given, Mapping) else "[x]"
            raise Rejected(
                f"run: {name} is a list of {what}, in the order of the program's arguments, "
                f"such as {way}; got {type(given).__name__}"
            )
    found = [*params]
    for parameter in found:
        if type(parameter) is not Param or parameter.store is not store:
            raise SessionError(
                "run: params is a list of parameters, which param() makes; "
                f"{parameter!r} is not a parameter of this session"
            )
    return found, [*inputs]


def taken_from(value: Any, options: Options) -> Any:
    """Copy an input to the device; a plain integer is the program's own."""
    if not isinstance(value, (Tensor, np.ndarray)) and isinstance(value, (Integral, np.bool_)):
        return value
    if is_integer(value):
        return to_integers(value, options.device)
    return to_device(value, options.compute, options.device)


def tell(what: str, value: Any) -> None:
    """Warn of data that a program reads from outside: later calls see what is there now."""
    if isinstance(value, (Tensor, np.ndarray, Buffer)):
        shape = tuple(value.shape)
        warnings.warn(
            f"compiled: {what} reads data of the shape {shape} from outside the program, which "
            "stay what they are now in every later call; hand in as an argument what changes",
            Frozen,
            stacklevel=outside(),
        )
