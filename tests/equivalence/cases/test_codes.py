"""The family of ops of integers beside real tensors finds the shapes that suit them by trying."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from equivalence.cases.built import build
from equivalence.cases.call import case_from_dict
from equivalence.cases.families.indexed.codes import arrangement, led
from equivalence.cases.families.table import NoFamily, family_of
from equivalence.cases.sizes import build_sized, growths, sized
from equivalence.cases.strata.fixed import extras, strata
from equivalence.cases.strategies import case_specs, draw_many
from equivalence.registry import OPS, registered
from equivalence.trials.trial import trial
from spec.composite import composite
from spec.op import IndexRange, Op, Type, refuse
from spec.shape import Shape

CODE = IndexRange("C3", lambda *types, **attributes: (-8, 7), called="code")
ROW = IndexRange("C3", lambda codes, book, *others: (0, book.shape[0] - 1))


def made(name: str, rule: Callable[..., Shape | None], program: Any, **ranges: IndexRange) -> Op:
    """Return a composite whose rule returns the shape of the result, or None where none suits.

    Ranges are those of the inputs that hold integers, by name.
    """

    def type_rule(*types: Type, **attributes: Any) -> Type:
        shape = rule(*(type_.shape for type_ in types), **attributes)
        if shape is None:
            raise refuse(f"{name} C1", "the shapes suit each other", types)
        return Type(shape)

    used = ("add", "sub", "mul", "matmul", "permute", "take", "reshape", "broadcast_to")
    op = composite(name, type_rule, program, tuple(OPS[u] for u in used))
    places = tuple(k for k, own in enumerate(op.inputs) if own in ranges)
    return composite(
        name,
        type_rule,
        program,
        op.uses,
        index_inputs=places,
        index_ranges=tuple(ranges.values()),
    )


def _layer(x: Shape, codes: Shape, scale: Shape, zero: Shape, bias: Shape) -> Shape | None:
    fits = len(x) > 0 and len(codes) == 2 and x[-1:] == codes[1:]
    return (*x[:-1], codes[0]) if fits and scale == zero == bias == codes[:1] else None


def _affine(ops: Any, x: Any, codes: Any, scale: Any, zero: Any, bias: Any) -> Any:
    (out, inner), rows = codes.shape, 1
    for extent in x.shape[:-1]:
        rows *= extent
    zeros = ops.broadcast_to(ops.reshape(zero, shape=(out, 1)), shape=(out, inner))
    weight = ops.permute(ops.sub(codes, zeros), axes=(1, 0))
    y = ops.matmul(ops.reshape(x, shape=(rows, inner)), weight)
    scaled = ops.mul(y, ops.broadcast_to(scale, shape=y.shape))
    biased = ops.add(scaled, ops.broadcast_to(bias, shape=y.shape))
    return ops.reshape(biased, shape=(*x.shape[:-1], out))


def _booked(codes: Shape, book: Shape, scale: Shape) -> Shape | None:
    return codes if len(codes) == 2 and len(book) == 1 and scale == codes[:1] else None


def _looked_up(ops: Any, codes: Any, book: Any, scale: Any) -> Any:
    each = ops.reshape(scale, shape=(codes.shape[0], 1))
    return ops.mul(ops.take(book, codes, axis=0), ops.broadcast_to(each, shape=codes.shape))


def _gated(x: Shape, gates: Shape) -> Shape | None:
    return x if len(x) == 2 and gates == x[1:] else None


def _through_gates(ops: Any, x: Any, gates: Any) -> Any:
    return ops.mul(x, ops.broadcast_to(gates, shape=x.shape))


def _grouped(codes: Shape, scale: Shape) -> Shape | None:
    fits = len(codes) == 2 == len(scale) and codes[0] == scale[0] and scale[1] > 0
    return codes if fits and codes[1] % scale[1] == 0 else None


def _in_groups(ops: Any, codes: Any, scale: Any) -> Any:
    (out, inner), groups = codes.shape, scale.shape[1]
    cut = (out, groups, inner // groups)
    scales = ops.broadcast_to(ops.reshape(scale, shape=(out, groups, 1)), shape=cut)
    return ops.reshape(ops.mul(ops.reshape(codes, shape=cut), scales), shape=codes.shape)


ROWS, COLUMNS = ("rows", "inner"), ("columns",)
PAGES = [
    (
        made("affine_layer", _layer, _affine, codes=CODE, zero=CODE),
        (ROWS, ("columns", "inner"), COLUMNS, COLUMNS, COLUMNS),
        0,
    ),
    (made("booked", _booked, _looked_up, codes=ROW), (ROWS, COLUMNS, ("rows",)), None),
    (made("gated", _gated, _through_gates, gates=CODE), (ROWS, ("inner",)), None),
    (made("in_groups", _grouped, _in_groups, codes=CODE), (ROWS, ("rows", "groups")), None),
]
ALL = pytest.mark.parametrize(("op", "forms", "rows"), PAGES, ids=lambda x: getattr(x, "name", ""))


@ALL
def test_shapes_are_found_and_the_page_is_tried(op: Op, forms: Any, rows: int | None) -> None:
    with registered(op):
        assert family_of(op).name == "codes"
        assert (arrangement(op), led(op)) == (forms, rows)
        found = trial(op)
        assert found.tried == 30 and not found.broken and not found.untried


@ALL
def test_every_case_is_a_call_that_the_page_accepts(op: Op, forms: Any, rows: int | None) -> None:
    with registered(op):
        drawn = draw_many(case_specs(op.name, "vjp", "fp32"), 20, 0)
        fixed = strata(op.name, "value", "fp32")
        assert len(drawn) > 10 and len(fixed) > 10
        for case in (*fixed, *drawn, *extras(op.name, "value", "fp32")):
            build(case_from_dict(case.to_dict()))
            case.output_shape()
        for growth in growths(op.name):
            large = sized(growth, 66, op.name, "value", "fp32", "integers")
            build_sized(large)
            assert large.case.output_shape()


def test_an_op_of_no_related_extents_has_no_family() -> None:
    def none(x: Shape, codes: Shape) -> Shape | None:
        return x if x == (4, 4, 4, 4) else None

    odd = made("odd", none, _through_gates, gates=CODE)
    with (
        registered(odd),
        pytest.raises(NoFamily, match=r"no family of .* takes odd: .*, codes; name"),
    ):
        family_of(odd)
