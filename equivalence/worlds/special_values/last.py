"""The last step of special scalars: rounding to storage, and what forms of a formula may store.

>>> from equivalence.worlds.contract import FP16, Contract
>>> from equivalence.worlds.special_values.sets import Line
>>> from equivalence.worlds.special_values.steps import lifted
>>> (large,) = lifted(Line(Contract("ieee", FP16, FP16)), 2.0**15)
>>> large + large, stored(large + large)
({inf, Bounded(65536.0000000000, exact)}, {inf})
"""

from __future__ import annotations

from equivalence.worlds import bounded, number, past, storage
from equivalence.worlds.bounded import Bounded
from equivalence.worlds.contract import BF16
from equivalence.worlds.kinds import ANYTHING, NOT_A_NUMBER, judged
from equivalence.worlds.special_values.sets import SpecialValues, beyond
from spec import scalar

ONE_FORM, MANY_FORMS, LEAVING_FORMS, LARGE_FORMS = 0, 1, 2, 3
"""How a formula may be evaluated: step by step as it stands; in other forms, equal on paper; in
forms whose steps overflow where some of its own do, and meet otherwise than these; in others again,
whose intermediate results may overflow where its own do not."""


def stored(x: Bounded | SpecialValues, forms: int = ONE_FORM) -> Bounded | SpecialValues:
    """Round to the storage format: the last step of every result, of either world.

    Another form of a formula meets its infinities in another order. So of many forms only that a
    result is not finite is told, unless a NaN among the inputs caused it. Where some step has left
    the range, infinities that cancel may leave none of a finite result. Nothing is told where
    factors that are multiplied in another order may overflow.
    """
    if isinstance(x, Bounded):
        return bounded.stored(x)
    kinds, finite = x.kinds, x.finite
    if finite is not None:
        if not past.stays(finite, x.line.steps.largest):
            return SpecialValues(x.line, ANYTHING, x.line.unknown())
        finite = bounded.stored(finite)
        largest = x.line.store
        if not finite.unconstrained:
            # Where results are not rounded again, the step before has said what they may become.
            kinds |= beyond(finite.w, largest) if x.line.steps.narrowed else 0
            finite = None if finite.w > largest or finite.w < -largest else finite
    large = forms == LARGE_FORMS and not x.lost
    if large and finite is None:
        # In another form, what is too large here may divide a finite number.
        return SpecialValues(x.line, ANYTHING, x.line.unknown())
    leaving = forms == LEAVING_FORMS and not x.lost
    if large or leaving or (forms and kinds not in (0, NOT_A_NUMBER)):
        kinds = ANYTHING
    return (
        finite if finite is not None and not kinds else SpecialValues(x.line, judged(kinds), finite)
    )


@storage.saved.register(SpecialValues)
def _saved(x: SpecialValues) -> SpecialValues:
    found = x.line.special(stored(x))
    if found.finite is None or x.finite is None:
        return found
    return SpecialValues(x.line, found.kinds, past.around(found.finite, x.finite.v))


@scalar.in_bf16.register(SpecialValues)
def _in_bf16(x: SpecialValues) -> SpecialValues:
    if x.finite is None:
        return x
    found = x.line.within(scalar.in_bf16(x.finite), BF16.max_finite)
    x.line.left |= bool(found.kinds)
    return SpecialValues(x.line, x.kinds | found.kinds, found.finite, x.beside)


@storage.narrowly.register(SpecialValues)
def _narrowly(total: SpecialValues, size: SpecialValues, count: int) -> SpecialValues:
    line = total.line
    if total.finite is None:
        return total
    if size.finite is None:
        return line.anything()
    found = storage.narrowly(total.finite, size.finite, count)
    # A partial sum may leave the narrow format where the whole does not.
    over = beyond(found.w, line.store) or beyond(size.finite.w, line.store)
    return (
        line.anything() if over or found.unconstrained else SpecialValues(line, total.kinds, found)
    )


def either_of(x: Bounded | SpecialValues, y: Bounded | SpecialValues) -> Bounded | SpecialValues:
    """Allow what two programs of one page may store; x is the page's own.

    A number that may vanish has several exact values here, of which each program names one; that
    they are programs of one page, the finite world sees.
    """
    if isinstance(x, Bounded) and isinstance(y, Bounded):
        return past.hull(x, y)
    line = x.line if isinstance(x, SpecialValues) else y.line  # type: ignore[union-attr]
    one, two = line.special(x), line.special(y)
    finite = one.finite or two.finite
    if one.finite is not None and two.finite is not None:
        finite = past.hull(one.finite, two.finite)
    return SpecialValues(line, one.kinds | two.kinds, finite)


def unsettled(x: Bounded | SpecialValues) -> Bounded | SpecialValues:
    """Let no step on an exact number be exact, in either world."""
    if isinstance(x, Bounded):
        return number.unsettled(x)
    return x if x.finite is None else SpecialValues(x.line, x.kinds, number.unsettled(x.finite))
