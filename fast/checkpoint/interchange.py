"""Optimizer state to `torch.optim` and back, as the state_dict that torch's optimizers load.

A run that was started in a session goes on in `torch.optim.SGD`, `Adam` or `AdamW`, and the other
way round. The parameters' values go by `Param.value` and `Param.set`; this is for what an optimizer
remembers. A flag of torch's that changes what is computed, and that no optimizer here has, is
refused by name; `foreach` and `fused` say only how torch computes, and are not kept.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fast.checkpoint.snapshot import (
    Held,
    Hyper,
    all_or_nothing,
    check_optimizer,
    grouped,
    write_optimizer,
)
from fast.errors import Rejected
from fast.kernels.checks import is_row
from fast.optim import OPTIMIZERS
from fast.optim._hypers import NOT_OF_TORCH, joined, parted
from fast.optim._state import Owner, number, read, unused
from fast.runtime.param import Param
from fast.session import Session

__all__ = ["from_torch", "to_torch"]

REFUSED = ("amsgrad", "maximize", "capturable", "differentiable")
IGNORED = ("params", "param_names", "foreach", "fused", "initial_lr")
"""What is no hyper-parameter: members, how torch computes, and a note of torch's schedulers."""


def to_torch(session: Session, name: str, *, fused: bool | None = None) -> dict[str, Any]:
    """Return what an optimizer remembers as a state_dict for its namesake in `torch.optim`.

    The indices follow `session.params`. Parameters whose last updates had equal hyper-parameters
    form a group, and groups come in the order of their first parameters; where that is one group,
    `torch.optim.AdamW([p, ...]).load_state_dict(...)` takes it with a tensor for each parameter.
    `fused` is torch's own flag, which a state_dict sets too; it is refused where torch's class has
    none. Without an update there is no learning rate to hand over, and this is refused.
    """
    hypers = {p.name: session.optimizer_hyper(_known(name), p) for p in session.params}
    groups = grouped(hypers.items())
    if not groups:
        raise Rejected(f"to_torch: {name} has updated nothing in this session; take a step first")
    # What was never updated has no hyper-parameters of its own, and joins the first group.
    first, alike = groups[0]
    groups[0] = first, [p for p, hyper in hypers.items() if hyper is None or p in alike]
    stand_ins = [
        {"params": [(owner, torch.empty(0, 0)) for owner in members], **joined(hyper)}
        for hyper, members in groups
    ]
    flags = {} if fused is None else {"fused": fused}
    if flags and not _has_fused(name):
        raise Rejected(f"to_torch: torch's {_torch_class(name).__name__} has no flag fused")
    found: dict[str, Any] = _torch_class(name)(stand_ins, lr=0.0, **flags).state_dict()
    by_name = {p.name: p for p in session.params}
    order = [(by_name[owner], hyper) for hyper, members in groups for owner in members]
    states = [_torch_state(session, name, *pair) for pair in order]
    found["state"] = {k: state for k, state in enumerate(states) if state}
    return found


def from_torch(session: Session, name: str, state_dict: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Replace what an optimizer remembers by a state_dict's, and return its groups for a step.

    Groups that carry names are matched by name; a frozen parameter may then be absent. Without
    names the parameters, group after group, are `session.params` in their order. The result goes
    to the optimizer's step as `groups`. The state is copied, and all of it is checked before
    anything is changed: what does not fit, or says nothing that this optimizer can go on from, is
    Rejected, naming the group or the parameter. Groups of another algorithm are told by their
    entries, Adam's and AdamW's by `decoupled_weight_decay`, which torch writes since 2.7.
    """
    given, states = _part(state_dict, "param_groups", Sequence), _part(state_dict, "state", Mapping)
    hypers = [_hyper(_known(name), number, group) for number, group in enumerate(given)]
    members = _members(session, given)
    owners: dict[int, tuple[Param, Hyper]] = {}
    for k, (group, hyper, found) in enumerate(zip(given, hypers, members, strict=True)):
        for index, parameter in zip(group["params"], found, strict=True):
            if type(index) is not int or index in owners:
                raise Rejected(
                    f"from_torch: group {k}: 'params' lists the indices of parameters, ints, each "
                    f"once; got {index!r}"
                )
            owners[index] = parameter, hyper
    for index in states:
        if index not in owners:
            raise Rejected(f"from_torch: state {index!r} belongs to no parameter of the groups")
    holders = {
        parameter.name: Held(_state(name, parameter, states.get(index, {}), hyper), hyper)
        for index, (parameter, hyper) in owners.items()
    }
    try:
        check_optimizer(session, name, holders)
    except Rejected as error:
        raise Rejected(f"from_torch: {error}") from error
    session.check_flag()
    with all_or_nothing(session):
        write_optimizer(session, name, holders)
    return [{"params": p, **hyper} for p, hyper in zip(members, hypers, strict=True)]


def _known(name: str) -> str:
    shared = [known for known, rule in OPTIMIZERS.items() if rule.torch is not None]
    if not isinstance(name, str) or name not in shared:
        raise Rejected(f"interchange: torch and this library share {shared}, got {name!r}")
    return name


def _torch_class(name: str) -> Any:
    return OPTIMIZERS[name].torch


def _has_fused(name: str) -> bool:
    return "fused" in inspect.signature(_torch_class(name)).parameters


def _torch_state(session: Session, name: str, parameter: Param, hyper: Hyper) -> dict[str, Tensor]:
    """Return one parameter's state as torch has it, and nothing where torch has none yet."""
    state = session.optimizer_state(name, parameter)
    rule = OPTIMIZERS[name]
    if state.get("step") == 0 or state[rule.states[0]] is None:
        return unused(rule, parameter.shape, hyper)
    return {
        field: value if isinstance(value, Tensor) else torch.tensor(float(value))
        for field, value in state.items()
        if value is not None
    }


def _part(state_dict: Mapping[str, Any], key: str, kind: type[Any]) -> Any:
    found = state_dict.get(key) if isinstance(state_dict, Mapping) else None
    if not isinstance(found, kind) or isinstance(found, str):
        raise Rejected(
            f"from_torch: the state_dict of a torch optimizer has {key!r}, got {type(found)}"
        )
    return found


def _hyper(name: str, number_of: int, group: Any) -> Hyper:
    """Read a group's hyper-parameters, or refuse the flag that has no meaning here."""
    where = f"from_torch: group {number_of}"
    if not isinstance(group, Mapping):
        raise Rejected(f"{where} is a mapping, got {type(group).__name__}")
    needed = list(OPTIMIZERS[name].hyper._fields)
    found = dict(group)
    if not is_row(found.get("params")):
        raise Rejected(f"{where}: 'params' lists the indices of parameters")
    _refuse_flags(where, name, found)
    defaults = OPTIMIZERS[name].defaults
    found = {**{n: defaults[n] for n in NOT_OF_TORCH if n in defaults}, **parted(where, found)}
    for key in IGNORED:
        found.pop(key, None)
    if set(found) != set(needed):
        strange = sorted(set(found) ^ set(needed), key=str)
        raise Rejected(f"{where}: {name} has {needed}; missing or unknown: {strange}")
    numbers = OPTIMIZERS[name].read_as(
        {key: found[key] for key in needed}, lambda key, value: number(f"{where}, {key}", value)
    )
    try:
        return dict(OPTIMIZERS[name].read(numbers)._asdict())
    except Rejected as error:
        raise Rejected(f"{where}: {error}") from error


def _refuse_flags(where: str, name: str, found: dict[str, Any]) -> None:
    """Take torch's flags out of a group, and refuse those that change what is computed."""
    for flag in REFUSED:
        if flag in OPTIMIZERS[name].hyper._fields:
            continue
        if _flag(where, flag, found.pop(flag, False)):
            raise Rejected(f"{where}: {flag} is set, and {name} here has no such thing")
    key, own = "decoupled_weight_decay", OPTIMIZERS[name].decoupled
    if _flag(where, key, found.pop(key, own)) != own:
        raise Rejected(
            f"{where}: {key} is the difference between adam and adamw; this group is of the other "
            f"one, not of {name}"
        )


def _flag(where: str, flag: str, value: Any) -> bool:
    if value is not None and not isinstance(value, bool):
        raise Rejected(f"{where}: {flag} is True or False, got {value!r}")
    return bool(value)


def _members(session: Session, groups: Sequence[Mapping[str, Any]]) -> list[list[Param]]:
    """Find each group's parameters, by name where there are names, else by position."""
    for number_of, group in enumerate(groups):
        names = group.get("param_names", group["params"])
        if not is_row(names):
            raise Rejected(
                f"from_torch: group {number_of}: param_names are a list, got {type(names).__name__}"
            )
        if len(names) != len(group["params"]):
            raise Rejected(f"from_torch: group {number_of} has not one name for each parameter")
    if groups and all("param_names" in group for group in groups):
        return _by_name(session, [list(group["param_names"]) for group in groups])
    sizes = [len(group["params"]) for group in groups]
    if sum(sizes) != len(session.params):
        raise Rejected(
            f"from_torch: the session has {len(session.params)} parameters, got {sum(sizes)}"
        )
    left = iter(session.params)
    return [[next(left) for _ in range(size)] for size in sizes]


def _by_name(session: Session, groups: list[list[Any]]) -> list[list[Param]]:
    """Find parameters by their names: all that are trained, each once, and no other."""
    known = {p.name: p for p in session.params}
    names = [name for group in groups for name in group]
    strange = [name for name in names if not isinstance(name, str) or name not in known]
    absent = [p.name for p in session.params if p.requires_grad and p.name not in names]
    if strange or absent or len(set(names)) != len(names):
        raise Rejected(f"from_torch: the session has {list(known)}, got the names {names}")
    return [[known[name] for name in group] for group in groups]


def _state(name: str, parameter: Param, state: Any, hyper: Hyper) -> dict[str, Tensor | int]:
    """Read one parameter's state, which tells nothing before the first update."""
    rule, owner = OPTIMIZERS[name], Owner("from_torch", repr(parameter.name))
    found = read(owner, rule, parameter.shape, state, hyper)
    if found is None or not found.age:
        return {}
    pairs = zip(rule.states, found.tensors, strict=True)
    moments = {name: tensor for name, tensor in pairs if tensor is not None}
    return {**moments, **({"step": found.age} if rule.counted else {})}
