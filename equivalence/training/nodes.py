"""Steps of deep programs: each op is judged by itself, from the numbers that it had.

Through many layers a budget grows until it is wider than the gradients. So a recording may hold
what every op has returned, and the cotangent of that. The reference takes each op from the recorded
results of those before it, and sends each recorded cotangent back through the one op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from equivalence.budgets.judge import wide
from equivalence.budgets.lifting.worlds import lift_one, store
from equivalence.budgets.outcome import Outcome
from equivalence.measure.call import compare
from equivalence.training.record import Taken, loss_of
from equivalence.training.rowwise import Rowwise
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import constant
from spec.op import AnyTensor, plus
from spec.session import Ref, Session

if TYPE_CHECKING:
    from torch import Tensor

    from equivalence.training.checks import Manifest


class Alone:
    """What a program receives as `ops`: it goes on from what was recorded of each op."""

    def __init__(
        self, session: Session, nodes: Mapping[str, Tensor], arithmetic: Arithmetic
    ) -> None:
        """Wrap a session of the reference."""
        self._session, self._ops = session, Rowwise(session)
        self._nodes, self._arithmetic = nodes, arithmetic
        self.made: list[Ref] = []
        self.taken: list[Ref] = []

    def __getattr__(self, name: str) -> Any:
        """Find an operation, and record its result and what the program goes on from."""
        found = getattr(self._ops, name)
        if not callable(found):
            return found

        def call(*inputs: Any, **attributes: Any) -> Ref:
            made = found(*inputs, **attributes)
            value = lift_one(self._nodes[f"node/{len(self.made)}"], self._arithmetic)
            self.made.append(made)
            self.taken.append(self._session.input(value, requires_grad=True))
            return self.taken[-1]

        return call


def judge_nodes(
    manifest: Manifest,
    taken: Taken,
    session: Session,
    refs: Mapping[str, Ref],
    data: Sequence[Any],
    arithmetic: Arithmetic,
) -> tuple[dict[str, Outcome], int]:
    """Judge the loss, every gradient, every result and every cotangent of finite nodes.

    Count the budgets that say little, too.
    """
    ops, nodes = Alone(session, taken.nodes, arithmetic), taken.nodes
    loss_of(ops, manifest, [*refs.values()], data)
    values = [store(session.value(ref), arithmetic) for ref in ops.made]
    one = session.value(ops.taken[-1]).map(lambda _: constant(arithmetic, 1))
    totals: dict[int, AnyTensor] = {ops.taken[-1].id: one}
    for k, ref in enumerate(ops.made):
        seed = lift_one(nodes[f"node_grad/{k}"], arithmetic)
        for leaf, part in session.backward(ref, seed).items():
            found = plus(totals.get(leaf), part)
            assert found is not None
            totals[leaf] = found

    def total(ref: Ref) -> AnyTensor:
        return store(session.grad(totals, ref), arithmetic)

    count, due = range(len(ops.made)), [total(ref) for ref in refs.values()]
    cotangents = [total(ref) for ref in ops.taken]
    parts = {
        "loss": compare(["loss"], [taken.loss], values[-1:]),
        "gradients": compare(
            [f"gradient of {name}" for name in refs],
            [taken.gradients[name] for name in refs],
            due,
        ),
        "nodes": compare(
            [*(f"node {k}" for k in count), *(f"cotangent of node {k}" for k in count)],
            [nodes[f"{what}/{k}"] for what in ("node", "node_grad") for k in count],
            [*values, *cotangents],
        ),
    }
    return parts, sum(wide(each.data) for each in (*values, *due, *cotangents))
