"""The picture of a tape: every node, every edge, what goes along it, and nothing drawn over."""

from __future__ import annotations

from fractions import Fraction
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec import GraphSession, Rejected, Session, tensor
from spec.picture import CHARACTER, svg
from spec.show import ledger, opened

NAME = "{http://www.w3.org/2000/svg}"


def read(drawn: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawn)


def texts(drawn: str, kind: str | None) -> list[str]:
    """Return the texts of a class, those of edges first; None: those without one."""
    found = [(e.get("class"), e.text or "") for e in read(drawn).iter(f"{NAME}text")]
    return [text for named, text in found if (kind in named.split() if named else kind is None)]


def boxes(drawn: str) -> list[tuple[float, float, float, float]]:
    sides = ("x", "y", "width", "height")
    return [
        tuple(float(e.get(side) or 0) for side in sides)  # type: ignore[misc]
        for e in read(drawn).iter(f"{NAME}rect")
    ]


def perceptron(s: Any) -> Any:
    x = s.input(tensor([[1.0, 2.0], [0.5, -1.0]]), name="x")
    w = s.use(s.param(tensor([[0.1, 0.2], [0.3, -0.4]]), "w"))
    b = s.use(s.param(tensor([0.0, 0.1]), "b"))
    return s.mse_loss(s.linear(s.gelu(s.linear(x, w, b)), w, b), x)


@pytest.mark.parametrize("kind", [Session, GraphSession])
def test_values_go_forward_and_cotangents_come_back(kind: Any) -> None:
    s = kind()
    w = s.use(s.param(tensor([Fraction(1, 2), Fraction(-2)]), name="w"))
    x = s.input(tensor([4, 3]), name="x")
    y = s.sum(s.square(w * x))
    for drawn in (svg(s, y), svg(s.tape, y.id)):
        assert texts(drawn, None) == ["x0 w", "x1 x", "x2 mul", "x3 square", "x4 sum"]
        assert texts(drawn, "type") == ["real[2]"] * 4 + ["real[]"]
        assert texts(drawn, "value") == ["[1/2, -2]", "[4, 3]", "[2, -6]", "[4, 36]", "40"]
        assert texts(drawn, "back") == ["[16, -36]", "[4, -12]", "[1, 1]", "1"]
    assert texts(svg(s), "back") == []
    assert texts(svg(s, s.square(w), tensor([1, 10])), "back")[0] == "[1, -40]"


def test_each_use_of_a_value_is_an_edge_of_its_own() -> None:
    """B = a + a and c = b + b: both contributions are there, and they are drawn apart."""
    s = Session()
    a = s.input(tensor(3), name="a", requires_grad=True)
    b = a + a
    drawn = svg(s, b + b)
    assert texts(drawn, "edge") == ["3", "2", "3", "2", "6", "1", "6", "1"]
    assert texts(drawn, "back")[4:] == ["4", "2", "1"], "in the boxes stand the sums"
    named = [e for e in read(drawn).iter(f"{NAME}text") if e.get("class") == "edge back"]
    heights = [e.get("y") for e in named]
    assert len(set(heights[:2])) == len(set(heights[2:])) == 2


def test_words_along_edges_are_drawn_over_all_arrows_and_hide_what_is_behind_them() -> None:
    s = Session()
    kinds = [e.tag.removeprefix(NAME) for e in read(svg(s, perceptron(s)))]
    arrows, words = ([k for k, found in enumerate(kinds) if found == t] for t in ("path", "text"))
    assert arrows and max(arrows) < min(words)
    style = next(read(svg(s)).iter(f"{NAME}style")).text or ""
    assert "paint-order: stroke" in style


def test_no_box_lies_over_another_and_all_lie_inside() -> None:
    s = Session()
    drawn = svg(s, perceptron(s))
    _, _, wide, high = map(float, (read(drawn).get("viewBox") or "").split())
    found = boxes(drawn)
    assert len(found) == len(s.tape)
    for k, (x, y, w, h) in enumerate(found):
        assert x >= 0 and x + w <= wide and y >= 0 and y + h <= high
        for a, b, c, d in found[:k]:
            assert x + w <= a or a + c <= x or y + h <= b or b + d <= y


def test_a_long_value_is_shown_by_its_ends_and_signs_are_escaped() -> None:
    s = Session()
    x = s.input(tensor([float(k) / 3 for k in range(40)]), name="<&>")
    drawn = svg(s, s.sum(x))
    assert texts(drawn, None)[0] == "x0 <&>"
    assert texts(drawn, "value") == ["[0.0, 0.333...6667, 13.0]", "260.0"]


def test_colours_follow_the_readers_setting() -> None:
    s = Session()
    style = next(read(svg(s, perceptron(s))).iter(f"{NAME}style")).text or ""
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    for rule in ("background", ".value", ".back", "rect", ".leaf"):
        assert rule in light and rule in dark


def test_an_empty_tape_is_an_empty_picture_and_a_node_that_there_is_not_is_refused() -> None:
    s = Session()
    assert boxes(svg(s)) == []
    s.input(tensor(1.0))
    with pytest.raises(Rejected, match=r"^tape: ids lie in \[0, 1\); got 4$"):
        svg(s, 4)
    with pytest.raises(Rejected, match=r"^svg: out is a ref of the tape, or its id; got str$"):
        svg(s, "x0")  # type: ignore[arg-type]


def test_a_notebook_shows_the_picture() -> None:
    session = Session()
    drawn = svg(session, session.square(session.input(tensor(2.0), requires_grad=True)))
    assert drawn._repr_svg_() == drawn and drawn.startswith("<svg")


def words(drawn: str) -> list[tuple[float, float, str]]:
    """Return where each text along an edge stands, and the text."""
    found = [e for e in read(drawn).iter(f"{NAME}text") if "edge" in (e.get("class") or "")]
    return [(float(e.get("x") or 0), float(e.get("y") or 0), e.text or "") for e in found]


@given(steps=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=7))
def test_no_words_along_edges_lie_over_others_and_all_lie_inside(
    steps: list[tuple[int, int]],
) -> None:
    s = Session()
    made = [s.input(tensor(float(k) / 3), name="x", requires_grad=True) for k in range(3)]
    for one, other in steps:
        made.append(made[one % len(made)] * 2.0 + made[other % len(made)] * made[one % len(made)])
    drawn = svg(s, made[-1])
    _, _, wide, high = map(float, (read(drawn).get("viewBox") or "").split())
    placed = words(drawn)
    for k, (x, y, text) in enumerate(placed):
        half = CHARACTER * len(text) / 2
        assert half <= x <= wide - half and 10 <= y <= high
        for a, b, other in placed[:k]:
            apart = half + CHARACTER * len(other) / 2
            assert abs(x - a) >= apart - 0.1 or abs(y - b) >= 12, (text, other)


def test_a_ref_of_what_was_opened_stands_for_its_node_and_another_record_s_ref_is_refused() -> None:
    s = Session()
    x = s.input(tensor([1.0, 2.0]), name="x", requires_grad=True)
    y = s.mse_loss(x, s.const(tensor([0.0, 0.0]))) * s.sum(x)
    apart = opened(s, "mse_loss")
    whole, steps = ledger(s, y), ledger(apart, y)
    first = [line.split()[-1] for line in (whole.splitlines()[1], steps.splitlines()[1])]
    assert first[0] == first[1]
    assert texts(svg(apart, y), "back")[-1] == texts(svg(s, y), "back")[-1]
    stale, other = y, Session()
    z = other.input(tensor(1.0))
    s.reset_tape()
    s.sum(s.input(tensor([1.0])))
    for show in (svg, ledger):
        for ref in (stale, z):
            with pytest.raises(Rejected, match=r"out is a ref of what is shown; got x. of another"):
                show(s, ref)


def test_showing_tells_no_observer() -> None:
    seen: list[object] = []
    s = Session(observer=seen.append)
    y = s.square(s.input(tensor(3.0), requires_grad=True))
    svg(s, y), ledger(s, y)
    assert not seen
    s.backward(y)
    assert seen
