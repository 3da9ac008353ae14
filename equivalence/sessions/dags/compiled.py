"""Random programs that an engine compiles: one artifact each, which is run on many numbers.

The engine shows what a program returns, which is every node here, and the gradients of parameters.
Values are judged as those of a session are. Gradients are judged through the whole program, from
the engine's values; one whose budget says nothing has none.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from equivalence.budgets.ledger import Ledger
from equivalence.sessions.dags.judged import Count, Sides, owned
from equivalence.sessions.dags.text import Program, steps_of
from equivalence.sessions.numbers import normal
from fast import CompiledSession
from fast.errors import Frozen
from fast.runtime.param import Param

STRAY = 1 / 16
"""How far, as a part of them, numbers move from one draw to the next: a logarithm stays defined."""


class Artifact:
    """A program in a session that compiles it."""

    def __init__(self, program: Program, engine: str, precision: str) -> None:
        """Make the parameters; the first run compiles."""
        self.program = program
        self.session = CompiledSession("aten", precision, "cpu", engine=engine)
        self.owners = owned(self.session, program)

    def __call__(self, ops: Any, *uses: Any) -> tuple[Any, ...]:
        """Run the steps: a program of the session, which returns every node."""
        return tuple(steps_of(self.program, ops, uses))

    def moved(self, seed: int) -> None:
        """Move every parameter a little."""
        for k, (owner, param) in enumerate(zip(self.owners, self.program.params, strict=True)):
            stray = normal(seed + k, *param.value.shape).clamp(-1, 1) * STRAY
            owner.set((param.value.double() * (1 + stray.double())).to(owner.dtype))

    def run(self) -> list[Any]:
        """Run the program; its own integers are part of it, of which a recording warns."""
        self.session.random_counter = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Frozen)
            used = [self.owners[k] for k in self.program.uses]
            return list(self.session.run(self, used, []))


class CompiledSides(Sides):
    """A run of a compiled program, and the reference's tape."""

    def __init__(self, artifact: Artifact, precision: str) -> None:
        """Run the program on both sides, and judge every value."""
        self.artifact = artifact
        super().__init__(artifact.program, "aten", precision)

    def _started(self, provider: str, precision: str) -> CompiledSession:
        return self.artifact.session

    def _owned(self) -> list[Param]:
        return self.artifact.owners

    def _run(self) -> tuple[list[Any], list[Tensor]]:
        made = self.artifact.run()
        uses = [self.owners[k].value().to(self.options.compute) for k in self.program.uses]
        return [*(None for _ in uses), *made], [*uses, *map(self.session.value, made)]

    def judge_cotangents(self) -> None:
        """Judge the gradient of every parameter that the cotangent 1 of the end reaches."""
        reached = self._sweep()
        with self.session.backward(self.refs[self.program.out]) as grads:
            for k, owner in enumerate(self.program.uses):
                param = self.owners[owner]
                if k in reached and param.requires_grad and self.program.uses.count(owner) == 1:
                    got = self.session.grad(grads, param)
                    self.judge(f"gradient of parameter {owner}", got, self.totals[k])

    def _judge_cotangent(self, k: int, senders: Sequence[tuple[int, int]], alone: Any) -> None:
        """Keep what is due: nobody shows a cotangent inside an artifact."""
        self.totals[k] = self.due[k]


def judge_compiled(
    program: Program, engine: str, precision: str, seed: int, draws: int
) -> tuple[Ledger, Count]:
    """Judge a program on so many draws of its parameters, or raise a Violation.

    Return what was judged, and how many values.
    """
    artifact, ledger, values = Artifact(program, engine, precision), Ledger(), Count()
    for draw in range(draws):
        if draw:
            artifact.moved(seed + draw)
        sides = CompiledSides(artifact, precision)
        sides.judge_cotangents()
        ledger.judged += sides.ledger.judged
        ledger.unconstrained += sides.ledger.unconstrained
        ledger.worst = max(ledger.worst, sides.ledger.worst)
        values += sides.values
    return ledger, values
