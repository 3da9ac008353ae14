"""Chapter 37. A picture: a tape as an SVG, with what goes forward and what comes back on its edges.

Each node is a box: its name or op, and its type. Over an edge stands the value that goes forward
along it, under it the cotangent that came back along it. Colours follow the reader's light or dark
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

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from typing import Any

from spec.op import AnyTensor, shape_or_type
from spec.refusals import refuse
from spec.show import tape_of, types_of
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

HEIGHT, GAP = 40, 34
"""How high a box is, and how far it is from the one below it."""

BETWEEN = CHARACTER * LONGEST + 24
"""How far the boxes of a column are from those of the next one."""


@dataclass(frozen=True)
class Box:
    """A node in the picture: what stands in it, and where its upper left corner is."""

    lines: tuple[str, str]
    leaf: bool
    x: float
    y: float
    width: float


class Picture(str):
    """The text of an SVG, which a notebook shows as the picture that it is."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


def svg(shown: Any, out: int | None = None, seed: AnyTensor | None = None) -> Picture:
    """Draw a session, a tape or a recording as an SVG, which a browser or a notebook shows.

    With `out`, a node or its ref, cotangents are sent back from there, by a seed of its shape (1
    for a scalar), and stand under the edges. Without it, only values are shown. What is none of
    these, and a node that there is not, are Rejected.
    """
    tape = tape_of(shown)
    start = getattr(out, "id", out)
    if start is not None and not isinstance(start, int):
        raise refuse("svg", "out is a ref of the tape, or its id", shape_or_type(out))
    back = {} if start is None else _contributions(tape, start, seed)
    boxes = _boxes(tape)
    wide = max((box.x + box.width for box in boxes), default=0) + 10
    high = max((box.y + HEIGHT for box in boxes), default=0) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" '
        f'width="{wide:.0f}" height="{high:.0f}" role="img">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>',
        *_edges(tape, boxes, back),
        *(_drawn(box) for box in boxes),
        "</svg>",
    ]
    return Picture("\n".join(parts))


def _contributions(
    tape: Tape, out: int, seed: AnyTensor | None
) -> dict[tuple[int, int], AnyTensor]:
    """Return what each node hands back along each of its edges: (node, place) to a cotangent."""
    cotangents = tape.backward_dense(out, seed)
    found: dict[tuple[int, int], AnyTensor] = {}
    for id in cotangents.reached:
        node = tape.node(id)
        if node.op is None or not node.requires_grad:
            continue
        inputs = [tape.value(parent) for parent in node.parents]
        handed = node.op.vjp(inputs, cotangents[id], **node.attributes)
        for place, contribution in enumerate(handed):
            if contribution is not None and tape.node(node.parents[place]).requires_grad:
                found[id, place] = contribution
    return found


def _boxes(tape: Tape) -> list[Box]:
    """Lay the nodes out: each in the column after its last parent, where its arrows have way."""
    depth = _depths(tape)
    texts = [(f"x{id} {tape.label(id)}", str(kind)) for id, kind in enumerate(types_of(tape))]
    width = [CHARACTER * max(map(len, lines)) + 16 for lines in texts]
    column = {d: max(width[k] for k in range(len(tape)) if depth[k] == d) for d in set(depth)}
    left = {d: 10 + sum(column[c] + BETWEEN for c in range(d)) for d in column}
    return [
        Box(lines, tape.node(id).op is None, left[depth[id]], 20 + row * (HEIGHT + GAP), width[id])
        for id, (lines, row) in enumerate(zip(texts, _rows(tape, depth), strict=True))
    ]


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


def _edges(
    tape: Tape, boxes: Sequence[Box], back: Mapping[tuple[int, int], AnyTensor]
) -> Iterator[str]:
    """Draw an arrow from each parent to its reader, and write along its last part."""
    for id in range(len(tape)):
        parents = tape.node(id).parents
        for place, parent in enumerate(parents):
            one, other = boxes[parent], boxes[id]
            x, y = one.x + one.width, one.y + HEIGHT / 2
            end = other.y + HEIGHT * (place + 1) / (len(parents) + 1)
            # Two arrows between the same boxes are bowed apart.
            bow = 56 * (parents[:place].count(parent) - (parents.count(parent) - 1) / 2)
            start, bend = max(x, other.x - BETWEEN), BETWEEN / 2
            yield (
                f'<path d="M{x:.1f} {y:.1f} H{start:.1f} C{start + bend:.1f} {y + bow:.1f} '
                f'{other.x - bend:.1f} {end + bow:.1f} {other.x:.1f} {end:.1f}" '
                'marker-end="url(#tip)"/>'
            )
            middle, height = (start + other.x) / 2, (y + end) / 2 + 0.75 * bow
            yield _text(middle, height - 5, _short(tape.value(parent)), "value")
            if (id, place) in back:
                yield _text(middle, height + 14, _short(back[id, place]), "back")


def _drawn(box: Box) -> str:
    middle = box.x + box.width / 2
    kind = ' class="leaf"' if box.leaf else ""
    return "\n".join(
        (
            f'<rect{kind} x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
            f'height="{HEIGHT}" rx="5"/>',
            _text(middle, box.y + 17, box.lines[0], ""),
            _text(middle, box.y + 32, box.lines[1], "type"),
        )
    )


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
