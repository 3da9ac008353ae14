"""Parameters of a session as a list, and how they and a program's inputs go on its tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from fast.answers import telling
from fast.device import bridge
from fast.errors import Rejected
from fast.kernels.checks import is_row
from fast.optim._steps import ListSteps
from fast.programs.beside import Beside, session_of
from fast.ref import Ref
from fast.runtime.param import Param
from fast.session import Session


class ParamList(ListSteps[Sequence[Any]]):
    """Parameters of one session in a fixed order, each trainable or frozen."""

    @telling
    def __init__(
        self,
        values: Sequence[Any],
        requires_grad: Sequence[bool] | None = None,
        *,
        session: Session | None = None,
        **options: Any,
    ) -> None:
        """Make one parameter per value; as many flags as values, or Rejected; True unless given.

        Values are host data, copied and rounded once to the dtype of the session's parameters. They
        belong to the session given, or to a new one with the options. Data that
        `fast.device.bridge` does not read are Rejected, and so is a session in which one of the
        parameters' names, `param` and their number, is taken; then none is made.
        """
        _check_values(values)
        flags = _flags(requires_grad, len(values))
        self.session = session_of("params", session, options)
        hosts = [bridge.to_host(value, self.session.options.master) for value in values]
        names = _free_names(self.session, len(values))
        self.params: list[Param] = [
            self.session.param(host, name=name, requires_grad=flag)
            for host, name, flag in zip(hosts, names, flags, strict=True)
        ]

    def __len__(self) -> int:
        """Count the parameters."""
        return len(self.params)

    def values(self, sync: bool = True) -> list[Tensor]:
        """Return the current values as new host tensors, in order, which the caller owns.

        With sync=False nothing crosses, and what an update has changed since the last readback is
        returned as it was then.
        """
        return [param.value(sync) for param in self.params]

    def set_values(self, values: Sequence[Any]) -> None:
        """Overwrite all values by host data, copied, or none: what does not fit is Rejected."""
        _check_values(values)
        hosts = [bridge.to_host(value, self.session.options.master) for value in values]
        came, wanted = [tuple(h.shape) for h in hosts], [p.shape for p in self.params]
        if came != wanted:
            raise Rejected(f"params: values of the shapes {wanted}; got {came}")
        for param, host in zip(self.params, hosts, strict=True):
            param.set(host)

    def _update(self, name: str, gradients: Sequence[Any], hyper: dict[str, Any]) -> None:
        """Update on a tape of its own, on which each parameter is used once."""
        if not isinstance(gradients, Sequence) or len(gradients) != len(self):
            came = len(gradients) if isinstance(gradients, Sequence) else type(gradients).__name__
            raise Rejected(f"params: one gradient for each of {len(self)}; got {came}")
        beside = Beside("params", self.session, {})
        try:
            with beside.entered() as session:
                leaves = use_params(session, self)
                by_leaf = {ref.id: g for ref, g in zip(leaves, gradients, strict=True)}
                getattr(session, f"{name}_step")(grads=by_leaf, **hyper)
        finally:
            beside.release()


def _check_values(values: object) -> None:
    if not is_row(values):
        raise Rejected(f"params: a list of values is needed, got {type(values).__name__}")


def _flags(requires_grad: Any, count: int) -> list[bool]:
    """Return one flag per value, or refuse what is no list of so many flags."""
    if requires_grad is None:
        return [True] * count
    listed = is_row(requires_grad)
    flags: list[Any] = [*requires_grad] if listed else []
    if not listed or len(flags) != count or not all(isinstance(flag, bool) for flag in flags):
        raise Rejected(
            f"params: one requires_grad flag, True or False, for each of the {count} values; got "
            f"{flags if listed else requires_grad!r}"
        )
    return flags


def _free_names(session: Session, count: int) -> list[str]:
    """Return the names that a session gives its next parameters, or refuse if one is taken."""
    names = [f"param{len(session.params) + k}" for k in range(count)]
    for name in {p.name for p in session.params}.intersection(names):
        raise Rejected(
            f"params: the name {name!r} is taken, which one of the {count} parameters would have; "
            "names are unique in a session"
        )
    return names


@telling
def use_params(session: Session, params: ParamList) -> list[Ref]:
    """Put every parameter on the tape, in order; those of another session raise SessionError."""
    return [session.use(param) for param in params.params]


@telling
def use_inputs(session: Session, inputs: Sequence[Any]) -> list[Any]:
    """Put outside data on the tape, in order, as leaves without gradient; integers stay as data.

    The leaves are copies, rounded once; data that `fast.device.bridge` does not read are Rejected.
    """
    return session._given(inputs)
