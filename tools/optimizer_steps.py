"""Writes what the optimizers' pages say of steps: the methods of sessions, lists and trainers.

Each of the three kinds of method has one template; the pages give names, defaults and types.
"""

from __future__ import annotations

import importlib
import textwrap
import typing
from dataclasses import dataclass
from typing import Any

HEADER = '''"""The steps of sessions, parameter lists and trainers: one method per optimizer.

Written by tools/generate_protocols.py from the pages in {package}/optim; do not edit.
{example}"""

# This file is longer than the guide because it has three methods for each optimizer.

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from {groups} import Groups

B = TypeVar("B")
G = TypeVar("G")
V = TypeVar("V")
'''

SESSIONS = '''

class SessionSteps(ABC, Generic[G]):
    """The steps of a session, by gradients of type G, each with the page's hyper-parameters."""

    @abstractmethod
    def _update(
        self,
        name: str,
        hyper: dict[str, Any],
        grads: G,
        groups: Groups,
        max_norm: float | None,
        grad_scale: float,
        max_value: float | None,
    ) -> None:
        """Update by the optimizer of this name; `hyper` has all of its hyper-parameters."""
'''

LISTS = '''

class ListSteps(ABC, Generic[G]):
    """The steps of a list of parameters, by gradients in a list of type G."""

    @abstractmethod
    def _update(self, name: str, gradients: G, hyper: dict[str, Any]) -> None:
        """Update by the optimizer of this name."""
'''

TRAINERS = '''

class TrainerSteps(ABC, Generic[B, V]):
    """The steps of a trainer, by batches of type B; a loss is of type V."""

    @abstractmethod
    def _update(
        self, name: str, inputs: B, hyper: dict[str, Any], with_loss: bool
    ) -> V | None:
        """Update by the optimizer of this name; return the loss before it if asked to."""
'''


def type_written(hint: Any) -> str:
    """Spell the type of a hyper-parameter as source."""
    return hint.__name__ if isinstance(hint, type) else str(hint)


@dataclass(frozen=True)
class Says:
    """What the methods of one package promise, and where its `Groups` are."""

    groups: str
    session: str
    list: str
    trainer: str
    example: str = ""


EXAMPLE = """
>>> from spec.optim import OPTIMIZERS
>>> all(f"{name}_step" in vars(SessionSteps) for name in OPTIMIZERS)
True
"""

SAYS = {
    "spec": Says(
        "spec.optim._groups",
        "`grads` are by leaf id, sparse or dense, each of its parameter's shape, frozen or not. "
        "Values and states are replaced, all or none: what does not fit is Rejected, and nothing "
        "has changed. Each optimizer has its own state of a parameter, apart from all others.",
        "None stands for a parameter that the loss did not reach. The session's record is left "
        "alone. Another count or shape is Rejected, of a frozen parameter too.",
        "Hyper-parameters are the session's `{name}_step`'s; schedules, groups and refusals are "
        "those of `step`. Return the loss before it if asked to.",
        EXAMPLE,
    ),
    "fast": Says(
        "fast.optim._rule",
        "`grads` are what `backward` or `backward_dense` returned, or host data or buffers by leaf "
        "id of the present tape, in a mapping or a sequence: each of its parameter's shape, or "
        "None where the loss did not reach. They stay the caller's. What does not fit is Rejected, "
        "of another session SessionError, released Released: then nothing at all is written. The "
        "session owns the state, of the parameter's shape and dtype, apart from every other "
        "optimizer's.",
        "They are host data or buffers, and stay the caller's; None stands for a parameter that "
        "the loss did not reach. The session's tape is left alone. Gradients are dense numbers of "
        "their parameter's shape, those of frozen parameters too; what does not fit, and "
        "hyper-parameters that the session refuses, are Rejected, and a buffer that was released "
        "raises Released.",
        "Hyper-parameters are the session's `{name}_step`'s; schedules, groups and refusals are "
        "those of `step`. The loss before it is downloaded and returned only if it is asked for.",
    ),
}


def render(package: str) -> str:
    """Write the file of one package."""
    pages = importlib.import_module(f"{package}.optim").OPTIMIZERS
    says = SAYS[package]
    parts = [HEADER.format(package=package, groups=says.groups, example=says.example)]
    for head, method in ((SESSIONS, _session), (LISTS, _list), (TRAINERS, _trainer)):
        parts += [head, *(method(package, page, says) for page in pages.values())]
    return "".join(parts)


def _session(package: str, page: Any, says: Says) -> str:
    """Write a session's step: what is required comes first, and so do the gradients then."""
    types, defaults = typing.get_type_hints(page.hyper), page.defaults
    every = {
        name: f"{name}: {type_written(types[name])}"
        + (f" = {defaults[name]!r}" if name in defaults else "")
        for name in page.arguments
    }
    first = [every[name] for name in page.required]
    rest = [text for name, text in every.items() if name not in page.required]
    order = [*first, "grads: G", "*", *rest] if first else [*rest, "*", "grads: G"]
    limits = ("max_norm: float | None = None", "grad_scale: float = 1.0")
    order += ("groups: Groups = None", *limits, "max_value: float | None = None")
    hyper = ", ".join(f'"{name}": {name}' for name in page.arguments)
    name = _name(package, page)
    about = f"Update every trainable parameter that the gradients reach, once, by {name}."
    body = [
        f"hyper: dict[str, Any] = {{{hyper}}}",
        f'self._update("{page.name}", hyper, grads, groups, max_norm, grad_scale, max_value)',
    ]
    return _method(page, order, "None", (about, says.session), body)


def _list(package: str, page: Any, says: Says) -> str:
    """Write the step of a list: what is required comes first, all else is the session's."""
    types = typing.get_type_hints(page.hyper)
    first = [f"{name}: {type_written(types[name])}" for name in page.required]
    hyper = "".join(f'"{name}": {name}, ' for name in page.required)
    given = f"{{{hyper}**hyper}}" if hyper else "hyper"
    about = f"Update by {_name(package, page)}, by one gradient per parameter, all or none."
    body = [f'self._update("{page.name}", gradients, {given})']
    order = [*first, "gradients: G", "**hyper: Any"]
    return _method(page, order, "None", (about, says.list), body)


def _trainer(package: str, page: Any, says: Says) -> str:
    """Write a trainer's step: the hyper-parameters are the session's."""
    order = ["inputs: B", "*", "with_loss: bool = False", "**hyper: Any"]
    about = f"Take one step by {_name(package, page)}."
    body = [f'return self._update("{page.name}", inputs, hyper, with_loss)']
    return _method(page, order, "V | None", (about, says.trainer.format(name=page.name)), body)


def _method(
    page: Any, order: list[str], result: str, about: tuple[str, str], body: list[str]
) -> str:
    lines = "".join(f"        {argument},\n" for argument in ["self", *order])
    if order[-1].startswith("**"):
        lines = lines.removesuffix(",\n") + "\n"
    said = textwrap.fill(about[1], 100, initial_indent=" " * 8, subsequent_indent=" " * 8)
    code = "".join(f"        {line}\n" for line in body)
    return (
        f"\n    def {page.name}_step(\n{lines}    ) -> {result}:\n"
        f'        """{about[0]}\n\n{said}\n        """\n{code}'
    )


def _name(package: str, page: Any) -> str:
    return f"{package}.optim.{page.name}"
