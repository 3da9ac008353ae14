"""What a member of the population is: one implementation, and what is known about it.

`wrong` and `right` make a member of a function or of a class:

    @wrong("softmax value", "range", source="...")
    def maximum_forgotten(x: Tensor, axis: int = -1) -> Tensor:
        ...

A member for "softmax value" takes the op's inputs and attributes. One for "softmax vjp" takes the
cotangent first, a tuple where there are several results, and returns one gradient per input. One
for "softmax" takes what "softmax value" takes and is judged in both directions, its gradient being
torch's autograd through it.
A class that is called so, made anew for every row, stands for what remembers.
For an optimizer the class is a handle (`equivalence.backends.OptimizerHandle`). For "session"
the function returns a context manager, in which sessions of `fast` are wrong.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from equivalence.cases.declared.reading import Declaration
from spec.ops import OPS
from spec.optim import OPTIMIZERS

KINDS = (
    "aliasing",
    "dtype",
    "empty",
    "gradient",
    "layout",
    "lifetime",
    "non-finite",
    "optimizer",
    "part",
    "precision",
    "random",
    "range",
    "sizes",
    "structure",
    "ties",
    "value",
)
"""What members differ in: the classes by which the matrix counts."""

SESSION = "session"
"""What a member is of that is wrong between operations."""

OWN = "own reading"
"""The source of a mistake, or a difference, of which no report is known to us."""


@dataclass(frozen=True)
class Member:
    """One implementation: which row it takes over, and what is known about it.

    of               an op, an optimizer or SESSION; directions are those in which it is judged
    kind             the class of its mistake, or of its difference
    about            in a line, what is wrong or how it differs
    source           a report of such a mistake or a text about it, or else the habit that makes it;
                     where it is a link, mistakes of this class were reported there
    how              the implementation itself
    contract         what it declares beside the contract of torch (fields of a `Contract`)
    indistinguishable  why no result could show the mistake, where none could
    takes            which part of its op it declares to take (`Capabilities.takes`), if not all
    extras           the extra hyper-parameters of its optimizer that it takes
    whole            of a wrong one, that only `--whole` sees it: its rows are partial
    """

    name: str
    right: bool
    of: str
    directions: tuple[str, ...]
    dtypes: tuple[str, ...]
    kind: str
    about: str
    source: str
    how: Callable[..., Any]
    contract: Mapping[str, Any] = field(default_factory=dict[str, Any])
    indistinguishable: str = ""
    takes: Declaration | None = None
    whole: bool = False
    extras: tuple[str, ...] = ()

    @property
    def updates(self) -> bool:
        """Whether it is an optimizer."""
        return self.of in OPTIMIZERS

    @property
    def by_autograd(self) -> bool:
        """Whether its gradient is found by torch's autograd."""
        return len(self.directions) > 1


Decorator = Callable[[Callable[..., Any]], Member]


def wrong(
    where: str,
    kind: str,
    *,
    source: str = OWN,
    dtypes: tuple[str, ...] = ("fp32",),
    contract: Mapping[str, Any] | None = None,
    indistinguishable: str = "",
    takes: Declaration | None = None,
    whole: bool = False,
    extras: tuple[str, ...] = (),
) -> Decorator:
    """Make a wrong member: its mistake is seen, unless nothing in its precision could show it."""
    known = (indistinguishable, takes, whole, extras)
    return _member(where, kind, False, source, dtypes, contract, *known)


def right(
    where: str,
    kind: str,
    *,
    source: str = OWN,
    dtypes: tuple[str, ...] = ("fp32",),
    contract: Mapping[str, Any] | None = None,
    takes: Declaration | None = None,
    extras: tuple[str, ...] = (),
) -> Decorator:
    """Make a right member: nobody may refuse it."""
    return _member(where, kind, True, source, dtypes, contract, "", takes, False, extras)


def _member(
    where: str,
    kind: str,
    good: bool,
    source: str,
    dtypes: tuple[str, ...],
    contract: Mapping[str, Any] | None,
    indistinguishable: str,
    takes: Declaration | None,
    whole: bool,
    extras: tuple[str, ...],
) -> Decorator:
    of, _, way = where.partition(" ")
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}; there are {', '.join(KINDS)}")
    if of not in OPS and of not in OPTIMIZERS and of != SESSION:
        raise ValueError(f"unknown operation or optimizer {of!r}")

    def make(how: Callable[..., Any]) -> Member:
        about = (inspect.getdoc(how) or "").partition("\n")[0]
        name = f"{of}: {how.__name__.replace('_', ' ')}"
        ways = _directions(of, way)
        return Member(
            name, good, of, ways, dtypes, kind, about, source, how, contract or {},
            indistinguishable, takes, whole, extras,
        )  # fmt: skip

    return make


def _directions(of: str, way: str) -> tuple[str, ...]:
    """Return the directions of the rows that a member takes over."""
    if of in OPTIMIZERS:
        return ("update",)
    if of == SESSION:
        return ("lives",)
    both = ("value",) if not OPS[of].moves else ("value", "vjp")
    if way and way not in both:
        raise ValueError(f"{of} has no {way!r}; there are {', '.join(both)}")
    return (way,) if way else both
