"""Operations: the cases of the covering design, value and VJP, from the pages' own hosts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import isfinite, prod
from typing import Any

import torch

from equivalence.answers import Malformed, several
from equivalence.backends.fast.backend import FastBackend
from equivalence.backends.protocol import Backend
from equivalence.cases.built import build
from equivalence.cases.call import (
    TORCH,
    CaseSpec,
    Recipe,
    Shape,
    attribute_pairs,
    describe,
    dtype_of_value,
    handed,
    integers_of,
)
from equivalence.cases.covering import SINGLES
from equivalence.cases.declared.inside import Inside
from equivalence.cases.domains import LABELS, domain, usual
from equivalence.cases.families.entries.random import chances
from equivalence.cases.families.losses.labels import SCORES
from equivalence.cases.families.rows.norms import NORMS, with_parameters
from equivalence.cases.families.rows.rows import ROWS
from equivalence.cases.families.table import family_of
from equivalence.cases.strata.fixed import strata
from equivalence.exact.literals import meant
from equivalence.exact.numbers import drawn, traced
from equivalence.exact.points import Drawn, Form, Point, Verdict, compared, integers
from equivalence.exact.standins import stood_in
from equivalence.measure.call import result_names
from equivalence.registry import OPS, remembering
from spec.op import Op
from spec.several import JOIN, unpacked
from spec.tensor import tabulate

DTYPE = "fp32"
"""The dtype of storage, of which the numbers see nothing."""

REQUIRED = inspect.Parameter.empty
"""What stands for a default where there is none."""

COARSE = 2**10
"""A host rounds to fp32 what a probability scales by; up to this denominator it is found again."""


DRAWN_POSITIVE = ("positive", "past_minus_one")
"""The domains of which only positive numbers are drawn."""

SMALL = 300
"""How many entries a small case has at most."""


LARGE: tuple[Shape, ...] = ((3, 260), (2, 1032))
"""The shapes that fill the wide tile of rows, with a block and with two."""

BESIDE: Mapping[str, Callable[[Op, Shape], tuple[Shape, ...]]] = {
    ROWS.name: lambda op, own: (own,) * (1 + len(op.mask_inputs)),
    NORMS.name: with_parameters,
    SCORES.name: lambda op, own: (own, own[:1]),
}
"""By family, whose rows fill that tile: all shapes of a call, from the first."""


def cases(op: str, direction: str, inside: Inside | None = None) -> list[CaseSpec]:
    """Return the cases of a row: the design in which every level is met, each called alone.

    Small ones come again with all tensors contiguous, so that no layout hides what a shape shows,
    and the one whose smallest tensor is the largest with every setting of the attributes, with what
    else it has and without what it may do without.
    inside says which part of the op a backend takes, if not all of it: the design is then that of
    the part, and what comes again lies as the backend takes it, or is left out.
    """
    designed = [
        replace(case, calling="alone")
        for case in strata(op, direction, DTYPE, SINGLES, inside=inside)
        if all(_found_again(op, name, value) for name, value in case.attrs)
        and dtype_of_value(op, case.attributes(), DTYPE) in (TORCH[DTYPE], torch.int64)
    ]
    again = _again(op, designed)
    if inside is not None:
        again = [laid for case in again if (laid := inside.laid(case)) is not None]
    return list(dict.fromkeys([*designed, *again]))


def _again(op: str, designed: Sequence[CaseSpec]) -> list[CaseSpec]:
    """Return what comes beside the design: the small ones contiguous, and the largest of them."""
    small = [_plain(case) for case in designed if _size(case) <= SMALL]
    if not small:
        return []
    largest = max(small, key=_least)
    kept = {name: value for name, value in largest.attrs if not _is_setting(value)}
    settings = [{n: v for n, v in case.attrs if _is_setting(v)} for case in designed]
    bare = {name: value for name, value in kept.items() if OPS[op].attributes[name] is not None}
    with_settings = [
        replace(largest, attrs=attribute_pairs({**own, **set_}))
        for own in (kept, bare)
        for set_ in settings
    ]
    return [*small, *with_settings, *_large(largest)]


def _size(case: CaseSpec) -> int:
    """Count the entries of a case's inputs, or of its result where it has none."""
    return sum(map(prod, case.shapes or (case.output_shape(),)))


def _least(case: CaseSpec) -> int:
    """Count the entries of a case's smallest tensor: of a loss, the labels."""
    return min(map(prod, case.shapes or (case.output_shape(),)))


def _is_setting(value: Any) -> bool:
    """Say whether an attribute is neither a place nor an extent."""
    return isinstance(value, (str, float))


def _large(case: CaseSpec) -> list[CaseSpec]:
    """Return the cases that fill the wide tile of rows."""
    page = OPS[case.op]
    beside = BESIDE.get(family_of(page).name)
    shapes = [] if beside is None else [beside(page, own) for own in LARGE]
    attrs = {**case.attributes(), **({"axis": -1} if "axis" in case.attributes() else {})}
    weight = attrs.get("weight")

    def fitting(classes: int) -> dict[str, Any]:
        if weight is None:
            return attrs
        return {**attrs, "weight": tuple(weight[c % len(weight)] for c in range(classes))}

    return [
        replace(
            case,
            shapes=large,
            recipes=tuple(replace(recipe, layout="contiguous") for recipe in case.recipes),
            attrs=attribute_pairs(fitting(large[0][1])),
        )
        for large in shapes
        if len(large) == len(case.shapes)
    ]


def _plain(case: CaseSpec) -> CaseSpec:
    """Return a case with contiguous tensors, in which some but not all labels are ignored."""
    recipes = [
        Recipe("some_ignored" if recipe.regime in LABELS else recipe.regime, recipe.seed)
        if any(stated.also for stated in OPS[case.op].index_ranges)
        else Recipe(recipe.regime, recipe.seed)
        for recipe in case.recipes
    ]
    cotangent = None if case.cotangent is None else Recipe(case.cotangent.regime)
    return replace(case, recipes=tuple(recipes), cotangent=cotangent)


def _found_again(op: str, name: str, value: Any) -> bool:
    """Say whether a host's rounding leaves enough of an attribute to know what it meant."""
    return name not in chances(OPS[op]) or Fraction(meant(value)).denominator <= COARSE


@remembering
def rescales(op: str) -> bool:
    """Say whether a page chooses among exponents by an order, so that a kernel may rescale."""
    page = OPS[op]
    if page.kind not in ("composite", "pointwise", "irregular"):
        return False
    largest = max(cases(op, "value"), key=_least)
    own = {**usual(page), **largest.attributes()}
    chosen = [{**own, "steps": steps} for steps in page.tried.get("steps", ())] or [own]
    return any(_orders(page, largest, attributes) for attributes in chosen)


def _orders(page: Op, case: CaseSpec, attributes: Mapping[str, Any]) -> bool:
    """Say whether a case, with such attributes, takes exponentials by an order."""
    inputs = [tabulate(shape, _entries(case, k)) for k, shape in enumerate(case.shapes)]
    with stood_in(), traced() as trace:
        page.value(*inputs, **attributes)
    if not trace.ordered or not any(name == "exp" for name, _ in trace.opaque):
        return False
    try:
        with stood_in(homomorphism=True), traced():
            page.value(*inputs, **attributes)
    except TypeError:
        return False  # Its exponents are products, which no kernel moves from one to the other.
    return True


def _entries(case: CaseSpec, k: int) -> Callable[..., Any]:
    """Return entries of an input, by their index: the lowest integer, or all that passes."""
    page = OPS[case.op]
    if k in page.index_inputs:
        same = True if k in page.mask_inputs else integers_of(case, k).lowest
        return lambda *index: same
    return lambda *index: drawn(1 + sum(index))


def judged(case: CaseSpec, seed: int = 0, backend: Backend | None = None) -> Verdict:
    """Compare a backend, our kernels if none is named, and the page at one point of a case."""
    host = FastBackend("fast", "triton", [DTYPE], ring="", device="cpu")
    compare = partial(_compare, case, backend or host)
    asked = describe(case), (seed, case.to_json()), compare
    turned = rescales(case.op)
    verdict = compared(*asked, turned)
    if backend is None or turned or not verdict.differences:
        return verdict
    # A stranger may take exponentials of other sums than the page: related, or not to be told.
    related = compared(*asked, True)
    return verdict if related.differences else related


def _compare(case: CaseSpec, host: Backend, point: Point) -> None:
    """Run both sides, and compare what they return."""
    page = OPS[case.op]
    numbers, memories, cotangents = _tensors(case, point)
    plain = case.attributes()
    attrs, told = handed(case.op, plain, DTYPE), _told(case)
    if not cotangents:
        made = host.value(case.op, memories, attrs)
        _compare_values(case, made, page.value(*numbers, **told), point)
        return
    gradients = host.vjp(case.op, memories, attrs, [seed.memory for seed in cotangents])
    expected = page.vjp(numbers, _joined(page, cotangents), **told)
    for name, found, wanted in zip(page.names(len(numbers)), gradients, expected, strict=True):
        if wanted is not None and found is not None:
            point.same(f"gradient of {name}", found, wanted)
        elif wanted is not None or found is not None:
            point.differs(f"gradient of {name}: one side has none")


def _compare_values(case: CaseSpec, found: Any, expected: Any, point: Point) -> None:
    """Compare the results of a call with what the page says."""
    page = OPS[case.op]
    if page.results is None:
        point.same("result", found, expected, page.kind == "positions")
        return
    types = case.results()
    try:
        listed = several(f"value of {case.op}", found, list(types))
    except Malformed as malformed:
        point.differs(str(malformed))
        return
    due = unpacked(expected, types).values()
    for name, result, wanted in zip(result_names(case), listed, due, strict=True):
        point.same(name, result, wanted)


def _joined(page: Op, cotangents: Sequence[Drawn]) -> Any:
    """Return the cotangent of the record's one result, in which several are joined."""
    numbers = [seed.numbers for seed in cotangents]
    if page.results is None:
        return numbers[0]
    return JOIN.value(*numbers)


def _meant(value: Any) -> Any:
    """Return what an attribute means, or each of several."""
    if isinstance(value, tuple):
        return tuple(map(_meant, value))
    return meant(value) if type(value) is float and isfinite(value) else value


def _told(case: CaseSpec) -> dict[str, Any]:
    """Return the attributes as the page takes them: a float is the fraction that it means."""
    page = OPS[case.op]
    given = {n: v for n, v in {**page.attributes, **case.attributes()}.items() if v is not REQUIRED}
    told = {n: _meant(v) for n, v in given.items()}
    return {**told, "like": drawn(1)} if "like" in page.attributes else told


def _positive(page: Op, k: int, attributes: dict[str, Any]) -> bool:
    return domain(page, k, attributes) in DRAWN_POSITIVE


def _tensors(case: CaseSpec, point: Point) -> tuple[list[Any], list[torch.Tensor], list[Drawn]]:
    """Return the inputs of a case for the page and for the kernel, and the cotangents, if any."""
    page = OPS[case.op]
    attributes = case.attributes()
    forms = [
        Form(shape, recipe.layout, _positive(page, 0 if page.variadic else k, attributes))
        for k, (shape, recipe) in enumerate(zip(case.shapes, case.recipes, strict=True))
        if k not in page.index_inputs
    ]
    if case.cotangent is not None:
        layout = case.cotangent.layout
        forms.extend(Form(shape, layout) for _, shape in case.cotangents())
    real = iter(point.draw(*forms))
    numbers: list[Any] = []
    memories: list[torch.Tensor] = []
    for view in _indices(case):
        if view is None:
            one = next(real)
            numbers.append(one.numbers)
            memories.append(one.memory)
        else:
            numbers.append(integers(view))
            memories.append(view)
    return numbers, memories, list(real)


def _indices(case: CaseSpec) -> Sequence[torch.Tensor | None]:
    """Return the index inputs of a case, None where an input is real."""
    index_inputs = OPS[case.op].index_inputs
    if not index_inputs:
        return [None] * len(case.shapes)
    views = build(case).views()
    return [view if k in index_inputs else None for k, view in enumerate(views)]
