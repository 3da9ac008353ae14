"""What an optimizer for torch may be given: groups, parameters and states, each read or refused.

Nothing here writes. `who` begins every message: the class, and the group where there is one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from fast.errors import Rejected
from fast.optim._functional import Functional
from fast.optim._hypers import TORCH_NAMES, parted
from fast.optim._rule import Rule
from fast.optim._state import Owner, State, read

UNSUPPORTED = ("amsgrad", "maximize", "capturable", "differentiable", "foreach", "fused")
"""The flags of torch's classes that are refused where they are set and the rule has none."""

COMMON = UNSUPPORTED[1:]
"""Those of them that torch's optimizers of every family have."""

HOW = ("foreach", "fused")
"""Those of them that say only how torch computes: a state that torch made may have them."""

NUMBERS = frozenset((float, int, bool, str, type(None)))
"""What nobody changes in place; a tensor of one entry is read anew at each step."""

NOTES = (
    "params", "param_names", "initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum",
    "swa_lr",
)  # fmt: skip
"""What torch and its schedules keep in a group beside hyper-parameters and flags."""


@cache
def names(rule: Rule) -> tuple[str, ...]:
    """Name a rule's hyper-parameters as torch does, with tuples of those that it joins."""
    found = (TORCH_NAMES.get(name, name) for name in rule.hyper._fields)
    return tuple(dict.fromkeys(found))


@cache
def telling(rule: Rule) -> tuple[str, ...]:
    """Name the flags that torch's optimizers of one family have in their groups, and others not."""
    known = (*names(rule), *COMMON)
    group = {} if rule.torch is None else rule.torch([torch.empty(0, 0)]).defaults
    return tuple(key for key in group if key not in known)


def check_flags(who: str, group: Mapping[str, Any], rule: Rule) -> None:
    """Refuse a flag that would change what is computed, or how torch computes it."""
    decoupled = rule.decoupled
    for flag in UNSUPPORTED:
        if flag not in rule.hyper._fields and group.get(flag):
            raise Rejected(
                f"{who}: {flag}={group[flag]!r} is not supported; leave it out, or use the "
                "optimizer of torch.optim"
            )
    if group.get("decoupled_weight_decay", decoupled) != decoupled:
        raise Rejected(
            f"{who}: decoupled_weight_decay is {decoupled} here, it is the difference between Adam "
            f"and AdamW; use fast.torch.{'Adam' if decoupled else 'AdamW'}"
        )


def read_hyper(who: str, rule: Rule, group: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group's hyper-parameters as the rule names them; each of them must be there."""
    need(who, group, names(rule))
    found = parted(who, {name: group[name] for name in names(rule)})
    rule.read(found)
    return found


def stays(value: Any) -> bool:
    """Say whether nobody can change a value where it lies, as a tensor can be."""
    return type(value) in NUMBERS or (type(value) is tuple and all(map(stays, value)))


def need(who: str, group: Mapping[str, Any], keys: Sequence[str]) -> None:
    """Refuse a group without one of the keys."""
    missing = [key for key in keys if key not in group]
    if missing:
        raise Rejected(f"{who} has {list(keys)}; missing: {missing}")


def check_loaded_keys(
    who: str, group: Mapping[str, Any], needed: Sequence[str], own: Collection[str]
) -> None:
    """Refuse a group that another algorithm's optimizer has made.

    `needed` are the keys that tell this one from others; `own` are those that its group has now.
    """
    need(who, group, needed)
    strange = [key for key in group if key not in own and key not in NOTES]
    if strange:
        raise Rejected(
            f"{who} has {list(needed)}, torch's flags, and what the optimizer's own group has; "
            f"unknown: {strange}, which another algorithm may mean"
        )


def check_params(
    who: str, rule: Rule, params: Sequence[Tensor], hyper: Mapping[str, Any], provider: str
) -> None:
    """Refuse parameters that no step could update: their dtypes, layouts and devices.

    Raises `Unavailable` for a dtype that the provider does not take, `Rejected` for the others.
    """
    seen: dict[int, int] = {}
    for k, param in enumerate(params):
        if param.layout is not torch.strided:
            raise Rejected(f"{who}: parameter {k} is dense, got {param.layout}")
        rule.need_matrix(f"parameter {k} of {who}", param.shape)
        if id(param) in seen:
            raise Rejected(f"{who}: parameter {k} is parameter {seen[id(param)]} again")
        seen[id(param)] = k
    devices = sorted({str(param.device) for param in params})
    if len(devices) > 1:
        raise Rejected(
            f"{who}: the parameters of a group are on one device, got {' and '.join(devices)}; "
            "give each device a group of its own"
        )
    like = (0, 0) if rule.matrices else (0,)
    Functional(rule, [torch.empty(like, dtype=param.dtype) for param in params], hyper, provider)


def check_writable(who: str, params: Sequence[Tensor]) -> None:
    """Refuse parameters that a copy cannot be written to: elements that share memory."""
    if contiguous(params):
        return
    for k, param in enumerate(params):
        if not param.is_contiguous() and not _apart(param):
            raise Rejected(
                f"{who}: the elements of parameter {k} share memory: its shape is "
                f"{tuple(param.shape)} and its strides are {param.stride()}; give it a clone"
            )


def contiguous(tensors: Iterable[Tensor]) -> bool:
    """Say whether all tensors are contiguous; no line of Python is run for one of them."""
    return all(map(Tensor.is_contiguous, tensors))


def _apart(tensor: Tensor) -> bool:
    """Say whether each axis steps over all that the axes of smaller strides reach."""
    reached = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride <= reached:
                return False
            reached += stride * (size - 1)
    return True


def read_state(
    who: str, rule: Rule, k: int, param: Tensor, state: Any, hyper: Mapping[str, Any]
) -> State | None:
    """Read the state of parameter k, or return None if it has none yet.

    Numbers that are not finite are taken as they are, as torch does. Raises `Rejected` for fields
    that are not the rule's, moments that are no dense tensor of the parameter's shape, and counts
    that are no counts.
    """
    return read(Owner(who, f"parameter {k}"), rule, param.shape, state, hyper)
