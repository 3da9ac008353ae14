"""What a watched launch is found guilty of, and where in the kernel's own lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["race", "read out of bounds", "write out of bounds", "undefined", "not judged"]
"""`undefined`: the compiler's language gives the operation no result, as for two lanes of one store
that put different numbers in one place. `not judged`: the launch could not be watched, which is no
better than a fault."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a kernel, the path as the compiler knows it; line 0 where none is known."""

    path: str = ""
    line: int = 0
    text: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: `{self.text}`" if self.line else "no line is known"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of one launch."""

    kind: Kind
    kernel: str
    place: Place
    says: str

    def __str__(self) -> str:
        return f"{self.kind} in {self.kernel}, {self.place}: {self.says}"


class Faulty(Exception):
    """Ends the host whose launch has a fault, as nothing that it would compute on is known."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault
