"""Each pattern of a failing case in a sentence that a reader of a report understands.

A case names its patterns in a word: how the call was made, how tensors lie in memory, whose tensors
the gradients of an optimizer are, and what happens between its steps. A test holds that every word
has a sentence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from equivalence.budgets.outcome import Detail
from equivalence.cases.call import CaseSpec
from equivalence.measure.between.events import OFFERS, without
from equivalence.measure.plainly import ALONE, CONTIGUOUS, OWN
from equivalence.runs.kinds import Case, Kind

CALLINGS: Mapping[str, tuple[str, str]] = {
    "again": (
        "the same call was made just before",
        "does the first call leave something behind, such as a buffer that is added to?",
    ),
    "repeated": (
        "the same tensors held other numbers in a call just before",
        "is something kept by address or by shape?",
    ),
    "late": (
        "the result was read after a later call, when its inputs held other numbers",
        "an earlier result changed after a later call: do two results share memory, or does a "
        "result wait to be computed?",
    ),
    "shared": (
        "tensors of one shape are one and the same tensor",
        "is one of them written to, or are gradients kept by tensor?",
    ),
    "overlapping": (
        "the tensors are views of one allocation that overlap",
        "is one of them written to, or taken for the whole allocation?",
    ),
}
"""What a calling pattern is, and what to ask of a backend that fails under it alone."""

STRIDES = "are all strides of the tensor read?"

LAYOUTS_SAID: Mapping[str, tuple[str, str]] = {
    "offset": ("contiguous, but three elements off every alignment", "are aligned loads assumed?"),
    "padded": ("a slice of a wider matrix: rows are further apart than they are long", STRIDES),
    "strided": ("every second element along the last axis", "is its last stride taken to be 1?"),
    "stepped": ("every second slice along the first axis", STRIDES),
    "transposed": ("its axes lie in memory in reverse order", STRIDES),
    "swapped": ("its last two axes have changed places in memory", STRIDES),
    "led": ("its first two axes have changed places in memory", STRIDES),
    "rotated": ("its first axis lies innermost in memory", STRIDES),
    "rolled": ("its last axis lies outermost in memory", STRIDES),
    "expanded": ("stride 0 along the first axis: one slice stands for all", STRIDES),
    "hollow": ("stride 0 along a middle axis: one slice stands for all", STRIDES),
    "broadcast": ("stride 0 along the last axis: one number stands for a row", STRIDES),
}
"""How a tensor lies in memory, and what to ask of a backend that fails on this alone."""

HANDINGS_SAID: Mapping[str, tuple[str, str]] = {
    "reused": (
        "each step is handed the same gradient tensors with other numbers",
        "is an earlier gradient kept without a copy?",
    ),
    "shared": (
        "parameters of one shape are handed one and the same gradient tensor",
        "is a gradient written to, or freed, when the first of them is updated?",
    ),
}
"""Whose tensors the gradients are, and what to ask."""

COMPANY_SAID: Mapping[str, str] = {
    "otherwise": "other handles of this optimizer step in turn, with other hyper-parameters and in "
    "another dtype: is something kept by name or by shape?",
}
"""Which handles there are beside the one that is judged."""

EVENTS_SAID: Mapping[str, str] = {
    "set_lr": "the learning rate of every group is set anew: is the old one kept?",
    "set_first_lr": "the learning rate of the first group alone is set: do the others keep theirs?",
    "set_hyper": "a hyper-parameter of every group is set anew: is the old one kept?",
    "set_grad_scale": "gradients come with another scale from now on: is the old one kept?",
    "set_max_norm": "the norm has another bound from now on: is the old one kept?",
    "load": "a state is loaded: are its tensors copied, and do step counts go on from it?",
    "write": "every second parameter is overwritten: is an own copy of it kept?",
    "write_state": "every moment is overwritten: is an own copy of it kept?",
}
"""What happens between two steps."""


ABSORBED = (
    "beside an infinity, a cotangent of 0 gives NaN here and 0 by the page, whose div, log, sqrt "
    "and pow let none pass (docs/own-ops.md): is a cotangent of 0 masked?"
)
"""What to say of a gradient that is NaN where the page is not, beside an infinite input."""


def absorbed(case: Case, detail: Detail) -> str:
    """Say that a page stops a cotangent of 0, where that may be why a gradient should be no NaN."""
    if not isinstance(case, CaseSpec) or case.direction != "vjp" or detail.got != "nan":
        return ""
    numbers = {n.strip(" []") for _, text in detail.inputs for n in text.split(",")}
    infinite, zero = numbers & {"inf", "-inf"}, numbers & {"0.0", "-0.0"}
    finite = not any(word in detail.exact for word in ("nan", "inf"))
    return ABSORBED if infinite and zero and finite else ""


def sentences(
    kind: Kind, case: Case, cause: str | None = None, left_out: Collection[str] = ()
) -> Iterator[str]:
    """Yield a sentence for each pattern of a case that is not the plain one, and may be to blame.

    cause names the plain ways in which the numbers of the case pass, if it is known: a layout, a
    calling pattern or a handing of gradients that is not among them is not to blame. left_out says
    what did not happen: an event whose method the handle does not have.
    """
    own: Any = getattr(case, "case", case)  # that of a large one

    def suspect(way: str) -> bool:
        return cause is None or way in cause

    calling, handing = getattr(own, "calling", ""), getattr(own, "handing", "")
    if calling in CALLINGS and suspect(ALONE):
        yield f"called {calling!r}: {'; '.join(CALLINGS[calling])}"
    for name, layout in _laid(kind, case) if suspect(CONTIGUOUS) else ():
        lies = "lie" if name.endswith("s") else "lies"
        yield f"{name} {lies} {layout!r}: {'; '.join(LAYOUTS_SAID[layout])}"
    if handing in HANDINGS_SAID and suspect(OWN):
        yield f"gradients come {handing!r}: {'; '.join(HANDINGS_SAID[handing])}"
    if getattr(own, "company", "") in COMPANY_SAID:
        yield f"beside other handles: {COMPANY_SAID[own.company]}"
    for event in getattr(own, "events", ()):
        if without(OFFERS[event.kind]) in left_out:
            continue
        yield f"{event.kind!r} before step {event.step}: {EVENTS_SAID[event.kind]}"


def _laid(kind: Kind, case: Case) -> Iterator[tuple[str, str]]:
    """Name the tensors that do not lie row-major, and how they lie."""
    own: Any = getattr(case, "case", case)
    named = [(f"input {k}", recipe) for k, recipe in enumerate(getattr(own, "recipes", ()))]
    named = [*named, *own.seeds()] if hasattr(own, "seeds") else [*kind.recipes(case)]
    for name, recipe in named:
        if recipe.layout in LAYOUTS_SAID:
            yield name, recipe.layout
