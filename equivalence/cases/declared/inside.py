"""Inside a declaration: which calls a backend takes, asked by designs, draws and rows.

A declaration is data (`Part`) or a predicate of the backend's own. A predicate is the backend's
code: what it answers is remembered, it is asked everything twice, and once more at the end of a
row. One that raises or contradicts itself is `Misdeclared`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from equivalence.cases.call import CaseSpec, Shape, attribute_pairs
from equivalence.cases.declared.calls import (
    CallTypes,
    call_types,
    tensor_types,
    types_of_case,
    types_of_update,
)
from equivalence.cases.declared.part import Part, Predicate
from equivalence.cases.guard import LAYOUTS, ORDERED, is_own
from equivalence.cases.updates.clipping import CLIPPING
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.registry import OPS, OPTIMIZERS
from spec.op import Op, Rejected

Layouts = tuple[str, ...]
"""The layouts of the inputs of a call, and behind them that of its seeds."""


class Misdeclared(Exception):
    """A predicate raised, or answered differently when it was asked again."""


@dataclass(frozen=True)
class Form:
    """A call of a row before its layouts are chosen: one for each input, and one for all seeds."""

    op: str
    direction: str
    dtype: str
    shapes: tuple[Shape, ...]
    attrs: tuple[tuple[str, Any], ...]
    results: tuple[Shape, ...]

    def call(self, layouts: Layouts) -> CallTypes:
        """Return the types of the call in some layouts, its seeds' behind its inputs'."""
        where = (self.op, self.direction, self.dtype, self.shapes, dict(self.attrs), self.results)
        return call_types(*where, layouts[:-1], layouts[-1])

    def all_in(self, layout: str) -> Layouts:
        """Let all tensors lie alike."""
        return (layout,) * (len(self.shapes) + 1)

    def at(self, k: int) -> tuple[Shape, ...]:
        """Return the shape of an input, or those of the seeds behind the last."""
        if k < len(self.shapes):
            return (self.shapes[k],)
        integer = OPS[self.op].index_inputs
        real = tuple(shape for j, shape in enumerate(self.shapes) if j not in integer)
        return {"vjp": self.results, "jvp": real}.get(self.direction, ())

    def layouts(self) -> Iterator[Layouts]:
        """Yield layouts: all tensors in one, or one of them in another order of its axes."""
        places = range(len(self.shapes) + 1)
        own = {k: [n for n in LAYOUTS if any(is_own(s, n) for s in self.at(k))] for k in places}
        for layout in LAYOUTS:
            if any(layout in among for among in own.values()):
                yield self.all_in(layout)
        plain = self.all_in(LAYOUTS[0])
        for k in places:
            for layout in own[k]:
                if layout in ORDERED:
                    yield (*plain[:k], layout, *plain[k + 1 :])


class Inside:
    """Says of the calls of one row whether a backend takes them.

    declared  whether the backend declares which part of the op it takes
    extras    the extra hyper-parameters of an optimizer that it takes
    """

    def __init__(
        self,
        declared: Part | Predicate | None,
        direction: str,
        dtype: str,
        extras: tuple[str, ...] = (),
    ) -> None:
        """Remember the declaration and the row; None declares nothing, and narrows nothing."""
        self.declared = declared is not None
        declared = Part() if declared is None else declared
        self.part = declared if isinstance(declared, Part) else None
        self._predicate = None if isinstance(declared, Part) else declared
        self.direction, self.dtype, self.extras = direction, dtype, extras
        self._known: dict[CallTypes, bool] = {}
        self._bases: dict[Form, Layouts | None] = {}
        self._narrowed: dict[str, Op] = {}

    def takes(self, call: CallTypes) -> bool:
        """Say whether a call is taken."""
        if call not in self._known:
            self._known[call] = self._asked(call)
        return self._known[call]

    def again(self) -> None:
        """Ask a predicate all it was asked before, once more; Misdeclared where an answer differs.

        A predicate that counts its calls, or looks at a clock, is found here.
        """
        if self._predicate is not None:
            for call, before in self._known.items():
                self._compare(call, before, self._said(call))

    def takes_case(self, case: Any) -> bool:
        """Say whether a case of any kind is taken."""
        if not self.declared:
            return True
        case = getattr(case, "case", case)  # that of a large one
        if isinstance(case, UpdateSpec):
            return all(map(self.takes, types_of_update(case)))
        assert isinstance(case, CaseSpec)
        return self.takes(types_of_case(case))

    def takes_invalid(
        self, op: str, shapes: Sequence[Shape], attributes: Mapping[str, Any]
    ) -> bool:
        """Say whether a call is taken that the page refuses.

        Nobody need foresee one, so that a predicate that raises at it does not take it.
        """
        layouts = ("contiguous",) * len(shapes)
        try:
            call = call_types(op, "value", self.dtype, shapes, attributes, (), layouts)
            return self.part.takes(call) if self.part else bool(self._predicate_of()(call))
        except Exception:
            return False

    def structure(self, form: Form) -> bool:
        """Say whether a call of some form may be taken, in some layout of its tensors.

        A predicate is asked about tensors of one layout, and of one in another order of its axes
        beside contiguous ones.
        """
        if self.part is not None:
            return self.part.takes_structure(form.call(form.all_in(LAYOUTS[0])))
        if form not in self._bases:
            among = (laid for laid in form.layouts() if self.takes(form.call(laid)))
            self._bases[form] = next(among, None)
        return self._bases[form] is not None

    def tensor(self, form: Form, k: int, layout: str) -> bool:
        """Say whether a tensor of a form, its seeds behind its inputs, may lie in a layout.

        A predicate is asked about it beside tensors that lie as it takes them, and beside others
        of the same layout.
        """
        if self.part is not None:
            return all(
                self.part.takes_tensor(tensor_types(shape, "", layout)) for shape in form.at(k)
            )
        base = self._bases.get(form)
        if base is None:
            return False
        return any(
            self.takes(form.call(laid))
            for laid in ((*base[:k], layout, *base[k + 1 :]), form.all_in(layout))
        )

    def laid(self, case: CaseSpec) -> CaseSpec | None:
        """Return a case whose tensors lie as they may, as it is where it may; None where none is.

        Where a backend takes few layouts, hardly any drawn case would lie in them.
        """
        if self.takes_case(case):
            return case
        among = (self._all_in(case, layout) for layout in LAYOUTS)
        return next((found for found in among if self.takes_case(found)), None)

    def with_values(self, case: CaseSpec) -> CaseSpec:
        """Return a case whose attributes have the first of the values that are declared."""
        if self.part is None:
            return case
        first = {n: next(iter(values)) for n, values in self.part.attributes.items() if values}
        changed = replace(case, attrs=attribute_pairs({**case.attributes(), **first}))
        try:
            changed.output_shape()
        except Rejected:
            return case
        return changed

    def narrowed(self, op: Op) -> Op:
        """Return a page that is tried at the declared values of its attributes alone.

        It is always the same one, as what is known of a page is remembered by its record.
        """
        values = {} if self.part is None else self.part.attributes
        if not values.keys() & op.tried.keys():
            return op
        if op.name not in self._narrowed:
            tried = {
                name: tuple(values[name]) if name in values else among
                for name, among in op.tried.items()
            }
            self._narrowed[op.name] = replace(op, tried=tried)
        return self._narrowed[op.name]

    def _all_in(self, case: CaseSpec, layout: str) -> CaseSpec:
        changed: dict[str, Any] = {n: replace(r, layout=layout) for n, r in case.seeds()}
        recipes = tuple(replace(recipe, layout=layout) for recipe in case.recipes)
        return replace(case, recipes=recipes, **changed)

    def _asked(self, call: CallTypes) -> bool:
        if self.part is not None:
            return self.part.takes(call)
        first = self._said(call)
        self._compare(call, first, self._said(call))
        return first

    def _compare(self, call: CallTypes, first: bool, second: bool) -> None:
        if first != second:
            raise Misdeclared(
                f"the predicate of {call.op} says first {first}, then {second}, of one call: it "
                f"may look at types, attributes and layouts alone ({_shown(call)})"
            )

    def _said(self, call: CallTypes) -> bool:
        try:
            return bool(self._predicate_of()(call))
        except Exception as error:
            raise Misdeclared(
                f"the predicate of {call.op} raised {type(error).__name__}: {error} "
                f"({_shown(call)})"
            ) from error

    def _predicate_of(self) -> Callable[[CallTypes], bool]:
        assert self._predicate is not None
        return self._predicate


def narrowing(inside: Inside | None) -> Inside | None:
    """Return what narrows a row; who names extras alone narrows nothing."""
    return inside if inside is not None and inside.declared else None


def all_of(optimizer: str, dtype: str) -> Inside:
    """Take all of an optimizer, its extra hyper-parameters and all of clipping among it."""
    return Inside(None, "update", dtype, (*OPTIMIZERS[optimizer].extras, *CLIPPING))


def _shown(call: CallTypes) -> str:
    """Return the call that a predicate was asked about, in words."""
    inputs = ", ".join(f"{x.dtype}[{','.join(map(str, x.shape))}] {x.layout}" for x in call.inputs)
    attributes = "".join(f", {name}={value!r}" for name, value in call.attrs)
    return f"{call.direction} of {call.op}({inputs}{attributes})"
