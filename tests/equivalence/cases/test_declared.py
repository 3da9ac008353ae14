"""Declarations of parts of ops: what they say of a call, what is refused, designs inside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

from equivalence.backends import UnknownBackend, check, declared
from equivalence.backends.protocol import Capabilities
from equivalence.cases.call import CaseSpec, Recipe
from equivalence.cases.covering import PAIRS, SINGLES
from equivalence.cases.declared.calls import tensor_types, types_of_case, types_of_update
from equivalence.cases.declared.inside import Inside
from equivalence.cases.declared.part import Part
from equivalence.cases.declared.reading import read_declaration
from equivalence.cases.guard import LAYOUTS, guard, is_own
from equivalence.cases.sizes import SizedCase
from equivalence.cases.strata.fixed import designed, extras, strata
from equivalence.cases.strategies import case_specs, draw_many
from equivalence.cases.updates.design import designed_updates, update_specs, update_strata
from equivalence.measure.grids import by_launches
from equivalence.measure.sizes import full
from equivalence.runs.results import Row
from equivalence.runs.sized import SizedCalls


class Offering:
    """A backend that offers something, and does nothing."""

    name = "offering"
    value = vjp = None

    def __init__(self, *offers: Any, **more: Any) -> None:
        self.offers = Capabilities(offers[0], declared("torch"), *offers[1:], **more)

    def capabilities(self) -> Capabilities:
        return self.offers


@pytest.mark.parametrize(
    ("op", "takes", "says"),
    [
        ("softmax", {"axs": (1,)}, r"unknown key 'axs' \(nearest: axes"),
        ("softmax", {"layouts": ["contigous"]}, r"unknown layout 'contigous' \(nearest: contig"),
        ("softmax", {"orders": ["row_major"]}, r"unknown order 'row_major' \(nearest: row-major"),
        ("softmax", {"orders": [(0, 2)]}, r"an order is a name or the axes 0, 1, "),
        ("softmax", {"ranks": 2}, r"ranks is a collection, such as \(2,\); got 2"),
        ("softmax", {"ranks": ["2"]}, r"ranks is a collection of integers"),
        ("softmax", {"empty": 0}, r"empty is True or False; got 0"),
        ("softmax", {"directions": ["val"]}, r"unknown direction 'val' \(nearest: value"),
        ("softmax", {"options": []}, r"options are those of an optimizer"),
        ("softmax", {"attributes": {"axsi": [1]}}, r"unknown attribute 'axsi' \(nearest: axis"),
        ("gelu", {"attributes": {"approximate": "none"}}, r"such as \('none',\); got 'none'"),
        ("gelu", {"attributes": {"approximate": ["non"]}}, r"unknown value of approximate 'non'"),
        ("gelu", {"axes": (-1,)}, r"of which gelu has none; it has approximate"),
        ("sgd", {"options": ["group"]}, r"unknown option 'group' \(nearest: groups"),
        ("sgd", {"attributes": {"momentm": [0.9]}}, r"unknown hyper-parameter 'momentm'"),
        ("sgd", {"axes": [1]}, r"sgd is an optimizer, of which no direction or axis is"),
        ("gelu", 3, r"a dictionary with keys of attributes, .* got int"),
    ],
)
def test_what_does_not_exist_is_refused_by_name(op: str, takes: Any, says: str) -> None:
    offers = ({}, {op: ["fp32"]}) if op == "sgd" else ({op: ["fp32"]},)
    with pytest.raises(UnknownBackend, match=says):
        check("it", Offering(*offers, takes={op: takes}))


def test_only_what_is_offered_is_narrowed() -> None:
    with pytest.raises(UnknownBackend, match=r"does not offer: .*'sofmax' \(nearest: softmax\)"):
        check("it", Offering({"softmax": ["fp32"]}, takes={"sofmax": {}}))
    with pytest.raises(UnknownBackend, match="takes is no mapping"):
        check("it", Offering({"softmax": ["fp32"]}, takes=["softmax"]))


@pytest.mark.parametrize("offers", [({"square": "fp32"},), ({}, {"sgd": "fp32"})])
def test_a_text_where_dtypes_are_wanted_is_told_what_to_write(offers: Any) -> None:
    with pytest.raises(UnknownBackend, match=r"are a collection; for 'fp32' write \('fp32',\)"):
        check("it", Offering(*offers))
    with pytest.raises(UnknownBackend, match=r"are a collection, such as \('fp32',\); got 32"):
        check("it", Offering({"square": 32}))


def test_a_family_where_a_contract_is_wanted_is_told_what_to_write() -> None:
    class Named(Offering):
        def capabilities(self) -> Capabilities:
            return Capabilities({"square": ("fp32",)}, "generic")  # type: ignore[arg-type]

    with pytest.raises(UnknownBackend, match=r"write declared\('generic'\)"):
        check("it", Named({}))


def call(op: str, *shapes: tuple[int, ...], layout: str = "contiguous", **attrs: Any) -> CaseSpec:
    recipes = tuple(Recipe(layout=layout) for _ in shapes)
    return CaseSpec(op, "value", "fp32", shapes, recipes, tuple(sorted(attrs.items())))


@pytest.mark.parametrize(
    ("part", "inside", "outside"),
    [
        (Part(ranks=(2,)), call("softmax", (3, 4)), call("softmax", (3, 4, 2))),
        (Part(axes=(-1,)), call("softmax", (3, 4), axis=1), call("softmax", (3, 4), axis=0)),
        (Part(axes=(0,)), call("softmax", (3, 4), axis=-2), call("softmax", (3, 4))),
        (Part(axes=(-1,)), call("sum", (4,)), call("sum", (3, 4))),
        (Part(axes=(-1,)), call("sum", (3, 4), axes=(1,)), call("sum", (3, 4), axes=())),
        (Part(axes=(-1,)), call("sum", (4,), axes=(-1,)), call("sum", ())),
        (Part(axes=(0, -1)), call("sum", (3, 4), axes=(0,)), call("sum", (3, 4), axes=(0, 1))),
        (Part(axes=((0, -1),)), call("sum", (3, 4), axes=(1, 0)), call("sum", (3, 4), axes=(1,))),
        (Part(axes=((-1, -2),)), call("sum", (3, 4)), call("sum", (2, 3, 4))),
        (Part(axes=(-1, ())), call("sum", (3, 4), axes=()), call("sum", (3, 4))),
        (Part(empty=False), call("square", (3,)), call("square", (3, 0))),
        (
            Part(layouts=("contiguous",)),
            call("square", (1, 4), layout="transposed"),
            call("square", (3, 4), layout="transposed"),
        ),
        (
            Part(orders=("row-major",)),
            call("square", (3, 4), layout="padded"),
            call("square", (3, 4), layout="transposed"),
        ),
        (
            Part(orders=((1, 0),)),
            call("square", (3, 4), layout="transposed"),
            call("square", (3, 4)),
        ),
        (
            Part({"approximate": ("none",)}),
            call("gelu", (3,)),
            call("gelu", (3,), approximate="tanh"),
        ),
        (Part(directions=("value",)), call("exp", (3,)),
         replace(call("exp", (3,)), direction="vjp", cotangent=Recipe())),
    ],
)  # fmt: skip
def test_what_a_part_says(part: Part, inside: CaseSpec, outside: CaseSpec) -> None:
    assert part.takes(types_of_case(inside)) and not part.takes(types_of_case(outside))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(), (3,), (1, 4), (3, 4), (2, 3, 4), (2, 0)])
def test_the_types_of_a_tensor_are_those_of_its_memory(shape: Any, layout: str) -> None:
    types = tensor_types(shape, "fp32", layout)
    view = guard([0.0] * 24, (2, 3, 4), torch.float32, "contiguous").view
    if 0 not in shape and layout not in ("expanded", "hollow", "broadcast"):
        count = int(torch.Size(shape).numel())
        view = guard([0.0] * count, shape, torch.float32, layout).view
        assert types.strides == view.stride() and types.contiguous == view.is_contiguous()
    assert types.layout == layout or not is_own(shape, layout)


LAID: Mapping[str, Any] = {"layouts": ["contiguous"]}

TWO_D = {"ranks": [2], "axes": [-1], "layouts": ["contiguous", "transposed"]}


@pytest.mark.parametrize("direction", ["value", "vjp"])
@pytest.mark.parametrize("takes", [TWO_D, lambda call: call.inputs[0].rank == 2], ids=["data", "f"])
def test_designs_and_draws_lie_inside(takes: Any, direction: str) -> None:
    where = ("softmax", direction, "fp32")
    inside = Inside(read_declaration("softmax", takes), direction, "fp32")
    rows = designed(*where, PAIRS, (), inside)
    drawn = draw_many(case_specs(*where, None, inside), 20, 0)
    assert len(rows) > 50 and drawn
    for case in (*(case for case, _ in rows), *extras(*where, inside), *drawn):
        assert len(case.shapes[0]) == 2
        assert inside.takes_case(case)
    met = {(name, level) for _, levels in rows for name, level in levels.items()}
    single = designed(*where, SINGLES, (), inside)
    assert {item for _, levels in single for item in levels.items()} <= met
    assert {level for name, level in met if name == "extent"} >= {1, 33, 1025}
    inside.again()


def test_a_value_that_nobody_tries_is_drawn_where_it_is_the_declared_one() -> None:
    takes: Mapping[str, Any] = {"attributes": {"eps": [3e-6]}}
    inside = Inside(read_declaration("layer_norm", takes), "value", "fp32")
    cases = strata("layer_norm", "value", "fp32", inside=inside)
    assert cases and {case.attributes()["eps"] for case in cases} == {3e-6}


def test_an_optimizer_is_asked_for_the_options_that_it_takes() -> None:
    takes = {"options": ["max_norm"], "attributes": {"nesterov": [False]}}
    inside = Inside(read_declaration("sgd", takes), "update", "fp32")
    rows = designed_updates("sgd", "fp32", PAIRS, (), inside)
    drawn = draw_many(update_specs("sgd", "fp32", inside), 10, 0)
    assert len(rows) > 30 and drawn
    for case in (*(case for case, _ in rows), *drawn):
        assert not case.groups and not case.missing and case.grad_scale == 1.0
        assert not any(call.attributes["nesterov"] for call in types_of_update(case))
    assert {case.max_norm is None for case, _ in rows} == {True, False}
    assert max(case.steps for case, _ in rows) == 1000, "the walk goes without groups"


def test_nothing_declared_changes_nothing() -> None:
    everything = Inside(Part(), "vjp", "fp32")
    assert strata("mul", "vjp", "fp32", PAIRS) == strata("mul", "vjp", "fp32", PAIRS, (), None)
    plain = {case.shapes for case in strata("mul", "vjp", "fp32")}
    assert {case.shapes for case in strata("mul", "vjp", "fp32", inside=everything)} & plain
    assert update_strata("sgd", "fp32", inside=Inside(Part(), "update", "fp32")) == update_strata(
        "sgd", "fp32"
    )


def test_a_large_call_is_made_as_a_backend_takes_it() -> None:
    part = read_declaration("gelu", {"attributes": {"approximate": ["tanh"]}, **LAID})
    inside = Inside(part, "value", "fp32")
    every = full("gelu", "value", "fp32")
    kind = SizedCalls(Row("gelu", "value", "fp32"), every, inside)
    assert len(kind.fixed()) == len(every)
    for case in kind.fixed():
        assert inside.takes_case(case) and case.case.attributes() == {"approximate": "tanh"}
    changed = [kind.levels(case) for case in kind.fixed()]
    assert not any(levels in changed for levels in kind.whole()), "nothing was left to judge"
    none = Inside(read_declaration("gelu", lambda call: False), "value", "fp32")
    assert not SizedCalls(Row("gelu", "value", "fp32"), every, none).fixed()


def test_sizes_are_read_from_launches_of_what_is_taken() -> None:
    asked: list[SizedCase] = []

    def fit(case: SizedCase) -> SizedCase | None:
        asked.append(case)
        return case if max(case.case.shapes[0]) <= 16 else None

    class Watching:
        def value(self, op: str, inputs: Any, attrs: Any) -> Any:
            assert max(inputs[0].shape) <= 16, "asked outside the declared part"
            return inputs[0].clone()

    found = by_launches(Watching(), "softmax", "value", "fp32", all_of_them=True, fit=fit)
    assert asked and found and all(max(case.case.shapes[0]) > 16 for case in found)
