"""A recorded program as one op: artifacts compute its results, and the sweep back through it.

Nothing is computed when it is entered on a tape: data are checked and copied, and what the program
returns stands there without contents. Whoever asks for the contents has them computed, by an
artifact of the forward pass; a backward pass runs another, of both passes, which leaves the
contents too. So a training step that reads its loss after going back runs one artifact.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fast.compiled import artifacts, inductor, lowering
from fast.compiled.lowering import Signature
from fast.compiled.plan import Plan
from fast.errors import Unavailable
from fast.runtime.binding import Bindings
from fast.tape import LEAF, Tape


class Lowered:
    """The artifacts of one plan, each made when it is first run."""

    def __init__(self, plan: Plan, tape: Tape, integers: int, bindings: Bindings) -> None:
        """Hold a plan that was recorded on a tape; what no artifact can do is Unavailable."""
        self.plan = plan
        self._integers = integers
        self._bindings = bindings
        leaves = tuple(rule is LEAF for rule in tape.rules[: plan.first])
        self._checked = [call for call in plan.calls if call.check is not None]
        self._ready: dict[int | None, tuple[inductor.Loaded, list[int]]] = {}
        self._forward = lowering.signature(plan, leaves)
        self.results = self._forward.results
        parents = tuple(k for k, leaf in enumerate(leaves) if leaf)
        self.parents, self._needs = parents, (True,) * len(parents)
        _refuse(plan, tape)

    def enter(self, tape: Tape, given: Sequence[Tensor]) -> Pending:
        """Check a call's data, take its random numbers, and append its entries without contents."""
        plan, bindings = self.plan, self._bindings
        start = bindings.next_call
        # A check reads shapes of numbers, and the data of integer inputs.
        table = [*tape.values, *plan.blanks, *given, *plan.read_beside()] if self._checked else []
        for call in self._checked:
            # A random op's check reads the counter; what fails leaves it as the program would.
            bindings.next_call = start + call.drawn
            assert call.check is not None
            call.check(*(table[k] for k in call.sources), **call.attributes)
        bindings.next_call = start + plan.draws
        cell = torch.tensor(_signed(start)) if plan.draws else None
        taken = lowering.arguments(plan, self._forward, tape.values, given, cell)
        pending = Pending(self, tape, taken)
        tape.values += plan.blanks
        tape.rules += [None] * len(plan.blanks)
        tape.extra -= len(plan.blanks)
        for k in self.results:
            if self.parents and tape.values[k].is_floating_point():
                tape.rules[k] = (pending.rule(k), (), self.parents, self._needs, None)
        return pending

    def run(
        self, seeded: int | None, given: Sequence[Tensor]
    ) -> tuple[Sequence[Tensor], list[int]]:
        """Run the artifact of the forward pass, or that of both passes from an entry.

        Return the program's results, then the cotangents of the leaves that are named.
        """
        known = self._ready.get(seeded)
        if known is None:
            known = self._ready[seeded] = self._made(seeded, given)
        loaded, reached = known
        return loaded([*given]), reached

    def _made(
        self, seeded: int | None, given: Sequence[Tensor]
    ) -> tuple[inductor.Loaded, list[int]]:
        wanted = replace(self._forward, seeded=seeded)
        function, reached = lowering.function(self.plan, wanted, self._integers, self._bindings)
        graph = inductor.traced(function, given)
        package = artifacts.fetch(
            _key(str(graph.graph), wanted, given), lambda: inductor.built(graph, given)
        )
        return inductor.loaded(package), list(reached)


class Pending:
    """One call of a lowered program, on the tape where its entries wait for their contents."""

    def __init__(self, lowered: Lowered, tape: Tape, given: list[Tensor]) -> None:
        """Hold what the artifacts take; leaves are borrowed, as the tape borrows them."""
        self._lowered = lowered
        self._tape = tape
        self._given = given
        self._filled = False

    def fill(self) -> None:
        """Compute the contents if nothing has; a parameter that has changed raises Stale."""
        if not self._filled:
            self._tape.check_versions(len(self._tape))
            self._put(self._lowered.run(None, self._given)[0])

    def rule(self, identity: int) -> Any:
        """Return the rule that takes the cotangent of a result back to the trainable leaves."""

        def vjp(saved: object, cotangent: Tensor, needs: Sequence[bool]) -> tuple[Any, ...]:
            lowered = self._lowered
            found, reached = lowered.run(identity, [*self._given, cotangent.contiguous()])
            count = len(lowered.results)
            self._put(found[:count])
            by_leaf = dict(zip(reached, found[count:], strict=True))
            return tuple(map(by_leaf.get, lowered.parents))

        return vjp

    def _put(self, found: Sequence[Tensor]) -> None:
        """Put contents on the tape, once: a second pass finds the same numbers."""
        if self._filled:
            return
        tape = self._tape
        for k, value in zip(self._lowered.results, found, strict=True):
            tape.values[k] = value
            tape.bytes += value.nbytes
            tape.extra += 1
        self._filled = True


def _refuse(plan: Plan, tape: Tape) -> None:
    """Refuse what artifacts cannot do yet."""
    for call in plan.calls:
        name = tape.names.get(call.out.start, "an op")
        inner = (k for k in call.sources if plan.first <= k < plan.first + len(plan.blanks))
        if call.check is not None and any(
            not plan.blanks[k - plan.first].is_floating_point() for k in inner
        ):
            raise beyond(f"{name} reads indices that the program computes")


def beyond(what: str) -> Unavailable:
    """Build the refusal of a program that another engine runs."""
    return Unavailable(
        f"engine 'inductor': this program is beyond it: {what}; engine 'replay' runs it"
    )


def _signed(word: int) -> int:
    """Return the int64 of the same 64 bits."""
    return word - 2**64 if word >= 2**63 else word


def _key(graph: str, wanted: Signature, given: Sequence[Tensor]) -> str:
    """Name an artifact by everything that it depends on."""
    kinds = [(tuple(t.shape), t.stride(), str(t.dtype)) for t in given]
    parts = (
        graph, wanted, kinds, sorted(inductor.OPTIONS.items()), torch.__version__,
        torch.get_num_threads(), platform.machine(), torch.backends.cpu.get_cpu_capability(),
    )  # fmt: skip
    return hashlib.sha256(repr(parts).encode()).hexdigest()
