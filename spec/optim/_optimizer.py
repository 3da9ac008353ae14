"""What a page of an optimizer hands over: its functions, and all that others know of it.

>>> from spec.optim.sgd import optimizer
>>> optimizer.moments, optimizer.counted, optimizer.arguments[:2]
(('momentum_buffer',), False, ('lr', 'momentum'))
>>> optimizer.stateful({"lr": 0.5}), optimizer.stateful({"lr": 0.5, "momentum": 0.5})
(False, True)
"""

# This page is longer than the guide because it says what others may know, in one place.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from spec.op import AnyTensor
from spec.tensor import tensor

Hypers = Mapping[str, Any]
"""Hyper-parameters by name."""


@dataclass(frozen=True)
class Repeated:
    """What an update does several times in a row, for who judges it turn by turn.

    `count` is the hyper-parameter that says how often. Under the hyper-parameters that `shown`
    returns, an update of zeros leaves what so many turns have made, from which `seen` reads it off.
    `last` is the update whose last turn begins from that.
    """

    count: str
    shown: Callable[[Hypers, int], dict[str, Any]]
    seen: Callable[[AnyTensor, Any], AnyTensor]
    last: Callable[[AnyTensor, AnyTensor, Any, Any, AnyTensor], tuple[AnyTensor, Any]]


@dataclass(frozen=True)
class Optimizer:
    """One optimizer: a pure function of parameter, gradient and state.

    `hyper` and `state` are dataclasses. A field of the state is a moment, a tensor of the
    parameter's shape, but for `step`, which counts; a default of None says "not yet". An update
    that remembers nothing hands back the state that it was given.
    `squares` are the moments that are never below 0. A hyper-parameter `weight_decay` adds
    weight_decay * p to the gradient, unless `decoupled` says that it does not join it.
    `elementwise` says that no entry looks at another. `matrices` says that every parameter is a
    matrix. `torch` names the class of torch.optim that has the same formula. `extras` are
    hyper-parameters that many implementations do not know: each has its values, as `tried` has, and
    its default leaves the update as it is without.

    The rest is for those who test it. `tried` has values of each hyper-parameter at which a mistake
    shows, plainest first; `permitted` makes settings that were drawn one by one acceptable, and
    `alone` are those of which one may differ for some of the parameters. `refused` are pairs of a
    constraint and of a change that breaks it. `repeated` says what an update does again and again:
    a bound over all of that would say little.
    """

    name: str
    hyper: type[Any]
    state: type[Any]
    init: Callable[[AnyTensor], Any]
    update: Callable[[AnyTensor, AnyTensor, Any, Any], tuple[AnyTensor, Any]]
    tried: Mapping[str, tuple[Any, ...]]
    alone: tuple[str, ...]
    refused: tuple[tuple[str, Hypers], ...]
    permitted: Callable[[Hypers], dict[str, Any]] = dict
    squares: tuple[str, ...] = ()
    decoupled: bool = False
    elementwise: bool = True
    matrices: bool = False
    repeated: Repeated | None = None
    torch: str | None = None
    order: tuple[str, ...] = ()
    extras: Mapping[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])

    @property
    def arguments(self) -> tuple[str, ...]:
        """The hyper-parameters in the order of a step's arguments: `order`, if the page has one."""
        return self.order or tuple(f.name for f in fields(self.hyper))

    @property
    def defaults(self) -> dict[str, Any]:
        """The defaults of the hyper-parameters that have one."""
        return {f.name: f.default for f in fields(self.hyper) if f.default is not MISSING}

    @property
    def required(self) -> tuple[str, ...]:
        """The hyper-parameters without a default."""
        return tuple(name for name in self.arguments if name not in self.defaults)

    @property
    def moments(self) -> tuple[str, ...]:
        """The tensors of a state, by name."""
        return tuple(f.name for f in fields(self.state) if f.name != "step")

    @property
    def counted(self) -> bool:
        """Whether a state counts the steps of its parameter."""
        return any(f.name == "step" for f in fields(self.state))

    def as_parameter(self, numbers: Sequence[Any]) -> AnyTensor:
        """Return some numbers as a parameter: a vector, or a row where all are matrices."""
        return tensor([list(numbers)] if self.matrices else list(numbers))

    def may_lack(self, moment: str) -> bool:
        """Say whether a moment may be None, which stands for "not yet"."""
        return any(f.name == moment and f.default is None for f in fields(self.state))

    def stateful(self, hyper: Hypers) -> bool:
        """Say whether an update by these hyper-parameters remembers something."""
        known = {name: value for name, value in hyper.items() if name in self.arguments}
        one = self.as_parameter([1.0])
        start = self.init(one)
        return self.update(one, one, start, self.hyper(**known))[1] is not start

    def kept(self, hyper: Hypers) -> tuple[str, ...]:
        """Name the moments that an update by these hyper-parameters reads and writes."""
        known = {name: value for name, value in hyper.items() if name in self.arguments}
        one = self.as_parameter([1.0])
        if not self.stateful(hyper):
            return ()
        after = self.update(one, one, self.init(one), self.hyper(**known))[1]
        return tuple(name for name in self.moments if getattr(after, name) is not None)

    def decays_gradient(self, hyper: Hypers) -> bool:
        """Say whether an update adds a multiple of the parameter to its gradient."""
        return bool(hyper.get("weight_decay")) and not self.decoupled
