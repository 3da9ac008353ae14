"""Large cases, measured: which ones a row has, and how a backend's results of them are judged.

Three worlds share the work. Arrays of scalars judge every element of formats that are narrower
than float64; integers are judged to the bit, in every format; and of what float64 gives on reals, a
sample of the entries is judged by balls, one entry at a time, on the same unchanged page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from equivalence.budgets.outcome import Outcome, decide, merged
from equivalence.cases.families.growing import Growth
from equivalence.cases.sizes import SizedCase, build_sized, growths, sized
from equivalence.cases.updates.spec import Group, UpdateSpec
from equivalence.conventions import pages
from equivalence.dtypes import DTYPES, FP32, FP64
from equivalence.measure.call import attempt, compare, result_names
from equivalence.measure.explained.explain import explained_call
from equivalence.measure.explained.needs import call_of
from equivalence.measure.kept import answered
from equivalence.registry import OPS, OPTIMIZERS, remembering

if TYPE_CHECKING:
    from equivalence.budgets.arrays import Call
    from equivalence.worlds.contract import Contract

SAMPLE = 16
"""How many entries of each result are judged one by one, the first and the last among them."""

PROBED = 33
"""The size at which an op is asked whether integers pass it exactly; quotients by it do not.

What takes one number at a time is asked about more of them, as few may lie where it rounds."""


def full(op: str, direction: str, dtype: str) -> list[SizedCase]:
    """Return the large cases of a row, one for each way in which its op grows."""
    return [_case(g, None, op, direction, dtype, k) for k, g in enumerate(growths(op))]


def near(op: str, direction: str, dtype: str, dtypes: Sequence[str] = ()) -> list[SizedCase]:
    """Return the cases that lie beyond the fixed strata, for a backend of these dtypes.

    The ways to grow are dealt out to its rows of an op: each has one at least.
    """
    among, names = growths(op), [name for name in DTYPES if name in dtypes] or [dtype]
    first = names.index(dtype) + ("value", "vjp", "jvp").index(direction)
    turns = [k for k in range(len(among)) if (k - first) % len(names) == 0]
    return [
        _case(among[k], among[k].ample(OPS[op]), op, direction, dtype, k)
        for k in turns or [first % len(among)]
    ]


def grown_to(op: str, direction: str, dtype: str, k: int, n: int) -> SizedCase:
    """Return the case of one way to grow, at a size that was read from somewhere."""
    return _case(growths(op)[k], n, op, direction, dtype, k)


def _case(
    growth: Growth, n: int | None, op: str, direction: str, dtype: str, turn: int
) -> SizedCase:
    """Choose between integers and reals, where both suit, by turns; without n, full size."""
    if growth.regimes == ("offset",):
        # Gradients add what is no integer, and of float64 a sample is judged.
        whole = direction == "value" and dtype != FP64.name
        suited = ["offset" if whole else "reals"]
    else:
        suited = [r for r in growth.regimes if r == "reals" or exact(op, direction, dtype, growth)]
    regime = suited[turn % len(suited)] if suited else "reals"
    if not suited:
        # Sums that no integers can show leave reals their bounds only so far.
        n = growth.near if n is None else min(n, growth.near)
    if growth.every and dtype != FP64.name:
        regime = "every"
        n = growth.near if DTYPES[dtype].narrow else n
    if dtype == FP64.name and exact(op, direction, dtype, growth) and "integers" in suited:
        regime = "integers"
    by_balls = dtype == FP64.name and regime == "reals"
    size = n if n is not None else growth.full
    size = min(size, growth.near // 4) if by_balls else size
    if regime == "reals" and DTYPES[dtype].store.min_exponent > FP32.min_exponent:
        # What is shared out among more entries than such a format has scales would underflow.
        size = size if growth.what in ("rows", "inner") else min(size, growth.near)
    return sized(growth, size, op, direction, dtype, regime)


@remembering
def exact(op: str, direction: str, dtype: str, growth: Growth) -> bool:
    """Say whether no step of an op rounds the integers of its cases, tried at a small size."""
    from equivalence.budgets.arrays import settles
    from equivalence.worlds.contract import Contract

    small = sized(
        growth, growth.near if growth.by_entry else PROBED, op, direction, dtype, "integers"
    )
    record = DTYPES[dtype]
    contract = Contract("correctly rounded", record.compute, record.compute)
    return settles(call_of(build_sized(small)), contract)


def measure_sized(backend: Any, sized: SizedCase, contract: Contract) -> Outcome:
    """Run one large case on a backend and judge it; the backend runs before the page does.

    Of a backend that may give ties to another entry than the page does, ties are left open.
    """
    from equivalence.budgets import arrays

    capabilities = backend.capabilities()
    built = build_sized(sized, capabilities.device)
    results = attempt(backend, built)
    if isinstance(results, Outcome):
        return results
    names, call = result_names(sized.case), call_of(built)
    settled = sized.regime == "integers"
    if contract.compute == FP64 and not settled:
        return explained_call(sampled(names, results, call, contract), built, names, contract)
    balanced = sized.regime == "offset"
    ask = partial(arrays.allowed, call, contract, settled=settled, balanced=balanced)
    expected = answered(sized, OPS[sized.case.op], contract, ask)
    if len(pages(sized.case.op, capabilities.conventions)) > 1:
        expected = arrays.untied(call, contract, expected)
    outcome = compare(names, results, expected, arrays.judge_arrays)
    return explained_call(outcome, built, names, contract)


def sampled(
    names: Sequence[str], results: Sequence[Tensor | None], call: Call, contract: Contract
) -> Outcome:
    """Judge a sample of the entries of every result by balls."""
    from equivalence.budgets.judge import budget_of, fraction_of
    from equivalence.budgets.sampled import entries_at

    parts: list[Outcome] = []
    for k, (name, result) in enumerate(zip(names, results, strict=True)):
        if result is None:
            continue
        places = sample_of(tuple(result.shape))
        due = entries_at(call, k, places, contract)
        got = [float(result[place]) for place in places]
        fractions = [fraction_of(z, x) for z, x in zip(got, due, strict=True)]

        def element(at: int, got: Any = got, due: Any = due) -> tuple[str, str, str]:
            return (
                str(got[at]),
                due[at].v.mid().str(17, radius=False),
                str(float(budget_of(due[at]))),
            )

        values = {float(x.v) for x in due if not x.unconstrained}
        outcome = decide(fractions, (len(places),), element)
        detail = outcome.detail
        if detail is not None:
            detail = replace(detail, index=places[detail.index[0]])
        # Of a few entries nobody can say what the others have in common.
        outcome = replace(outcome, detail=detail, differing=len(values) > 1, wrong=())
        parts.append(outcome.named(name))
    return merged(*parts)


def sample_of(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the first and the last index of a shape, and some between, in two of its rows."""
    count = int(np.prod(shape))
    source = np.random.default_rng(count)
    flat: npt.NDArray[Any] = source.integers(0, count, min(SAMPLE, count))
    flat[0], flat[-1] = 0, count - 1
    found = np.stack(np.unravel_index(flat, shape), axis=-1) if shape else np.zeros((1, 0), int)
    if len(shape) > 1:
        # Entries of one row share what the row costs.
        found[1:-1, 0] = found[2, 0] if len(found) > 3 else 0
    return sorted({tuple(map(int, row)) for row in found})


UPDATED = ((2**20,), (65_601,), (3, 5))
"""The parameters of a large update."""

MATRICES = ((1025, 1024), (65_601, 1), (3, 5))
"""Those of an optimizer of matrices, whose products of longer rows would leave no bounds."""


def sized_update(optimizer: str, dtype: str) -> UpdateSpec:
    """Return the steps of an optimizer on many elements, at its plainest settings with decay."""
    from equivalence.cases.call import Recipe
    from equivalence.cases.updates.levels import accepted, permitted_pairs, plainest

    hyper = plainest(optimizer)
    if "weight_decay" in hyper:
        hyper["weight_decay"] = accepted(optimizer, "weight_decay", 0.01)
    normal = Recipe("normal")
    pairs = permitted_pairs(optimizer, hyper)
    shapes = MATRICES if OPTIMIZERS[optimizer].matrices else UPDATED
    return UpdateSpec(optimizer, dtype, shapes, normal, normal, pairs, steps=2)


def sized_extras(optimizer: str, dtype: str, extras: Sequence[str]) -> list[UpdateSpec]:
    """Return the same steps with all of a backend's extras on, and entries clipped, if it has any.

    A group has a bound of entries of its own, and another has none. Norms of many elements are the
    design's: here an entry is judged by what it meets itself.
    """
    from equivalence.cases.updates.clipping import VALUES
    from equivalence.cases.updates.extras import combinations, with_extras

    chosen: dict[str, Any] = combinations(optimizer, extras)[-1]
    groups: tuple[Group, ...] = ()
    if "max_value" in extras:
        usual, others = VALUES[1], (VALUES[2], None)
        chosen = {**chosen, "max_value": usual}
        groups = tuple(((k,), (("max_value", value),)) for k, value in enumerate(others, 1))
    case = replace(with_extras(sized_update(optimizer, dtype), chosen), groups=groups)
    return [case] if chosen else []


def numbers_of_update(case: UpdateSpec) -> dict[str, list[float]]:
    """Return the parameters and gradients of a large update, by their positions."""
    drawn: dict[str, list[float]] = {}
    for k, shape in enumerate(case.shapes):
        source = np.random.default_rng([k, *shape])
        drawn[f"parameter {k}"] = source.standard_normal(int(np.prod(shape))).tolist()
        for step in range(case.steps):
            gradient = source.standard_normal(int(np.prod(shape)))
            drawn[f"gradient {k} at step {step}"] = gradient.tolist()
    return drawn


def measure_sized_update(backend: Any, case: UpdateSpec, contract: Contract) -> Outcome:
    """Take the steps of a large update and judge every element of every state after each."""
    from equivalence.budgets.arrays import judge_arrays, stepped
    from equivalence.measure.explained.steps import explained_step
    from equivalence.measure.reference import Expected, Taken
    from equivalence.measure.shadow import Step, judge_step, measure_steps

    def judge(steps: Sequence[Step], stepping: UpdateSpec) -> Outcome:
        return merged(*(judge_one(step) for step in steps))

    def judge_one(step: Step) -> Outcome:
        k = step.parameter
        gradient, bound = step.gradients[k], case.limits(k, step.number).max_value
        assert gradient is not None
        if bound is not None:
            gradient = gradient.clamp(-float(bound), float(bound))  # It rounds nothing.
        tensors, count = stepped(
            case.optimizer,
            lambda *given: Taken(*given).result(),
            (step.before.params[k], gradient, step.moments(case.optimizer)),
            step.count,
            case.hyper_parameters(k, step.number),
            contract,
        )
        return explained_step(judge_step(step, Expected(tensors, count), judge_arrays), step, case)

    return measure_steps(backend, case, judge, numbers_of_update(case))
