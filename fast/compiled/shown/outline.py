"""What a compiled program does, to be looked at: its steps, its memory, and who lives how long.

`print(session.plan())` writes it down, and `session.plan().svg()` draws each buffer as a bar over
the steps during which it holds what somebody still reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape

WIDE, TALL, LEFT, MOST = 26, 18, 230, 34
"""Of a picture: a step's width, a buffer's height, the margin, and the letters of a name there."""


@dataclass(frozen=True)
class Step:
    """One thing that is run: an op, a product, or a loop into which several ops were fused."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class Memory:
    """A buffer: its bytes, the steps between which it holds something, and whether it is lent.

    Lent memory is there before the first step and after the last: parameters, data, gradients.
    """

    nbytes: int
    first: int
    last: int
    lent: bool = False


@dataclass(frozen=True)
class Outline:
    """The steps of one program, and its buffers by name."""

    title: str
    steps: tuple[Step, ...]
    memory: Mapping[str, Memory]

    @property
    def moved(self) -> int:
        """How many bytes the steps read and write, each as often as it is named."""
        names = (name for step in self.steps for name in (*step.reads, *step.writes))
        return sum(self.memory[name].nbytes for name in names if name in self.memory)

    @property
    def peak(self) -> int:
        """The most bytes that are held at once, beside what is lent."""
        own = [m for m in self.memory.values() if not m.lent]
        sums = (
            sum(m.nbytes for m in own if m.first <= at <= m.last) for at in range(len(self.steps))
        )
        return max(sums, default=0)

    def lines(self) -> Iterator[str]:
        """Yield the text, line by line."""
        lent = sum(m.nbytes for m in self.memory.values() if m.lent)
        yield self.title
        yield (
            f"  {len(self.steps)} steps; {self.moved:,} bytes read and written; "
            f"{self.peak:,} at once, beside {lent:,} lent"
        )
        for number, step in enumerate(self.steps):
            yield f"  {number:3d}  {step.name}: {', '.join(step.reads)} -> {', '.join(step.writes)}"
        for name, held in self.memory.items():
            if not held.lent:
                yield f"       {name}: {held.nbytes:,} bytes, steps {held.first} to {held.last}"

    def bars(self, top: int) -> Iterator[str]:
        """Yield the parts of a picture, from a height downwards."""
        yield f'<text x="8" y="{top}" class="title">{escape(self.title)}</text>'
        for number, step in enumerate(self.steps):
            at = LEFT + number * WIDE + WIDE // 2
            told = f"<title>{escape(step.name)}</title>"
            yield f'<text x="{at}" y="{top + TALL}">{number}{told}</text>'
        for row, (name, held) in enumerate(self.memory.items(), 2):
            y, x = top + row * TALL, LEFT + held.first * WIDE
            width = (held.last - held.first + 1) * WIDE - 2
            short = name if len(name) <= MOST else f"{name[: MOST - 3]}..."
            kind = "lent" if held.lent else "own"
            yield f'<text x="{LEFT - 8}" y="{y}" class="name">{escape(short)}</text>'
            yield (
                f'<rect x="{x}" y="{y - TALL + 6}" width="{width}" height="{TALL - 4}" '
                f'class="{kind}"><title>{escape(name)}: {held.nbytes:,} bytes</title></rect>'
            )

    @property
    def height(self) -> int:
        """How much room the picture takes."""
        return (len(self.memory) + 3) * TALL


@dataclass(frozen=True)
class Outlines:
    """All that is known of how a program is run, as text, or as a picture."""

    parts: tuple[Outline, ...]

    def __str__(self) -> str:
        return "\n".join(line for part in self.parts for line in part.lines())

    def svg(self) -> str:
        """Draw every part below the one before: a bar for each buffer, over the steps it lives."""
        steps = max((len(part.steps) for part in self.parts), default=0)
        width, height = LEFT + (steps + 1) * WIDE, TALL
        drawn: list[str] = []
        for part in self.parts:
            drawn += part.bars(height)
            height += part.height
        return "\n".join([HEAD.format(width=width, height=height), STYLE, *drawn, "</svg>"])

    _repr_svg_ = svg


HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
    'width="{width}" height="{height}">'
)
STYLE = (
    "<style>"
    "text{font:12px monospace;text-anchor:middle;fill:#222}"
    ".name{text-anchor:end}.title{text-anchor:start;font-weight:bold}"
    ".own{fill:#3572b0}.lent{fill:#c9d6e4}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.lent{fill:#44566a}}"
    "</style>"
)
