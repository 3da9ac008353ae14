"""What a session holds beyond its tape: parameters, buffers, optimizer state, random counter.

Read it, check it against a session, write it into one. Entries are named as in a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fast.compiled.session import CompiledSession
from fast.device.named import NamedBuffer
from fast.errors import Rejected
from fast.optim import OPTIMIZERS
from fast.optim._flat import Kept
from fast.optim._rule import Rule
from fast.optim._rule import grouped as groups_of
from fast.optim._state import MOST_STEPS
from fast.runtime.param import Param
from fast.session import Session

Hyper = dict[str, float | bool]


class Held(NamedTuple):
    """What an optimizer holds for a parameter: state, and the hyper-parameters last used on it.

    The state is empty before the first update, and with rules that keep none.
    """

    state: dict[str, Tensor | int]
    hyper: Hyper | None


@dataclass(frozen=True)
class Contents:
    """Everything, by the names of parameters, optimizers and buffers; tensors are on the host."""

    values: dict[str, Tensor]
    trainable: dict[str, bool]
    optimizers: dict[str, dict[str, Held]]
    random_counter: int
    buffers: dict[str, Tensor]
    threads: int | None
    """Torch's threads, where ops run on a CPU; None where nobody knows them."""
    engines: tuple[tuple[str, int], ...]


def grouped(hypers: Iterable[tuple[str, Hyper | None]]) -> list[tuple[Hyper, list[str]]]:
    """Put the parameters whose hyper-parameters are known and equal together, in their order."""
    groups: list[tuple[Hyper, list[str]]] = []
    for owner, hyper in hypers:
        if hyper is None:
            continue
        for known, members in groups:
            if known == hyper:
                members.append(owner)
                break
        else:
            groups.append((hyper, [owner]))
    return groups


def read(session: Session) -> Contents:
    """Copy to the host what a session holds; a set error flag raises instead."""
    session.check_flag()
    optimizers = {}
    for name in session.optimizers:
        held = {p.name: _held(session, name, p) for p in session.params}
        kept = {owner: entry for owner, entry in held.items() if entry != ({}, None)}
        if kept:
            optimizers[name] = kept
    return Contents(
        {p.name: p.value() for p in session.params},
        {p.name: p.requires_grad for p in session.params},
        optimizers,
        session.random_counter,
        {buffer.name: buffer.value() for buffer in session.buffers},
        threads_of(session),
        session.engines if isinstance(session, CompiledSession) else (),
    )


def threads_of(session: Session) -> int | None:
    """Return the number of threads on which the order of a session's sums may depend."""
    return torch.get_num_threads() if session.options.device.type == "cpu" else None


def write(session: Session, contents: Contents) -> None:
    """Replace what a session holds; the contents have been checked against it."""
    for parameter in session.params:
        parameter.set(contents.values[parameter.name])
        parameter.requires_grad = contents.trainable[parameter.name]
    for buffer in session.buffers:
        buffer.set(contents.buffers[buffer.name])
    for name in {**session.optimizers, **contents.optimizers}:
        write_optimizer(session, name, contents.optimizers.get(name, {}))
    session.random_counter = contents.random_counter
    if isinstance(session, CompiledSession):
        session.engines = contents.engines


def write_optimizer(session: Session, name: str, holders: Mapping[str, Held]) -> None:
    """Replace what one optimizer holds; parameters that are not mentioned start afresh."""
    rule = OPTIMIZERS[name]
    none = dict.fromkeys(rule.states)
    fresh = {**none, **({"step": 0} if rule.counted else {})}
    for parameter in session.params:
        state, hyper = holders.get(parameter.name, Held({}, None))
        session.load_optimizer_state(name, parameter, {**none, **state} if state else fresh, hyper)


class _Value(NamedTuple):
    """A parameter as it was: a load gives it another host tensor, and does not write the mirror."""

    host: Tensor
    host_current: bool
    mirror_current: bool
    version: int
    requires_grad: bool


@contextmanager
def all_or_nothing(session: Session) -> Iterator[None]:
    """Put back what the session held, bit for bit, if the block is left by an exception.

    By then there is nothing left to refuse: memory has run out, or somebody pressed Ctrl-C. What
    was held is not checked, for it may be what no checkpoint takes, such as moments with NaN.
    """
    values = [
        _Value(p._host, p.host_current, p.mirror_current, p.version, p.requires_grad)
        for p in session.params
    ]
    optimizers = {name: optimizer.keep() for name, optimizer in session.optimizers.items()}
    counter = session.random_counter
    held = [(buffer, buffer.contents) for buffer in session.buffers]
    engines = session.engines if isinstance(session, CompiledSession) else ()
    try:
        yield
    except BaseException:
        _put_back(session, values, optimizers)
        for buffer, before in held:
            buffer.replace(before)
        session.random_counter = counter
        if isinstance(session, CompiledSession):
            session.engines = engines
        raise


def _put_back(session: Session, values: list[_Value], optimizers: Mapping[str, Kept]) -> None:
    for parameter, before in zip(session.params, values, strict=True):
        parameter._host = before.host
        parameter.host_current = before.host_current
        parameter.mirror_current = before.mirror_current
        parameter.version = before.version
        parameter.requires_grad = before.requires_grad
    for name in [*session.optimizers]:
        if name in optimizers:
            session.optimizers[name].put_back(optimizers[name])
        else:
            del session.optimizers[name]


def check_states(name: str, holders: Mapping[str, Held]) -> None:
    """Refuse numbers in an optimizer's state that no update can go on from, naming the entry."""
    for owner, (state, _) in holders.items():
        for field, value in state.items():
            entry = f"state/{name}/{owner}/{field}"
            if not isinstance(value, Tensor):
                _check_count(entry, value)
            elif not value.isfinite().all():
                raise Rejected(f"{entry}: every number is finite, and one is not")
            elif field in OPTIMIZERS[name].squares and (value < 0).any():
                raise Rejected(f"{entry}: a mean of squares is not below 0, and an entry is")


def _check_count(entry: str, steps: int) -> None:
    if steps < 1:
        raise Rejected(f"{entry}: a state was made by at least 1 step, got {steps}")
    if steps > MOST_STEPS:
        raise Rejected(f"{entry}: at most {MOST_STEPS} steps are counted, got {steps}")


def check_optimizer(session: Session, name: str, holders: Mapping[str, Held]) -> None:
    """Refuse state that does not fit the session's parameters, naming the entry."""
    for parameter in session.params:
        if parameter.name in holders:
            for field, value in holders[parameter.name].state.items():
                if isinstance(value, Tensor):
                    check_like(f"state/{name}/{parameter.name}/{field}", value, parameter)
    check_states(name, holders)


def check(session: Session, contents: Contents, expected: Any) -> None:
    """Refuse contents that the session cannot take on whole, naming the entry."""
    _check_names("param", contents.values, {p.name: p for p in session.params})
    _check_names("buffer", contents.buffers, {b.name: b for b in session.buffers})
    wanted = _wanted(session, expected)
    for name, holders in contents.optimizers.items():
        check_optimizer(session, name, holders)
        _check_hyper(session, name, holders, wanted.get(name))


def _check_names(
    kind: str, values: Mapping[str, Tensor], known: Mapping[str, Param | NamedBuffer]
) -> None:
    """Refuse values of which one is missing, unknown, or unlike what the session has there."""
    has = f"the session has {list(known)}, and the file {list(values)}"
    for name in known:
        if name not in values:
            raise Rejected(f"{kind}/{name}: missing; {has}")
    for name, value in values.items():
        if name not in known:
            raise Rejected(f"{kind}/{name}: unknown; {has}")
        check_like(f"{kind}/{name}", value, known[name])


def _wanted(session: Session, expected: Any) -> dict[str, dict[str, Hyper]]:
    """Read what a program goes on with, with defaults and groups: by optimizer and parameter."""
    if not isinstance(expected, Mapping):
        raise Rejected(
            "optimizers: hyper-parameters by the names of optimizers are needed, got "
            f"{type(expected).__name__}"
        )
    found: dict[str, dict[str, Hyper]] = {}
    for name, hyper in expected.items():
        if name not in OPTIMIZERS:
            raise Rejected(f"optimizers: there is no {name!r}; there are {list(OPTIMIZERS)}")
        try:
            found[name] = _by_parameter(session, OPTIMIZERS[name], hyper)
        except Rejected as error:
            raise Rejected(f"optimizers/{error}") from error
    return found


def _by_parameter(session: Session, rule: Rule, hyper: Any) -> dict[str, Hyper]:
    """Return the hyper-parameters of every parameter, as a step with these arguments takes them."""
    if not isinstance(hyper, Mapping):
        rule.read(hyper)  # refuses it
    usual = {"lr": 0.0, **hyper}
    groups = usual.pop("groups", None)
    hypers, group_of = groups_of(rule, usual, groups, len(session.params), session._slot)
    slots = zip(session.params, group_of, strict=True)
    return {parameter.name: hypers[group]._asdict() for parameter, group in slots}


def check_like(entry: str, value: Tensor, held: Param | NamedBuffer) -> None:
    """Refuse a tensor that differs from a parameter, or a buffer, in shape or dtype."""
    if tuple(value.shape) != held.shape or value.dtype is not held.dtype:
        kind = "parameter" if isinstance(held, Param) else "buffer"
        raise Rejected(
            f"{entry}: the session's {kind} is {held.dtype} of shape {held.shape}, "
            f"got {value.dtype} of shape {tuple(value.shape)}"
        )


def _held(session: Session, name: str, parameter: Param) -> Held:
    state = session.optimizer_state(name, parameter)
    fresh = state.get("step") == 0 or state[OPTIMIZERS[name].states[0]] is None
    kept = {field: value for field, value in state.items() if value is not None}
    return Held({} if fresh else kept, session.optimizer_hyper(name, parameter))


def _check_hyper(
    session: Session, name: str, holders: Mapping[str, Held], wanted: Mapping[str, Hyper] | None
) -> None:
    """Refuse other hyper-parameters than the program's; the learning rate may always differ."""
    rule = OPTIMIZERS[name]
    for parameter in session.params:
        found = holders.get(parameter.name, Held({}, None)).hyper
        known = None if wanted is None else wanted[parameter.name]
        if known is None and name in session.optimizers:
            known = session.optimizer_hyper(name, parameter)
        if found is None or known is None:
            continue
        for field in rule.hyper._fields:
            if field != "lr" and found[field] != known[field]:
                raise Rejected(
                    f"optimizers/{name}/{parameter.name}/{field}: made with {found[field]}, and "
                    f"the session goes on with {known[field]}"
                )
