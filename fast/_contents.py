"""What a session holds beyond its tape: parameters, optimizer state and the random counter.

Read it, check it against a session, write it into one. Entries are named as in a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from fast.errors import Rejected
from fast.optim import OPTIMIZERS, Rule
from fast.param import Param
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
    """Everything, by the names of parameters and optimizers; tensors are on the host."""

    values: dict[str, Tensor]
    trainable: dict[str, bool]
    optimizers: dict[str, dict[str, Held]]
    random_counter: int


def fields(rule: Rule) -> tuple[str, ...]:
    """Name the parts of a parameter's state under one rule."""
    return (*rule.states, *(("step",) if rule.counted else ()))


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
    )


def write(session: Session, contents: Contents) -> None:
    """Replace what a session holds; the contents have been checked against it."""
    for parameter in session.params:
        parameter.set(contents.values[parameter.name])
        parameter.requires_grad = contents.trainable[parameter.name]
    for name in {**session.optimizers, **contents.optimizers}:
        write_optimizer(session, name, contents.optimizers.get(name, {}))
    session.random_counter = contents.random_counter


def write_optimizer(session: Session, name: str, holders: Mapping[str, Held]) -> None:
    """Replace what one optimizer holds; parameters that are not mentioned start afresh."""
    rule = OPTIMIZERS[name]
    fresh = {**dict.fromkeys(rule.states), **({"step": 0} if rule.counted else {})}
    for parameter in session.params:
        state, hyper = holders.get(parameter.name, Held({}, None))
        session.load_optimizer_state(name, parameter, state or fresh, hyper)


@contextmanager
def all_or_nothing(session: Session) -> Iterator[None]:
    """Put back what the session held if the block is left by an exception.

    By then there is nothing left to refuse: memory has run out, or somebody pressed Ctrl-C.
    """
    before = read(session)
    try:
        yield
    except BaseException:
        write(session, before)
        raise


def check_states(name: str, holders: Mapping[str, Held]) -> None:
    """Refuse numbers in an optimizer's state that no update can go on from, naming the entry."""
    for owner, (state, _) in holders.items():
        for field, value in state.items():
            entry = f"state/{name}/{owner}/{field}"
            if not isinstance(value, Tensor):
                if value < 1:
                    raise Rejected(f"{entry}: a state was made by at least 1 step, got {value}")
            elif not value.isfinite().all():
                raise Rejected(f"{entry}: every number is finite, and one is not")


def check_optimizer(session: Session, name: str, holders: Mapping[str, Held]) -> None:
    """Refuse state that does not fit the session's parameters, naming the entry."""
    check_states(name, holders)
    for parameter in session.params:
        if parameter.name in holders:
            for field, value in holders[parameter.name].state.items():
                if isinstance(value, Tensor):
                    check_like(f"state/{name}/{parameter.name}/{field}", value, parameter)


def check(
    session: Session, contents: Contents, expected: Mapping[str, Mapping[str, float]]
) -> None:
    """Refuse contents that the session cannot take on whole, naming the entry."""
    known = {p.name: p for p in session.params}
    for name in known:
        if name not in contents.values:
            raise Rejected(f"param/{name}: missing; the session has {list(known)}")
    for name, value in contents.values.items():
        if name not in known:
            raise Rejected(f"param/{name}: unknown; the session has {list(known)}")
        check_like(f"param/{name}", value, known[name])
    for name in expected:
        if name not in OPTIMIZERS:
            raise Rejected(f"optimizers: there is no {name!r}; there are {list(OPTIMIZERS)}")
    for name, holders in contents.optimizers.items():
        check_optimizer(session, name, holders)
        _check_hyper(session, name, holders, expected.get(name))


def check_like(entry: str, value: Tensor, parameter: Param) -> None:
    """Refuse a tensor that differs from a parameter in shape or dtype."""
    if tuple(value.shape) != parameter.shape or value.dtype is not parameter.dtype:
        raise Rejected(
            f"{entry}: the session's parameter is {parameter.dtype} of shape {parameter.shape}, "
            f"got {value.dtype} of shape {tuple(value.shape)}"
        )


def _held(session: Session, name: str, parameter: Param) -> Held:
    state = session.optimizer_state(name, parameter)
    fresh = state.get("step") == 0 or any(value is None for value in state.values())
    return Held({} if fresh else state, session.optimizer_hyper(name, parameter))


def _check_hyper(
    session: Session, name: str, holders: Mapping[str, Held], expected: Mapping[str, float] | None
) -> None:
    """Refuse other hyper-parameters than the program's; the learning rate may always differ."""
    rule = OPTIMIZERS[name]
    wanted = None if expected is None else rule.read({"lr": 0.0, **expected})._asdict()
    for parameter in session.params:
        found = holders.get(parameter.name, Held({}, None)).hyper
        known = wanted
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
