"""Chapter 37. A picture: a tape as an SVG, with what goes forward and what comes back on its edges.

Each node is a box: its name or op, and its type. Over an edge stands the value that goes forward
along it, under it the cotangent that came back along it. In a box stands the value that no edge
shows, since nobody reads it, and the cotangent that is the sum of several edges'. Colours follow
the reader's light or dark setting. Nothing but Python is needed.

>>> from spec.ops import OPS
>>> from spec.tape import Tape
>>> from spec.tensor import tensor
>>> tape = Tape()
>>> x = tape.leaf(tensor([3.0, 4.0]), name="x")
>>> y = tape.apply(OPS["sum"], tape.apply(OPS["square"], x))
>>> drawn = svg(tape, y)
>>> drawn.startswith("<svg") and "[6.0, 8.0]" in drawn
True
"""

# This file is longer than the guide because its layout, its colours and its texts are one picture.
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from typing import Any

from spec.answers import telling
from spec.op import AnyTensor
from spec.show import cotangents_of, node_of, tape_of, types_of
from spec.tape import Tape

STYLE = """
  svg { font: 12px ui-monospace, monospace; background: #ffffff; color: #1b1f24 }
  text { fill: currentColor } .type { opacity: .65 }
  .value { fill: #0b5394 } .back { fill: #a61c00 }
  .edge { paint-order: stroke; stroke: #ffffff; stroke-width: 8px; stroke-linejoin: round }
  rect { fill: #f3f5f8; stroke: #6a737d } .leaf { fill: #fff6df }
  path { fill: none; stroke: #6a737d } marker path { fill: #6a737d }
  @media (prefers-color-scheme: dark) {
    svg { background: #16191d; color: #e6e8ea }
    .value { fill: #7db8f2 } .back { fill: #ff9d85 } .edge { stroke: #16191d }
    rect { fill: #22272e; stroke: #8b949e } .leaf { fill: #3a331d }
    path { stroke: #8b949e } marker path { fill: #8b949e }
  }
"""

CHARACTER = 7.3
"""How wide a character of the font is, in the units of the picture."""

LONGEST = 26
"""How many characters of a value are shown; the middle of a longer one is left out."""

LINE, GAP = 15, 34
"""How high a line in a box is, and how far a box is at least from the one below it."""

BETWEEN = CHARACTER * LONGEST + 24
"""How far the boxes of a column are from those of the next one."""


Line = tuple[str, str]
"""A text, and its class: a name has none."""

Word = tuple[float, float, str, str]
"""Where a text stands, itself, and its class."""

Points = tuple[float, float, float, float]
"""A coordinate of the four points of a cubic curve."""

Place = tuple[float, float, float, float]
"""The sides of a rectangle: left, top, right and bottom."""


@dataclass(frozen=True)
class Box:
    """A node in the picture: the lines that stand in it, and where its upper left corner is."""

    lines: list[Line]
    leaf: bool
    x: float
    y: float
    width: float

    @property
    def height(self) -> float:
        """How high it is."""
        return LINE * len(self.lines) + 10

    @property
    def middle(self) -> float:
        """Where half of it is above."""
        return self.y + self.height / 2


@dataclass(frozen=True)
class Edge:
    """An arrow, bent from its x on: from a parent at the height y to a place of its reader."""

    node: int
    place: int
    parent: int
    x: float
    y: float
    right: float
    end: float
    bow: float

    @property
    def across(self) -> Points:
        """From left to right, the points that bend it."""
        bend = BETWEEN / 2
        return (self.x, self.x + bend, self.right - bend, self.right)

    @property
    def down(self) -> Points:
        """The heights of these points."""
        return (self.y, self.y + self.bow, self.end + self.bow, self.end)


@dataclass(frozen=True)
class Came:
    """The cotangents that came back: of nodes, and along edges, each a node and a place."""

    nodes: dict[int, AnyTensor]
    edges: dict[tuple[int, int], AnyTensor]


class Picture(str):
    """The text of an SVG, which a notebook shows as the picture that it is."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


@telling
def svg(shown: Any, out: Any = None, seed: AnyTensor | None = None) -> Picture:
    """Draw a session, a tape or a recording as an SVG, which a browser or a notebook shows.

    With `out`, a node or its ref, cotangents are sent back from there, by a seed of its shape (1
    for a scalar), and stand under the edges. Without it, only values are shown. What is none of
    these, and a node that there is not, are Rejected.
    """
    tape = tape_of(shown)
    start = None if out is None else node_of(shown, out, "svg")
    came = Came({}, {}) if start is None else _sent_back(tape, start, seed)
    boxes = _boxes(tape, came)
    wide = max((box.x + box.width for box in boxes), default=0) + 10
    words = [*_along(tape, boxes, came)]
    bottoms = [box.y + box.height for box in boxes] + [y for _, y, _, _ in words]
    high = max(bottoms, default=0) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" '
        f'width="{wide:.0f}" height="{high:.0f}" role="img">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>',
        *_arrows(tape, boxes),
        *(_text(*word) for word in words),
        *(_drawn(box) for box in boxes),
        "</svg>",
    ]
    return Picture("\n".join(parts))


def _sent_back(tape: Tape, out: int, seed: AnyTensor | None) -> Came:
    """Return the cotangents of nodes, and what each node hands back along each of its edges."""
    cotangents = cotangents_of(tape, out, seed)
    came = Came({id: cotangents[id] for id in cotangents.reached}, {})
    for id, cotangent in came.nodes.items():
        node = tape.node(id)
        if node.op is None or not node.requires_grad:
            continue
        inputs = [tape.value(parent) for parent in node.parents]
        handed = node.op.vjp(inputs, cotangent, **node.attributes)
        for place, contribution in enumerate(handed):
            if contribution is not None and tape.node(node.parents[place]).requires_grad:
                came.edges[id, place] = contribution
    return came


def _boxes(tape: Tape, came: Came) -> list[Box]:
    """Lay the nodes out: each in the column after its last parent, where its arrows have way."""
    depth = _depths(tape)
    texts = _lines(tape, came)
    width = [CHARACTER * max(len(text) for text, _ in lines) + 16 for lines in texts]
    column = {d: max(width[k] for k in range(len(tape)) if depth[k] == d) for d in set(depth)}
    left = {d: 10 + sum(column[c] + BETWEEN for c in range(d)) for d in column}
    most = max(map(len, texts), default=0)
    row = LINE * most + 10 + GAP
    return [
        Box(
            lines,
            tape.node(id).op is None,
            left[depth[id]],
            20 + number * row + LINE * (most - len(lines)) / 2,
            width[id],
        )
        for id, (lines, number) in enumerate(zip(texts, _rows(tape, depth), strict=True))
    ]


def _lines(tape: Tape, came: Came) -> list[list[Line]]:
    """Write what stands in each box: name, type, and the numbers that no edge shows."""
    found: list[list[Line]] = []
    read = {parent for id in range(len(tape)) for parent in tape.node(id).parents}
    handed = [tape.node(id).parents[place] for id, place in came.edges]
    for id, kind in enumerate(types_of(tape)):
        lines: list[Line] = [(f"x{id} {tape.label(id)}", ""), (str(kind), "type")]
        if id not in read:
            lines.append((_short(tape.value(id)), "value"))
        if id in came.nodes and tape.node(id).requires_grad and handed.count(id) != 1:
            lines.append((_short(came.nodes[id]), "back"))
        found.append(lines)
    return found


def _rows(tape: Tape, depth: Sequence[int]) -> list[int]:
    """Give each node the first row that is free up to its last reader; ops come before leaves."""
    last = list(depth)
    for id in range(len(tape)):
        for parent in tape.node(id).parents:
            last[parent] = max(last[parent], depth[id] - 1)
    taken: set[tuple[int, int]] = set()
    rows = [0] * len(tape)
    for id in sorted(range(len(tape)), key=lambda k: (tape.node(k).op is None, k)):
        way = range(depth[id], last[id] + 1)
        rows[id] = next(r for r in count() if not any((d, r) in taken for d in way))
        taken.update((d, rows[id]) for d in way)
    return rows


def _depths(tape: Tape) -> list[int]:
    """Return the longest way from a leaf to each node; a leaf itself stands beside its reader."""
    depth = [0] * len(tape)
    for id in range(len(tape)):
        depth[id] = 1 + max((depth[p] for p in tape.node(id).parents), default=-1)
    for id in range(len(tape)):
        readers = [depth[k] for k in range(len(tape)) if id in tape.node(k).parents]
        if tape.node(id).op is None and readers:
            depth[id] = min(readers) - 1
    return depth


def _edges(tape: Tape, boxes: Sequence[Box]) -> Iterator[Edge]:
    """Lay out an edge from each parent to its reader."""
    for id in range(len(tape)):
        parents = tape.node(id).parents
        for place, parent in enumerate(parents):
            one, other = boxes[parent], boxes[id]
            start = max(one.x + one.width, other.x - BETWEEN)
            end = other.y + other.height * (place + 1) / (len(parents) + 1)
            # Two arrows between the same boxes are bowed apart.
            bow = 56 * (parents[:place].count(parent) - (parents.count(parent) - 1) / 2)
            yield Edge(id, place, parent, start, one.middle, other.x, end, bow)


def _arrows(tape: Tape, boxes: Sequence[Box]) -> Iterator[str]:
    for edge in _edges(tape, boxes):
        left = boxes[edge.parent].x + boxes[edge.parent].width
        (x, *across), (y, *down) = edge.across, edge.down
        bent = " ".join(f"{a:.1f} {b:.1f}" for a, b in zip(across, down, strict=True))
        yield (f'<path d="M{left:.1f} {y:.1f} H{x:.1f} C{bent}" marker-end="url(#tip)"/>')


def _along(tape: Tape, boxes: Sequence[Box], came: Came) -> Iterator[Word]:
    """Write what goes along the last part of each edge, where no other edge's words stand."""
    taken: list[Place] = []
    for edge in _edges(tape, boxes):
        words = [(_short(tape.value(edge.parent)), "edge value")]
        if (edge.node, edge.place) in came.edges:
            words.append((_short(came.edges[edge.node, edge.place]), "edge back"))
        x, y = _free(edge, CHARACTER * max(len(text) for text, _ in words) / 2, taken)
        for (text, kind), below in zip(words, (-5, 14), strict=False):
            yield x, y + below, text, kind


def _free(edge: Edge, half: float, taken: list[Place]) -> tuple[float, float]:
    """Return a place on an edge for words of a width, and remember it as taken.

    It is the middle, or the next place along the edge that is free, or below all that are taken.
    """
    for part in (0.5, 0.6, 0.4, 0.7, 0.3, 0.8, 0.2):
        x, y = _bent(part, edge.across), _bent(part, edge.down)
        if not any(_overlap(_around(x, y, half), other) for other in taken):
            break
    else:
        x = _bent(0.5, edge.across)
        y = max(other[3] for other in taken if other[0] < x + half and x - half < other[2]) + 16
    taken.append(_around(x, y, half))
    return x, y


def _around(x: float, y: float, half: float) -> Place:
    """Return what two lines of words take, one above a point and one below."""
    return (x - half, y - 16, x + half, y + 18)


def _bent(part: float, points: Points) -> float:
    """Return a coordinate of a cubic curve, a part of the way along it (Bernstein's form)."""
    rest, (a, b, c, d) = 1 - part, points
    return rest**3 * a + 3 * rest**2 * part * b + 3 * rest * part**2 * c + part**3 * d


def _overlap(one: Place, other: Place) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _drawn(box: Box) -> str:
    middle = box.x + box.width / 2
    kind = ' class="leaf"' if box.leaf else ""
    lines = (_text(middle, box.y + 17 + LINE * k, *line) for k, line in enumerate(box.lines))
    frame = (
        f'<rect{kind} x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height}" rx="5"/>'
    )
    return "\n".join((frame, *lines))


def _text(x: float, y: float, text: str, kind: str) -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(text)}</text>'


def _short(value: AnyTensor) -> str:
    """Show a tensor's entries as lists, a long one without its middle."""
    text = _numbers(value.nested())
    if len(text) <= LONGEST:
        return text
    half = (LONGEST - 3) // 2
    return f"{text[:half]}...{text[-half:]}"


def _numbers(nested: Any) -> str:
    """Write nested lists; a fraction as 1/2, and a float with as many digits as tell it apart."""
    entries: Any = nested
    if isinstance(nested, list):
        return f"[{', '.join(map(_numbers, entries))}]"
    return f"{nested:.6g}" if isinstance(nested, float) and nested % 1 else str(nested)
