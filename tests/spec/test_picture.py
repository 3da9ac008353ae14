"""The picture of a tape: every node, every edge, what goes along it, and nothing drawn over."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec import GraphSession, Rejected, Session, tensor
from spec.picture import CHARACTER, svg
from spec.show import ledger, opened

NAME = "{http://www.w3.org/2000/svg}"


class Words(NamedTuple):
    """A text along an edge: its middle, its baseline, and half of its width."""

    x: float
    y: float
    half: float


def placed(part: ElementTree.Element) -> list[Words]:
    """Return where each text along an edge stands."""
    found = [e for e in part.iter(f"{NAME}text") if "edge" in (e.get("class") or "")]
    return [
        Words(float(e.get("x") or 0), float(e.get("y") or 0), CHARACTER * len(e.text or "") / 2)
        for e in found
    ]


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


class Way(NamedTuple):
    """An arrow: from x on at the height y, from bend on through close points of a curve."""

    x: float
    y: float
    bend: float
    bent: list[tuple[float, float]]


def ways(drawn: str) -> list[tuple[Way, list[Words]]]:
    """Return each edge's arrow and its words."""
    found: list[tuple[Way, list[Words]]] = []
    for group in read(drawn).iter(f"{NAME}g"):
        path = group.find(f"{NAME}path")
        assert path is not None
        x, y, bend, *curve = [float(n) for n in re.findall(r"-?[\d.]+", path.get("d") or "")]
        across, down = [bend, *curve[::2]], [y, *curve[1::2]]
        bent = [(bezier(k / 30, across), bezier(k / 30, down)) for k in range(31)]
        found.append((Way(x, y, bend, bent), placed(group)))
    return found


def bezier(part: float, points: list[float]) -> float:
    """Return a coordinate a part of the way along a curve, by de Casteljau's halvings."""
    while len(points) > 1:
        points = [a + (b - a) * part for a, b in pairwise(points)]
    return points[0]


def far(words: Words, way: Way) -> float:
    """Return how far the rectangle of a text is from the nearest point of an arrow."""

    def from_text(x: float, y: float) -> float:
        beside = max(abs(x - words.x) - words.half, 0)
        return math.hypot(beside, max(words.y - 9 - y, 0, y - words.y - 3))

    straight = from_text(min(max(words.x, way.x), way.bend), way.y)
    near = way.bend < words.x + words.half + 20 and words.x - words.half - 20 < way.bent[-1][0]
    return min([straight, *(from_text(x, y) for x, y in way.bent if near)])


def check_words(drawn: str) -> None:
    """Words are on their own edge, near no other one, over nothing, and inside."""
    _, _, wide, high = map(float, (read(drawn).get("viewBox") or "").split())
    edges, around = ways(drawn), boxes(drawn)
    every = [words for _, own in edges for words in own]
    assert len(every) == len(placed(read(drawn)))
    for k, words in enumerate(every):
        assert words.half <= words.x <= wide - words.half and 10 <= words.y <= high
        for other in every[:k]:
            apart = words.half + other.half
            assert abs(words.x - other.x) >= apart - 0.1 or abs(words.y - other.y) >= 12
        for x, y, w, h in around:
            beside = words.x + words.half <= x or x + w <= words.x - words.half
            assert beside or words.y <= y or y + h <= words.y - 9, words
    for k, (way, own) in enumerate(edges):
        others = [foreign for j, (foreign, _) in enumerate(edges) if j != k]
        for words in own:
            assert far(words, way) < 6, words
            assert all(far(words, foreign) > 12 for foreign in others), words


def test_words_along_an_edge_are_near_their_own_and_near_no_other_one() -> None:
    """The picture that showed the value of A where the edge of another node was."""
    s = Session()
    x = s.input(tensor([Fraction(3), Fraction(4)]), name="x", requires_grad=True)
    a = s.use(
        s.param(tensor([[Fraction(1, 2), Fraction(1, 3)], [Fraction(-2), Fraction(5, 7)]]), "A")
    )
    check_words(svg(s, s.sum(a * x) / s.sum(s.square(x))))
    s = Session()
    check_words(svg(s, perceptron(s)))
    check_words(svg(opened(s, "mse_loss", "gelu")))


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


def test_a_picture_is_saved_as_a_file_that_a_browser_shows(tmp_path: Path) -> None:
    session = Session()
    session.input(tensor(2.0), name="café")
    drawn = svg(session)
    drawn.save(tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").read_text(encoding="utf-8") == f"{drawn}\n"
    with pytest.raises(Rejected, match=r"^svg: .*none.a\.svg cannot be written: "):
        drawn.save(str(tmp_path / "none" / "a.svg"))
    with pytest.raises(Rejected, match=r"^svg: a path is a str or a Path; got int$"):
        drawn.save(3)  # type: ignore[arg-type]


def test_a_notebook_shows_the_picture() -> None:
    session = Session()
    drawn = svg(session, session.square(session.input(tensor(2.0), requires_grad=True)))
    assert drawn._repr_svg_() == drawn and drawn.startswith("<svg")


@given(steps=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=7))
def test_words_of_drawn_graphs_are_near_their_own_edge_and_near_no_other_one(
    steps: list[tuple[int, int]],
) -> None:
    s = Session()
    made = [s.input(tensor(float(k) / 3), name="x", requires_grad=True) for k in range(3)]
    for one, other in steps:
        made.append(made[one % len(made)] * 2.0 + made[other % len(made)] * made[one % len(made)])
    check_words(svg(s, made[-1]))


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
