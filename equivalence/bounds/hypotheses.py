"""The hypotheses of a budget, noted while it is computed.

A budget holds under hypotheses: no number leaves the range of its format, no divisor may be 0, the
argument of a root or a logarithm lies where that is defined, a comparison is decided whatever was
rounded before, a sum of exact numbers is exact. Where one fails, an element has no budget, or a
wider one. So each hypothesis that a row's page asks for has to be met by some case, or its bound
is never put to use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import Bounded
from spec import scalar

RANGE = "in range"
DIVISOR = "divisor not 0"
COMPARED = "comparison decided"
EXACT = "sum exact"
DOMAIN = ("sqrt", "log", "log1p")
"""The functions that are not defined everywhere."""


@contextmanager
def noting() -> Iterator[set[str]]:
    """Note which hypotheses the computations inside rely on."""
    met: set[str] = set()

    def noted(name: str, usual: Callable[..., Any], when: Callable[..., bool]) -> Any:
        def call(*given: Any) -> Any:
            answer = usual(*given)
            if when(answer, *given):
                met.add(name)
            return answer

        return call

    def always(*_: Any) -> bool:
        return True

    with ExitStack() as stack:
        for method, name, when in (
            ("divided", DIVISOR, always),
            ("rounded", RANGE, always),
            ("summed", RANGE, always),
            ("sums_exactly", EXACT, lambda answer, *_: bool(answer)),
        ):
            usual = getattr(Arithmetic, method)
            stack.enter_context(patch.object(Arithmetic, method, noted(name, usual, when)))
        usual = Arithmetic.applied

        def applied(self: Arithmetic, name: str, *given: Any) -> Any:
            met.update({RANGE, f"{name} defined"} if name in DOMAIN else {RANGE})
            return usual(self, name, *given)

        stack.enter_context(patch.object(Arithmetic, "applied", applied))
        for question in (scalar.less, scalar.equal):
            known = question.rule_for(Bounded)
            decided = noted(COMPARED, known, lambda answer, *_: isinstance(answer, bool))
            question.replaced(Bounded, decided)
            stack.callback(question.replaced, Bounded, known)
        yield met
