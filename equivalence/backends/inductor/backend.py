"""The pages of the provider `aten`, each compiled by torch's Inductor, as a backend.

The page's own check runs first, on the host, as a session runs it; what is compiled checks nothing.
Calls that are known ahead are compiled together, others alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from torch import Tensor

from equivalence.backends.fast.backend import checked, with_zeros
from equivalence.backends.inductor.programs import Artifact, Program, form_of
from equivalence.backends.libraries import declared
from equivalence.backends.protocol import Call, Capabilities, Results
from equivalence.conventions import OURS
from equivalence.dtypes import DTYPES
from equivalence.registry import OPS as PAGES
from fast.compiled import inductor, lowering
from fast.errors import Unavailable

TOGETHER = 256
"""How many programs one artifact holds at most.

Each artifact takes as long as dozens of small programs: what torch puts around the kernels is
compiled anew. But what the compiler remembers at once grows with each program.
"""

DRAWING_TOGETHER = 72
"""How many where numbers are drawn: Philox's rounds are a hundred calls of torch and more.

In an artifact of 144 such programs g++ 12.2 has met an error of its own (in gimple_duplicate_bb),
after a quarter of an hour. Two of half the size took 7 minutes.
"""


class FastInductor:
    """The pages of `fast.ops` as machine code of Inductor's."""

    name = "fast-inductor"

    def __init__(self) -> None:
        """Start with nothing compiled; without a compiler, or in another torch, Unavailable."""
        inductor.require()
        inductor.require_compiler()
        self._ready: dict[Program, tuple[Artifact, int]] = {}
        self._failed: dict[Program, Unavailable] = {}

    def capabilities(self) -> Capabilities:
        """Offer every page in every dtype of its twins."""
        from fast.ops import OPS

        return Capabilities(
            ops=dict.fromkeys(OPS, DTYPES),
            contract=declared("inductor"),
            labelled=True,
            checks_constraints=True,
            conventions=OURS,
        )

    def prepare(self, calls: Sequence[Call]) -> None:
        """Compile the calls together, as far as the pages take them."""
        found: dict[Program, None] = {}
        for call in calls:
            try:
                program, _ = program_of(call.op, call.inputs, call.attrs, call.cotangents)
            except Exception:
                continue  # It is refused when it is made.
            if program not in self._ready and program not in self._failed:
                found[program] = None
        drawing = any(PAGES[program.op].random for program in found)
        most = DRAWING_TOGETHER if drawing else TOGETHER
        programs, parts = [*found], ceil(len(found) / most)
        for k in range(parts):
            self._compile(programs[k * len(programs) // parts : (k + 1) * len(programs) // parts])

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Results:
        """Check, then run the machine code of the value."""
        results = self._run(*program_of(op, inputs, attrs, ()))
        return results[0] if len(results) == 1 else tuple(results)

    def vjp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        cotangents: Sequence[Tensor],
    ) -> Sequence[Tensor | None]:
        """Check, then run the machine code of the value and the VJP behind it."""
        program, given = program_of(op, inputs, attrs, cotangents)
        gradients = iter(self._run(program, given))
        found = [next(gradients) if need else None for need in program.needs]
        return with_zeros(op, inputs, found)

    def _run(self, program: Program, given: Sequence[Tensor]) -> list[Tensor]:
        if program not in self._ready and program not in self._failed:
            self._compile([program])
        if program in self._failed:
            raise self._failed[program]
        artifact, position = self._ready[program]
        return artifact.run(position, given)

    def _compile(self, programs: Sequence[Program]) -> None:
        """Compile programs together; where that fails, halves of them, down to those that fail."""
        try:
            artifact = Artifact(programs)
        except Unavailable as error:
            middle = len(programs) // 2
            if not middle:
                self._failed[programs[0]] = error
                return
            self._compile(programs[:middle])
            self._compile(programs[middle:])
            return
        self._ready.update((p, (artifact, k)) for k, p in enumerate(programs))


def program_of(
    op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any], cotangents: Sequence[Tensor]
) -> tuple[Program, list[Tensor]]:
    """Return the program of a call and its arguments; a call that breaks a rule is refused."""
    bound, attributes = checked(op, inputs, attrs, "cpu")
    given, rest = [*bound, *cotangents], dict(attributes)
    if "counter" in rest:
        given.append(lowering.cell(rest.pop("counter")))
    forms = tuple(map(form_of, given))
    return Program(op, len(cotangents), forms, tuple(rest.items())), given
