"""What a replay does, as an outline: the calls of the forward pass, and what they keep and drop."""

from __future__ import annotations

from fast.compiled.recorded.plan import Call, Plan
from fast.compiled.shown.outline import Memory, Outline, Step


def outlined(plan: Plan) -> Outline:
    """Outline the forward pass of a replay; its pass back is the tape's, op by op."""
    run = [call for call in plan.calls if call.value is not None]
    steps = [_step(plan, call) for call in run]
    end = max(len(run) - 1, 0)
    found = {name: Memory(plan.sizes[k], 0, end, lent=True) for k, name in enumerate(plan.leaves)}
    for number, call in enumerate(run):
        last = {k: at for at, other in enumerate(run) for k in other.done}
        for k in call.out:
            found[_name(plan, k)] = Memory(plan.sizes[k], number, last.get(k, end))
    return Outline("forward pass, replayed", tuple(steps), found)


def _step(plan: Plan, call: Call) -> Step:
    read = tuple(dict.fromkeys(_name(plan, k) for k in call.sources))
    op = plan.names[call.out.start - plan.first]
    assert op is not None
    return Step(op, read, tuple(_name(plan, k) for k in call.out))


def _name(plan: Plan, k: int) -> str:
    """Name a place of a replay's table: a leaf, a result by its op, or what is read beside both."""
    end = plan.first + len(plan.blanks)
    if k < plan.first:
        return plan.leaves[k]
    if k < end:
        return f"x{k} ({plan.names[k - plan.first] or 'constant'})"
    return f"integers {k - end}"
