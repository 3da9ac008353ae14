"""A directed acyclic graph of ops as plain data: any interpreter runs it, and it prints as Python.

Nodes count from 0: first the uses of parameters, then the steps, each of which reads earlier nodes.
The cotangent starts at the node `out`, a scalar. What does not lead there is a dead branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from torch import Tensor

from equivalence.sessions.numbers import whole_numbers

Operand = Any
"""A node, by its number; or integers or truth values, as a nested list."""


class Step(NamedTuple):
    """A call of an op; of several results the node is one, and nobody reads the others."""

    op: str
    operands: tuple[Operand, ...]
    attributes: Mapping[str, Any]
    result: int | None = None

    def among(self, made: Any) -> Any:
        """Return the node's ref of what a session made."""
        return made if self.result is None else made[self.result]

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes that it reads."""
        return tuple(x for x in self.operands if is_node(x))

    def renumbered(self, number: Mapping[int, int]) -> Step:
        """Return the same call of nodes that have other numbers."""
        operands = (number[x] if is_node(x) else x for x in self.operands)
        return self._replace(operands=tuple(operands))


@dataclass(frozen=True)
class Param:
    """A parameter: its value in the dtype of computation, and whether it takes a gradient."""

    value: Tensor
    trainable: bool = True


@dataclass(frozen=True)
class Program:
    """A program; `uses` names a parameter for each of the first nodes, one perhaps for several."""

    params: tuple[Param, ...]
    uses: tuple[int, ...]
    steps: tuple[Step, ...]
    out: int

    def __len__(self) -> int:
        """Count the nodes."""
        return len(self.uses) + len(self.steps)

    def step(self, node: int) -> Step | None:
        """Return the step that makes a node; None of a use."""
        return None if node < len(self.uses) else self.steps[node - len(self.uses)]

    def behind(self, node: int) -> set[int]:
        """Return the nodes that a node reads, directly or not, and itself."""
        found, ahead = set[int](), [node]
        while ahead:
            here = ahead.pop()
            step = self.step(here)
            if here not in found:
                found.add(here)
                ahead += () if step is None else step.nodes
        return found


def is_node(operand: Operand) -> bool:
    """Say whether an operand is the number of a node."""
    return type(operand) is int


def run(
    program: Program,
    apply: Callable[[Step, tuple[Any, ...]], Any],
    uses: Sequence[Any],
    given: Callable[[Any], Any],
) -> Iterator[Any]:
    """Yield what the steps make; `given` turns a nested list into what an op takes."""
    nodes = [*uses]
    for step in program.steps:
        inputs = tuple(nodes[x] if is_node(x) else given(x) for x in step.operands)
        nodes.append(apply(step, inputs))
        yield nodes[-1]


def steps_of(program: Program, ops: Any, uses: Sequence[Any]) -> Iterator[Any]:
    """Yield what the steps of a program make in a session of `fast`."""

    def apply(step: Step, inputs: tuple[Any, ...]) -> Any:
        return step.among(ops.apply(step.op, inputs, dict(step.attributes)))

    return run(program, apply, uses, whole_numbers)


def kept(program: Program, nodes: set[int], out: int) -> Program:
    """Return the program of some of its nodes, which read no other ones, with another end."""
    order = sorted(nodes)
    uses = [program.uses[k] for k in order if k < len(program.uses)]
    owners = sorted({*uses})
    number = {node: k for k, node in enumerate(order)}

    steps = [program.step(k) for k in order]
    return Program(
        tuple(program.params[k] for k in owners),
        tuple(owners.index(k) for k in uses),
        tuple(step.renumbered(number) for step in steps if step is not None),
        number[out],
    )


def with_leaves(program: Program, values: Mapping[int, Tensor]) -> Program:
    """Return the program in which steps' nodes are parameters of these values instead."""
    new = sorted(values)
    count = len(program.uses)
    number = {k: k for k in range(count)} | {node: count + k for k, node in enumerate(new)}
    rest = [k for k in range(count, len(program)) if k not in values]
    number |= {node: count + len(new) + k for k, node in enumerate(rest)}

    made = tuple(Param(values[node].clone()) for node in new)
    steps = [program.step(node) for node in rest]
    return replace(
        program,
        params=program.params + made,
        uses=(*program.uses, *(len(program.params) + k for k in range(len(new)))),
        steps=tuple(step.renumbered(number) for step in steps if step is not None),
        out=number[program.out],
    )


def lines(program: Program, judged: str, module: str = "judged", judge: str = "judge") -> list[str]:
    """Write a program down as Python that judges it again; `judged` follows it in the call."""
    params = (
        f"        Param(torch.tensor({p.value.tolist()}, dtype={p.value.dtype}), {p.trainable}),"
        for p in program.params
    )
    steps = (
        f"        Step({s.op!r}, {s.operands!r}, {dict(s.attributes)!r}"
        f"{'' if s.result is None else f', {s.result}'}),"
        for s in program.steps
    )
    return [
        "from torch import inf, nan, tensor  # noqa: F401",
        "import torch",
        f"from equivalence.sessions.dags.{module} import {judge}",
        "from equivalence.sessions.dags.judged import Update  # noqa: F401",
        "from equivalence.sessions.dags.text import Param, Program, Step",
        "",
        "program = Program(",
        "    params=(",
        *params,
        "    ),",
        f"    uses={program.uses!r},",
        "    steps=(",
        *steps,
        "    ),",
        f"    out={program.out},",
        ")",
        f"{judge}(program, {judged})",
    ]
