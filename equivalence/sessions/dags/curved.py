"""Second-order products of programs: of the few steps before a node, on the numbers they read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from equivalence.budgets.ledger import Ledger
from equivalence.sessions.curvature.judge import Curvature
from equivalence.sessions.dags.text import Program, Step, kept, run, with_leaves
from equivalence.sessions.numbers import normal
from spec.ops import OPS
from spec.tensor import tensor

DEPTH = 4
"""How many steps a second-order product goes through: a coarser format bounds it."""


def cone(program: Program, node: int, values: Sequence[Tensor]) -> Program:
    """Return the last few steps before a node; what they read else becomes parameters."""
    behind = program.behind(node)
    steps = sorted(k for k in behind if program.step(k) is not None)
    early = {k: values[k] for k in steps[:-DEPTH] if values[k].is_floating_point()}
    whole = kept(program, behind, node)
    order = {k: at for at, k in enumerate(sorted(behind))}
    cut = with_leaves(whole, {order[k]: value for k, value in early.items()})
    return kept(cut, cut.behind(cut.out), cut.out)


def twice(program: Program) -> bool:
    """Say whether a program has a step that moves with what it reads, and draws nothing."""
    ops = [OPS[step.op] for step in program.steps]
    drawn = any(op.random or op.converts for op in ops)
    return bool(program.uses) and any(op.moves for op in ops) and not drawn


def judge_product(program: Program, precision: str, seed: int) -> Ledger:
    """Judge the Hessian of a curved scalar of a program's end times a vector."""
    inputs = [program.params[k].value for k in program.uses]

    def f(ops: Any, *leaves: Any) -> Any:
        def apply(step: Step, inputs: tuple[Any, ...]) -> Any:
            return step.among(getattr(ops, step.op)(*inputs, **step.attributes))

        made = run(program, apply, leaves, tensor)
        z = [*leaves, *made][program.out]
        return ops.sum(ops.mul(ops.mul(z, z), z))

    curvature = Curvature(f, inputs, precision)
    vectors = [normal(seed + k, *value.shape) for k, value in enumerate(inputs)]
    curvature.judge_hvp("second-order product", vectors)
    return curvature.ledger
