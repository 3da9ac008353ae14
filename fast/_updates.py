"""Applies an optimizer to a session's parameters: every form of gradients, all or nothing.

Everything is validated first: the hyper-parameters of every group, and each gradient's presence,
shape and owner. Then one update writes the parameters that are trainable and were reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from fast._arena import Arena
from fast.bridge import to_device
from fast.buffer import Buffer
from fast.errors import Rejected, SessionError
from fast.gradmap import DenseGrads, GradMap
from fast.optim._rule import Rule
from fast.param import Param

if TYPE_CHECKING:
    from fast.session import Session

Groups = Sequence[Mapping[str, Any]] | None


def update(session: Session, rule: Rule, hyper: dict[str, Any], grads: Any, groups: Groups) -> None:
    """Update once every trainable parameter that the gradients reach."""
    group_of = None
    if groups:
        hypers, group_of = _grouped(session, rule, hyper, groups)
    else:
        hypers = session.optimizer_of(rule).read(hyper)
    if isinstance(grads, GradMap):
        _check_owner(session, rule, grads)
        found = grads.totals()
        if found is None:
            _write(session, rule, grads.arena, grads.touched, hypers, group_of)
            return
    else:
        found = _collected(session, rule, grads)
    arena = session.take_gradients()
    try:
        touched_slots = bytearray(len(session.params))
        for parameter, tensor in found:
            view = arena.views[parameter.slot]
            if touched_slots[parameter.slot]:
                view.add_(tensor)
            else:
                view.copy_(tensor)
                touched_slots[parameter.slot] = 1
        _write(session, rule, arena, touched_slots, hypers, group_of)
    finally:
        session.return_gradients(arena)


def _write(
    session: Session,
    rule: Rule,
    arena: Arena,
    touched: bytearray,
    hypers: tuple[Any, ...],
    group_of: tuple[int, ...] | None,
) -> None:
    params = session.params
    updated = []
    for parameter, reached in zip(params, touched, strict=False):
        if reached and parameter.requires_grad:
            updated.append(parameter)
            if not parameter.mirror_current:
                parameter.device_view()
    if not updated:
        return
    if len(updated) == len(params):
        active = b"\1" * len(params)
    else:
        chosen = bytearray(len(params))
        for parameter in updated:
            chosen[parameter.slot] = 1
        active = bytes(chosen)
    session.optimizer_of(rule).step(arena, active, hypers, group_of)
    for parameter in updated:
        parameter.host_current = False
        parameter.version += 1


def _grouped(
    session: Session, rule: Rule, hyper: dict[str, Any], groups: Sequence[Mapping[str, Any]]
) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    hypers = [rule.read(hyper)]
    group_of = [0] * len(session.params)
    for number, group in enumerate(groups, 1):
        if "params" not in group:
            raise Rejected(f"{rule.name}: group {number} names no 'params'")
        overrides = {name: value for name, value in group.items() if name != "params"}
        hypers.append(rule.read({**hyper, **overrides}))
        for parameter in group["params"]:
            if not isinstance(parameter, Param) or parameter.session is not session:
                raise Rejected(f"{rule.name}: group {number} holds {parameter!r}, which is not a "
                               "parameter of this session")  # fmt: skip
            if group_of[parameter.slot]:
                raise Rejected(
                    f"{rule.name}: the parameter {parameter.name!r} is in groups "
                    f"{group_of[parameter.slot]} and {number}; groups must not overlap"
                )
            group_of[parameter.slot] = number
    return tuple(hypers), tuple(group_of)


def _check_owner(session: Session, rule: Rule, grads: GradMap | DenseGrads) -> None:
    grads.check()
    if grads.session is not session:
        raise SessionError(f"{rule.name}: these gradients are of another session")


def _collected(session: Session, rule: Rule, grads: Any) -> list[tuple[Param, Tensor]]:
    """Pair the parameters with their gradients, dense or from the host, after checking all."""
    if isinstance(grads, DenseGrads):
        _check_owner(session, rule, grads)
        pairs = list(grads.parameters())
        return [(owner, grads[leaf].tensor) for leaf, owner in pairs if grads.reached(leaf)]
    if not isinstance(grads, (Mapping, Sequence)) or isinstance(grads, str):
        raise Rejected(
            f"{rule.name}: grads must be what backward() or backward_dense() returned, or host "
            f"gradients by leaf id (a mapping or a sequence); got {type(grads).__name__}"
        )
    found = []
    for leaf, owner in session.trainable_leaves():
        given = _entry(rule, grads, leaf, owner)
        if given is not None:
            tensor = to_device(given, owner.dtype, session.options.device)
            if tuple(tensor.shape) != owner.shape:
                raise Rejected(
                    f"{rule.name}: the gradient of {owner.name!r} must have the shape "
                    f"{owner.shape}, got {tuple(tensor.shape)}"
                )
            found.append((owner, tensor))
    return found


def _entry(rule: Rule, grads: Any, leaf: int, owner: Param) -> Any:
    present = leaf in grads if isinstance(grads, Mapping) else leaf < len(grads)
    if not present:
        raise Rejected(
            f"{rule.name}: the gradient of {owner.name!r}, leaf {leaf}, is missing; None stands "
            "for a parameter that the loss did not reach"
        )
    given = grads[leaf]
    return given.tensor if isinstance(given, Buffer) else given
