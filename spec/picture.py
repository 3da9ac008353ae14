"""Chapter 41. A picture: a tape as an SVG, with what goes forward and what comes back on its edges.

Each node is a box: its name or op, and its type. Beside it begins a lane for each edge to a reader:
over it stands the value that goes forward along the edge, under it the cotangent that came back. No
other edge comes near these words. In a box stands the value that no edge shows, since nobody reads
it, and the cotangent that is the sum of several edges'. Colours follow the reader's light or dark
setting. Nothing but Python is needed.

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

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, count
from pathlib import Path
from typing import Any

from spec.answers import telling
from spec.op import AnyTensor
from spec.refusals import Rejected, refuse
from spec.show import cotangents_of, node_of, tape_of, types_of, written
from spec.tape import Tape

STYLE = """
  svg { font: 12px ui-monospace, monospace; background: #ffffff; color: #1b1f24 }
  text { fill: currentColor } .type { opacity: .65 }
  .value { fill: #0b5394 } .back { fill: #a61c00 }
  rect { fill: #f3f5f8; stroke: #6a737d } .leaf { fill: #fff6df }
  path { fill: none; stroke: #6a737d } marker path { fill: #6a737d }
  @media (prefers-color-scheme: dark) {
    svg { background: #16191d; color: #e6e8ea }
    .value { fill: #7db8f2 } .back { fill: #ff9d85 }
    rect { fill: #22272e; stroke: #8b949e } .leaf { fill: #3a331d }
    path { stroke: #8b949e } marker path { fill: #8b949e }
  }
"""

CHARACTER = 7.3
"""How wide a character of the font is, in the units of the picture."""

LONGEST = 26
"""How many characters of a value are shown; the middle of a longer one is left out."""

LINE, GAP = 15, 20
"""How high a line in a box is, and how far a box is at least from the one below it."""

LANE = 40
"""How far the edges that leave a box are from each other: a line of words above each, one below."""

BEND, ROOM = 80, 10
"""How wide the way is on which edges bend to their readers, and how far words are from a box."""


Line = tuple[str, str]
"""A text, and its class: a name has none."""

Way = tuple[int, int]
"""An edge: the node that reads, and which of its inputs it is."""


@dataclass(frozen=True)
class Box:
    """A node in the picture: the lines that stand in it, and where its sides are."""

    lines: list[Line]
    leaf: bool
    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Where it ends, and the edges to its readers begin."""
        return self.x + self.width

    def port(self, number: int, count: int) -> float:
        """At what height one of so many edges meets its side."""
        return self.y + self.height * (2 * number + 1) / (2 * count)


@dataclass(frozen=True)
class Came:
    """The cotangents that came back: of nodes, and along edges."""

    nodes: dict[int, AnyTensor]
    edges: dict[Way, AnyTensor]


class Picture(str):
    """The text of an SVG, which a notebook shows as the picture that it is."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)

    @telling
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, which a browser shows; one that cannot be written is Rejected."""
        try:
            place = Path(path)
        except TypeError as error:
            raise refuse("svg", "a path is a str or a Path", type(path).__name__) from error
        try:
            place.write_text(f"{self}\n", encoding="utf-8")
        except OSError as error:
            raise Rejected(f"svg: {path} cannot be written: {error}") from error


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
    wide = max((box.right for box in boxes), default=0) + 10
    high = max((box.y + box.height for box in boxes), default=0) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" '
        f'width="{wide:.0f}" height="{high:.0f}" role="img">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>',
        *_arrows(tape, boxes, came),
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
    """Lay the nodes out: each in the column after its last parent, where its edges have way."""
    depth, texts, count = _depths(tape), _lines(tape, came), len(tape)
    row, ways = _rows(tape, depth), _ways(tape)
    width = [CHARACTER * max(len(text) for text, _ in lines) + 16 for lines in texts]
    height = [
        max(LINE * len(lines) + 10, LANE * len(ways.get(id, ()))) for id, lines in enumerate(texts)
    ]
    taken = [width[id] + _beside(tape, id, ways.get(id, ()), came) for id in range(count)]
    column = [max(taken[k] for k in range(count) if depth[k] == d) for d in sorted({*depth})]
    high = [max(height[k] for k in range(count) if row[k] == r) for r in sorted({*row})]
    left = [*accumulate((wide + BEND for wide in column), initial=10)]
    return [
        Box(
            texts[id],
            tape.node(id).op is None,
            left[depth[id]],
            GAP + sum(high[: row[id]]) + GAP * row[id] + (high[row[id]] - height[id]) / 2,
            width[id],
            height[id],
        )
        for id in range(count)
    ]


def _ways(tape: Tape) -> dict[int, list[Way]]:
    """Return the edges that leave each node that is read."""
    ways: dict[int, list[Way]] = {}
    for id in range(len(tape)):
        for place, parent in enumerate(tape.node(id).parents):
            ways.setdefault(parent, []).append((id, place))
    return ways


def _words(tape: Tape, parent: int, way: Way, came: Came) -> list[Line]:
    """Return what goes along an edge: the value, and what came back."""
    words = [(_short(tape.value(parent)), "edge value")]
    if way in came.edges:
        words.append((_short(came.edges[way]), "edge back"))
    return words


def _beside(tape: Tape, id: int, ways: Sequence[Way], came: Came) -> float:
    """Return how wide the words are that stand beside a box."""
    texts = [text for way in ways for text, _ in _words(tape, id, way, came)]
    return CHARACTER * max(map(len, texts)) + 2 * ROOM if texts else 0


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


def _arrows(tape: Tape, boxes: Sequence[Box], came: Came) -> Iterator[str]:
    """Draw each edge with its words: straight on along them, and bent where its reader is near."""
    for parent, ways in _ways(tape).items():
        box = boxes[parent]
        # What goes up starts above what goes down, so that they do not cross at once.
        upwards = sorted(ways, key=lambda way: (boxes[way[0]].port(0, 1), way))
        for lane, way in enumerate(upwards):
            reader, y = boxes[way[0]], box.port(lane, len(ways))
            end = reader.port(way[1], len(tape.node(way[0]).parents))
            words = _words(tape, parent, way, came)
            x = box.right + ROOM + CHARACTER * max(len(text) for text, _ in words) / 2
            bend, half = reader.x - BEND, reader.x - BEND / 2
            parts = [
                f'<path d="M{box.right:.1f} {y:.1f} H{bend:.1f} C{half:.1f} {y:.1f} '
                f'{half:.1f} {end:.1f} {reader.x:.1f} {end:.1f}" marker-end="url(#tip)"/>',
                *(_text(x, y + below, *word) for word, below in zip(words, (-5, 14), strict=False)),
            ]
            yield "\n".join(("<g>", *parts, "</g>"))


def _drawn(box: Box) -> str:
    middle, top = box.x + box.width / 2, box.y + (box.height - LINE * len(box.lines)) / 2
    kind = ' class="leaf"' if box.leaf else ""
    lines = (_text(middle, top + 12 + LINE * k, *line) for k, line in enumerate(box.lines))
    frame = (
        f'<rect{kind} x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="5"/>'
    )
    return "\n".join((frame, *lines))


def _text(x: float, y: float, text: str, kind: str) -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(text)}</text>'


def _short(value: AnyTensor) -> str:
    """Show a tensor's entries as lists, a long one without its middle."""
    text = written(value.nested(), digits=False)
    if len(text) <= LONGEST:
        return text
    half = (LONGEST - 3) // 2
    return f"{text[:half]}...{text[-half:]}"
