"""The schema of a checkpoint: the names of its tensors, and the description that lists them.

Every tensor is named by the description and every name has its tensor, so that nothing can be
missing, or be there and be ignored. Floats are written in hexadecimal and come back as they were.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from fast.checkpoint.sealed import read_json
from fast.checkpoint.snapshot import Contents, Held, Hyper, grouped
from fast.errors import Rejected
from fast.optim import OPTIMIZERS
from fast.optim._state import fields, told

ENTRY = "contents"
"""The description, which is a key of the file's metadata."""

PARTS = ("requires_grad", "optimizers", "random_counter", "extra")
BUFFERS = "buffers"
"""The part that lists buffers: there in a file of a session that has any, and in no other."""

THREADS = "threads"
"""The part with the number of torch's threads: there where ops have run on a CPU."""
ENGINES = "engines"
"""The part with the engines that took the updates: there where the engine is "auto"."""
MAY_LACK = frozenset((BUFFERS, THREADS, ENGINES))

OF_AN_OPTIMIZER = ("fields", "with_state", "groups")
KEPT: dict[type, tuple[type, ...]] = {int: (int,), str: (str, type(None))}
"""What stands in a file as it is where a hyper-parameter is a count or a word."""

OF_A_GROUP = ("hyper", "parameters")


def tensors(contents: Contents) -> dict[str, Tensor]:
    """Name every tensor of a checkpoint; step counts are integers."""
    found = {f"param/{name}": value for name, value in contents.values.items()}
    found |= {f"buffer/{name}": value for name, value in contents.buffers.items()}
    for name, holders in contents.optimizers.items():
        for owner, (state, _) in holders.items():
            for field, value in state.items():
                found[f"state/{name}/{owner}/{field}"] = torch.as_tensor(value)
    return found


def write(contents: Contents, extra: Any) -> str:
    """Describe everything that is no tensor; what could not be read again is Rejected."""
    if not isinstance(extra, Mapping):
        raise Rejected(f"extra: a mapping is needed, got {type(extra).__name__}")
    for key, value in extra.items():
        if not isinstance(key, str) or type(value) not in (int, float, str):
            raise Rejected(f"extra/{key}: an int, a float or a str is needed, got {value!r}")
        _check_digits(key, value)
    description: dict[str, Any] = {
        "requires_grad": contents.trainable,
        "optimizers": {name: _optimizer(name, h) for name, h in contents.optimizers.items()},
        "random_counter": contents.random_counter,
        "extra": {key: _plain(value) for key, value in extra.items()},
    }
    if contents.buffers:
        description[BUFFERS] = list(contents.buffers)
    if contents.threads is not None:
        description[THREADS] = contents.threads
    if contents.engines:
        description[ENGINES] = contents.engines
    return json.dumps(description)


def _check_digits(key: str, value: int | float | str) -> None:
    try:
        str(value)
    except ValueError as error:
        raise Rejected(
            f"extra/{key}: an int of more digits than Python reads, which is "
            f"{sys.get_int_max_str_digits()}; write it as a str in hexadecimal"
        ) from error


def read(text: str, tensors: Mapping[str, Tensor]) -> tuple[Contents, dict[str, Any]]:
    """Put a description and its tensors together again, or refuse, naming the entry."""
    document = _parse(text)
    if set(document) - MAY_LACK != set(PARTS):
        raise Rejected(
            f"{ENTRY}: the parts are {list(PARTS)} and, where there is something to say, "
            f"{sorted(MAY_LACK)}; got {sorted(document)}"
        )
    trainable = _typed(document["requires_grad"], dict, "requires_grad")
    for name, flag in trainable.items():
        _typed(flag, bool, f"requires_grad/{name}")
    left = dict(tensors)
    values = {name: _take(left, f"param/{name}") for name in trainable}
    buffers: dict[str, Tensor] = {}
    for name in _typed(document.get(BUFFERS, []), list, BUFFERS):
        entry = f"{BUFFERS}/{_typed(name, str, BUFFERS)}"
        if name in buffers:
            raise Rejected(f"{entry}: it is listed twice")
        buffers[name] = _take(left, f"buffer/{name}")
    optimizers = {}
    for name, part in _typed(document["optimizers"], dict, "optimizers").items():
        optimizers[name] = _holders(name, part, trainable, left)
    if left:
        raise Rejected(f"{min(left)}: unknown; the description does not list it")
    counter = _typed(document["random_counter"], int, "random_counter")
    if not 0 <= counter < 2**64:
        raise Rejected(f"random_counter: it lies in [0, 2^64), got {counter}")
    extra = _typed(document["extra"], dict, "extra")
    numbers = {key: _number(value, f"extra/{key}", (int, str)) for key, value in extra.items()}
    threads, engines = _threads(document.get(THREADS)), _engines(document.get(ENGINES, []))
    return Contents(values, trainable, optimizers, counter, buffers, threads, engines), numbers


def _threads(found: Any) -> int | None:
    if found is not None and _typed(found, int, THREADS) < 1:
        raise Rejected(f"{THREADS}: a number of threads is at least 1, got {found}")
    return found  # type: ignore[no-any-return]


def _engines(found: Any) -> tuple[tuple[str, int], ...]:
    turns = []
    for turn in _typed(found, list, ENGINES):
        if [*map(type, _typed(turn, list, ENGINES))] != [str, int] or turn[1] < 1:
            raise Rejected(f"{ENGINES}: a turn is a name and a number of updates, got {turn}")
        turns.append((turn[0], turn[1]))
    return tuple(turns)


def _optimizer(name: str, holders: Mapping[str, Held]) -> dict[str, Any]:
    """Describe an optimizer; parameters with equal hyper-parameters are listed together."""
    groups = grouped((owner, hyper) for owner, (_, hyper) in holders.items())
    there = {field for state, _ in holders.values() for field in state}
    return {
        "fields": _fields(name, there),
        "with_state": [owner for owner, (state, _) in holders.items() if state],
        "groups": [
            {"hyper": {k: _plain(v) for k, v in hyper.items()}, "parameters": members}
            for hyper, members in groups
        ],
    }


def _fields(name: str, there: Collection[Any]) -> list[str]:
    """List the fields of a state, and of the optional ones those that are there."""
    rule = OPTIMIZERS[name]
    return [field for field in fields(rule) if field not in rule.optional or field in there]


def _holders(
    name: str, part: Any, known: Mapping[str, bool], left: dict[str, Tensor]
) -> dict[str, Held]:
    entry = f"optimizers/{name}"
    if name not in OPTIMIZERS:
        raise Rejected(f"{entry}: there are {list(OPTIMIZERS)}")
    part = _known(part, OF_AN_OPTIMIZER, entry)
    given = part.get("fields")
    if not isinstance(given, list) or given != _fields(name, given):
        raise Rejected(f"{entry}/fields: a state has {told(OPTIMIZERS[name])}, got {given}")
    hypers = _hypers(name, part.get("groups"), known)
    owners = _names(part.get("with_state"), f"{entry}/with_state", known)
    states = {owner: _state(name, owner, left) for owner in owners}
    return {
        owner: Held(states.get(owner, {}), hypers.get(owner))
        for owner in known
        if owner in states or owner in hypers
    }


def _state(name: str, owner: str, left: dict[str, Tensor]) -> dict[str, Tensor | int]:
    state: dict[str, Tensor | int] = {}
    for field in fields(OPTIMIZERS[name]):
        entry = f"state/{name}/{owner}/{field}"
        if field in OPTIMIZERS[name].optional and entry not in left:
            continue
        value = _take(left, entry)
        if field != "step":
            state[field] = value
            continue
        if value.dtype is not torch.int64 or value.shape != ():
            raise Rejected(
                f"{entry}: a count is one int64, got {value.dtype} of shape {tuple(value.shape)}"
            )
        state[field] = int(value)
    return state


def _hypers(name: str, groups: Any, known: Mapping[str, bool]) -> dict[str, Hyper]:
    found: dict[str, Hyper] = {}
    for number, group in enumerate(_typed(groups, list, f"optimizers/{name}/groups")):
        entry = f"optimizers/{name}/groups/{number}"
        group = _known(group, OF_A_GROUP, entry)
        hyper = {
            key: _number(value, f"{entry}/{key}", KEPT.get(OPTIMIZERS[name].kind(key), (bool,)))
            for key, value in _typed(group.get("hyper"), dict, f"{entry}/hyper").items()
        }
        # A file may be older than a flag, which is off by default.
        hyper = {**OPTIMIZERS[name].flags, **hyper}
        if set(hyper) != set(OPTIMIZERS[name].hyper._fields):
            raise Rejected(
                f"{entry}/hyper: {list(OPTIMIZERS[name].hyper._fields)} are needed, "
                f"got {list(hyper)}"
            )
        try:
            OPTIMIZERS[name].read(hyper)
        except Rejected as error:
            raise Rejected(f"{entry}/hyper: {error}") from error
        for owner in _names(group.get("parameters"), f"{entry}/parameters", known):
            if owner in found:
                raise Rejected(f"{entry}/parameters: {owner!r} is in an earlier group too")
            found[owner] = hyper
    return found


def _names(value: Any, entry: str, known: Mapping[str, bool]) -> list[str]:
    found: dict[str, None] = {}
    for name in _typed(value, list, entry):
        if not isinstance(name, str) or name not in known:
            raise Rejected(f"{entry}: {name!r} is none of the parameters {list(known)}")
        if name in found:
            raise Rejected(f"{entry}: {name!r} stands there twice")
        found[name] = None
    return list(found)


def _take(left: dict[str, Tensor], entry: str) -> Tensor:
    if entry not in left:
        raise Rejected(f"{entry}: missing; the description lists it")
    return left.pop(entry)


def _parse(text: str) -> dict[str, Any]:
    try:
        found = read_json(text, ENTRY)
    except Rejected:
        raise
    except (ValueError, RecursionError) as error:
        raise Rejected(f"{ENTRY}: is no JSON: {error}") from error
    document: dict[str, Any] = _typed(found, dict, ENTRY)
    return document


def _known(value: Any, parts: tuple[str, ...], entry: str) -> Any:
    """Return an object none of whose parts would be ignored."""
    found = _typed(value, dict, entry)
    if set(found) - set(parts):
        raise Rejected(f"{entry}: the parts are {list(parts)}, got {sorted(found)}")
    return found


def _typed(value: Any, kind: type, entry: str) -> Any:
    if type(value) is not kind:
        raise Rejected(f"{entry}: a JSON {kind.__name__} is needed, got {value!r}")
    return value


def _plain(value: bool | int | float | str) -> Any:
    return {"float": value.hex()} if isinstance(value, float) else value


def _number(value: Any, entry: str, others: tuple[type, ...]) -> Any:
    """Read what `_plain` wrote, letter by letter: a float, or one of the other types as it is."""
    if type(value) in others:
        return value
    text = _typed(_known(value, ("float",), entry).get("float"), str, entry)
    try:
        found = float.fromhex(text)
    except (ValueError, OverflowError):
        found = math.nan
    # Python reads "081.8p0", "1.8" and " inf" too, where one letter that was damaged is another.
    if found.hex() != text:
        raise Rejected(
            f"{entry}: a hexadecimal float is needed, as Python writes {(1.5).hex()}, got {text!r}"
        )
    return found
