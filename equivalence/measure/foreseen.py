"""The calls that cases and edges will make, for a backend that wants to know them before.

Tensors are built as those of the call will be, so that shapes, strides and dtypes are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from equivalence.backends.protocol import Call, Capabilities
from equivalence.cases.built import build
from equivalence.cases.call import OTHERWISE, CaseSpec, handed
from equivalence.cases.edges import edge_tensors, edges
from equivalence.cases.strata.added.otherwise import otherwise


def of_cases(cases: Iterable[CaseSpec], capabilities: Capabilities) -> Iterator[Call]:
    """Yield the calls of cases, those that a calling pattern makes before them included."""
    for case in cases:
        yield _of_case(case, capabilities.device)
        if case.calling == OTHERWISE:
            for other in otherwise(case, capabilities.ops.get(case.op, ())):
                yield _of_case(other, capabilities.device)


def _of_case(case: CaseSpec, device: str) -> Call:
    built = build(case, device)
    attrs = handed(case.op, case.attributes(), case.dtype)
    seeds = [item.view for item in built.cotangents]
    return Call(case.op, case.direction, built.views(), attrs, seeds)


def of_row(
    op: str, direction: str, dtype: str, cases: Iterable[CaseSpec], capabilities: Capabilities
) -> Iterator[Call]:
    """Yield the calls of a row's edges, and of cases."""
    for edge in edges(op, direction):
        inputs, seeds = edge_tensors(op, edge, dtype, capabilities.device)
        attrs = handed(op, edge.attributes, dtype)
        views = [item.view for item in inputs]
        yield Call(op, direction, views, attrs, [seed.view for seed in seeds])
    yield from of_cases(cases, capabilities)
