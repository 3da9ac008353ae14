"""Judges a program of any size: every value, every cotangent, every gradient, and one update.

The reference runs the program on balls. Through many nodes a ball may grow until it says nothing:
it is wider than a sixteenth of the largest entry, or has no end. Such a node is judged by itself,
from the numbers that the backend had for what it reads, and the reference goes on from the number
that the backend got. So each node is judged in one of two ways, and `Count` says how many were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

import fast
from equivalence.budgets.judge import wide
from equivalence.budgets.ledger import Ledger
from equivalence.budgets.violation import Violation, check_bits, check_equal
from equivalence.sessions.dags.text import Program, Step, run, steps_of
from equivalence.sessions.judge import SessionJudge, State
from equivalence.worlds.bounded import Bounded, constant, stored
from fast.runtime.param import Param as FastParam
from spec.op import AnyTensor, plus
from spec.ops import OPS
from spec.optim import OPTIMIZERS
from spec.ref import Ref
from spec.session import Session
from spec.several import lone
from spec.tape import Node
from spec.tensor import tensor


@dataclass
class Count:
    """How many values and cotangents were judged, and how many of them by themselves."""

    judged: int = 0
    alone: int = 0

    def add(self, alone: bool) -> None:
        """Count one."""
        self.judged += 1
        self.alone += alone

    def __iadd__(self, other: Count) -> Count:
        self.judged += other.judged
        self.alone += other.alone
        return self


@dataclass(frozen=True)
class Update:
    """An update by the gradients of a program."""

    optimizer: str
    hyper: Mapping[str, Any] = field(default_factory=dict)


class Sides(SessionJudge):
    """A program on a session of `fast`, and on the reference's tape."""

    def __init__(self, program: Program, provider: str, precision: str) -> None:
        """Run the program on both sides, and judge every value."""
        self.program = program
        self.session = self._started(provider, precision)
        super().__init__(self.session.options, getattr(self.session, "engine", None))
        self.values, self.cotangents = Count(), Count()
        self.owners = self._owned()
        self.refs, self.got = self._run()
        self._reference()

    def _started(self, provider: str, precision: str) -> fast.Session:
        """Start the session that is judged."""
        return fast.Session(provider, precision, "cpu")

    def _owned(self) -> list[FastParam]:
        """Make the parameters."""
        return owned(self.session, self.program)

    def _run(self) -> tuple[list[Any], list[Tensor]]:
        """Run the program, and return the refs of all nodes and their values."""
        uses = [self.session.use(self.owners[k]) for k in self.program.uses]
        refs = [*uses, *steps_of(self.program, self.session, uses)]
        return refs, [self.session.value(ref) for ref in refs]

    def _reference(self) -> None:
        """Run the reference, and judge each value as soon as it is there."""
        spec = self.spec = Session()
        self.bound(spec)
        self.ids: list[int] = []
        self._number: dict[int, int] = {}
        trainable = [self.program.params[k].trainable for k in self.program.uses]
        uses = [
            spec.input(self.lift(value), requires_grad=wanted)
            for value, wanted in zip(self.got, trainable, strict=False)
        ]
        for ref in uses:
            self._enter(ref.id)

        def apply(step: Step, inputs: tuple[Any, ...]) -> Any:
            if step.result is None:
                return spec.apply(step.op, inputs, dict(step.attributes))
            # A node of the reference's tape is one result, too.
            one = lone(OPS[step.op], step.result)
            return Ref(spec, spec.tape.apply(one, *(x.id for x in inputs), **step.attributes))

        made = run(self.program, apply, uses, tensor)
        for ref in made:
            self._enter(ref.id)
            self._judge_value(len(self.ids) - 1)

    def _enter(self, here: int) -> None:
        """Number a node of the reference's tape as the program does."""
        self._number[here] = len(self.ids)
        self.ids.append(here)

    def _judge_value(self, k: int) -> None:
        """Judge the value of a node; one that says nothing gives way to the backend's."""
        node, got = self._node(k), self.got[k]
        assert node.op is not None
        due = self.result(node.op, node.attributes, node.value)
        # What a cast or a comparison makes of a ball says little: it takes the numbers themselves.
        alone = node.op.converts or not got.is_floating_point() or open_(due)
        if alone:
            again = node.op(*self._recorded(node), **node.attributes)
            due = self.result(node.op, node.attributes, again)
            self.spec.tape._nodes[self.ids[k]] = replace(node, value=self._taken(got, due))
        self.values.add(alone)
        self.judge(f"node {k}, {node.op.name}", got, due)

    def _taken(self, got: Tensor, due: AnyTensor) -> AnyTensor:
        """Take over what the backend got; what is not finite stays what is due, which judges it."""
        if not got.is_floating_point():
            return tensor(got.tolist())
        return self.lift(got) if bool(got.isfinite().all()) else due

    def _node(self, k: int) -> Node:
        return self.spec.tape.node(self.ids[k])

    def _recorded(self, node: Node) -> list[AnyTensor]:
        """Return what a node reads as the backend had it, and the program's own integers."""
        found = []
        for parent in node.parents:
            value, k = self.spec.tape.value(parent), self._number.get(parent)
            found.append(value if k is None else self._taken(self.got[k], value))
        return found

    def judge_cotangents(self) -> None:
        """Send the cotangent 1 back from the end, and judge that of every node."""
        with self.session.backward_dense(self.refs[self.program.out]) as grads:
            self.back = {
                k: self.session.grad(grads, self.refs[k])
                for k in range(len(self.got))
                if self._numeric(k) and grads.reached(self.refs[k])
            }
        reached = self._sweep()
        check_equal("nodes that the seed reaches", sorted(self.back), sorted(reached))

    def _sweep(self) -> list[int]:
        """Send the cotangent 1 back on the reference's tape; return the nodes that it reaches."""
        out, tape = self.program.out, self.spec.tape
        self.due: dict[int, AnyTensor] = {out: tape.value(self.ids[out]).map(self._one)}
        self.totals: dict[int, AnyTensor] = {}
        sent: dict[int, list[tuple[int, int]]] = {out: []}
        alone: dict[int, Sequence[AnyTensor | None]] = {}
        for k in range(out, -1, -1):
            if k not in sent:
                continue
            self._judge_cotangent(k, sent[k], alone)
            for (here, position), contribution in self._contributions(k):
                sent.setdefault(here, []).append((k, position))
                self.due[here] = plus(self.due.get(here), contribution) or contribution
        return [*sent]

    def _numeric(self, k: int) -> bool:
        return self.got[k].is_floating_point()

    def _one(self, x: Any) -> Bounded:
        return constant(self.arithmetic, 1)

    def _judge_cotangent(
        self, k: int, senders: Sequence[tuple[int, int]], alone: dict[int, Any]
    ) -> None:
        """Judge the sum of what readers send; where it says nothing, from their own numbers."""
        if k not in self.back:
            raise Violation(f"cotangent of node {k}: none came, and the seed reaches it")
        by_itself = bool(senders) and open_(self.due[k])
        if by_itself:
            total: AnyTensor | None = None
            for sender, position in senders:
                if sender not in alone:
                    node = self._node(sender)
                    assert node.op is not None
                    given = self._recorded(node), self._taken(self.back[sender], self.due[sender])
                    alone[sender] = node.op.vjp(*given, **node.attributes)
                part = alone[sender][position]
                assert part is not None
                total = plus(total, part) or part
            assert total is not None
            self.due[k] = total
        # A parameter's gradient is added up in its own dtype, before it is rounded to a node's.
        self.totals[k] = self.due[k]
        self.cotangents.add(by_itself)
        self.judge(f"cotangent of node {k}", self.back[k], self.due[k])
        if by_itself:
            self.due[k] = self._taken(self.back[k], self.due[k])

    def _contributions(self, k: int) -> list[tuple[tuple[int, int], AnyTensor]]:
        """Return what a node sends to the nodes that it reads, by their number and position."""
        node, tape = self._node(k), self.spec.tape
        if node.op is None or not node.requires_grad:
            return []
        inputs = [tape.value(parent) for parent in node.parents]
        found = node.op.vjp(inputs, self.due[k], **node.attributes)
        number = self._number
        return [
            ((number[parent], position), contribution)
            for position, (parent, contribution) in enumerate(zip(node.parents, found, strict=True))
            if contribution is not None and tape.node(parent).requires_grad
        ]

    def judge_step(self, update: Update) -> None:
        """Judge the gradients of the parameters, and an update by them; others stay as they are."""
        session, name = self.session, update.optimizer
        before = [owner.value() for owner in self.owners]
        gradients: dict[int, AnyTensor] = {}
        used = {}
        with session.backward(self.refs[self.program.out]) as grads:
            for k, owner in enumerate(self.program.uses):
                if self.program.params[owner].trainable and k in self.due:
                    gradient = session.grad(grads, self.refs[k])
                    self.judge(f"gradient of node {k}", gradient, self.totals[k])
                    gradients[k], used[k] = self.gradient(gradient, name), owner
            if not gradients:
                return
            getattr(session, f"{name}_step")(grads=grads, **update.hyper)
        spec = Session()
        self.bound(spec)
        theirs = [spec.param(self.lift(value)) for value in before]
        for param, value in zip(theirs, before, strict=True):
            self.hand_over(spec, param, value, State(), name)
        spec.params_by_leaf = {k: theirs[owner] for k, owner in used.items()}
        getattr(spec, f"{name}_step")(grads=gradients, **update.hyper)
        page = OPTIMIZERS[name]
        for k, (mine, param) in enumerate(zip(self.owners, theirs, strict=True)):
            if k not in used.values():
                check_bits(f"parameter {k}, which no gradient reaches", mine.value(), before[k])
                continue
            found, state = session.optimizer_state(name, mine), spec.state(param, name)
            kept = page.moments if page.stateful(update.hyper) else ()
            kept = tuple(moment for moment in kept if getattr(state, moment) is not None)
            label = f"{name}: parameter {k}"
            check_equal(f"{label}: has {kept}", {*kept} <= found.keys(), True)
            moments = {moment: found[moment] for moment in kept}
            self.judge_update(label, name, (mine.value(), moments), (param.value, state), State())


def owned(session: fast.Session, program: Program) -> list[FastParam]:
    """Make the parameters of a program in a session."""
    master = session.options.master
    return [session.param(p.value.to(master), requires_grad=p.trainable) for p in program.params]


def judge(
    program: Program, provider: str, precision: str, update: Update | None = None
) -> tuple[Ledger, Count, Count]:
    """Judge a program, or raise a Violation; return what was judged, and how.

    The counts are those of values and of cotangents.
    """
    sides = Sides(program, provider, precision)
    sides.judge_cotangents()
    if update is not None:
        sides.judge_step(update)
    return sides.ledger, sides.values, sides.cotangents


def open_(due: AnyTensor) -> bool:
    """Say whether what is allowed says nothing of some entry."""
    allowed = [stored(x) if isinstance(x, Bounded) else x for x in due.data]
    return any(x.unconstrained for x in allowed if isinstance(x, Bounded)) or wide(allowed) > 0
