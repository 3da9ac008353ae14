"""Writes the classes of `fast.torch`: one for each optimizer whose page is offered there.

Where torch has the same optimizer, the arguments are those of torch's class, in its order and with
its defaults, and hyper-parameters that only the page has; else they are the page's.
"""

from __future__ import annotations

import importlib
import inspect
import typing
from typing import Any

import torch

from fast.optim._hypers import JOINED, NOT_OF_TORCH, joined
from tools.optimizer_steps import type_written

HEADER = '''"""The optimizers as classes with torch's arguments, each of a page in fast.optim.

Written by tools/generate_protocols.py; do not edit.
"""

from __future__ import annotations

from fast.optim import OPTIMIZERS
from fast.torch._optimizers import Params, TorchOptimizer

__all__ = {names}
'''

FLAGS = {False: "bool", None: "bool | None"}
"""The type of a flag of torch's, by its default."""


def render(package: str) -> str:
    """Write the file."""
    rules = importlib.import_module(f"{package}.optim").OPTIMIZERS.values()
    offered = [rule for rule in rules if rule.offered]
    names = ", ".join(
        f'"{name}"'
        for name in sorted((r.offered for r in offered), key=lambda n: (not n.isupper(), n))
    )
    return HEADER.format(names=f"[{names}]") + "".join(map(_class, offered))


def _class(rule: Any) -> str:
    types, (positional, flags) = _types(rule), _arguments(rule)
    kinds = [
        _written(name, types.get(name) or FLAGS[default], default)
        for name, default in positional.items()
    ]
    kinds += [
        "*",
        *(_written(n, types.get(n) or FLAGS[default], default) for n, default in flags.items()),
    ]
    arguments = ", ".join(["self", "params: Params", *kinds, "provider: str | None = None"])
    pairs = ", ".join(
        f'"{name}": {text}' for name, text in _group(rule, [*positional, *flags]).items()
    )
    origin = f"torch.optim.{rule.offered}'s" if rule.torch else "its page's"
    more = "".join(f", and {name}" for name in _own(rule))
    return f'''

class {rule.offered}(TorchOptimizer):
    """The optimizer of fast.optim.{rule.name}, with {origin} arguments{more}."""

    rule = OPTIMIZERS["{rule.name}"]

    def __init__({arguments}) -> None:
        defaults = {{{pairs}}}
        super().__init__(params, defaults, provider)
'''


def _types(rule: Any) -> dict[str, str]:
    """Return the types of hyper-parameters, and of torch's tuples; other ones are flags."""
    hints = typing.get_type_hints(rule.hyper)
    tuples = {name: f"tuple[{', '.join('float' for _ in of)}]" for name, of in JOINED.items()}
    return {**tuples, **{name: type_written(hint) for name, hint in hints.items()}}


def _written(name: str, kind: str, default: Any) -> str:
    """Write an argument; None is the default of a flag, and what is empty has none."""
    return f"{name}: {kind}" + ("" if default is inspect.Parameter.empty else f" = {default!r}")


def _arguments(rule: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments with their defaults: those by position, and the flags by keyword."""
    if rule.torch is None:
        empty = inspect.Parameter.empty
        given = {name: rule.defaults.get(name, empty) for name in (*rule.required, *rule.arguments)}
        return joined(given), {}
    parameters = [*inspect.signature(rule.torch.__init__).parameters.values()][2:]
    types = _types(rule)
    every = {p.name: float(p.default) if types.get(p.name) == "float" else p.default
             for p in parameters}  # fmt: skip
    flags = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    return (
        {name: default for name, default in every.items() if name not in flags},
        {**{name: every[name] for name in every if name in flags}, **_own(rule)},
    )


def _own(rule: Any) -> dict[str, Any]:
    """Return the hyper-parameters that torch's class lacks, with their defaults."""
    lacking = NOT_OF_TORCH if rule.torch else ()
    return {name: value for name, value in rule.defaults.items() if name in lacking}


def _group(rule: Any, names: list[str]) -> dict[str, str]:
    """Return what a group of the optimizer has: its arguments, and torch's constants."""
    constants = {} if rule.torch is None else rule.torch([torch.empty(0, 0)]).defaults
    return {
        **{name: name for name in names},
        **{name: repr(value) for name, value in constants.items() if name not in names},
    }
