"""Draws docs/pictures/growth.svg: what a training step takes as its program grows.

It is drawn from a file that `python -m benchmarks growth` left. Both axes are logarithmic, so that
what grows as its program does is a line of slope 1. The colours are read on light and on dark.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Any

from tools.generated import write_or_check
from tools.tree import ROOT

MEASURED = ROOT / "benchmarks" / "results" / "growth.json"
PICTURE = ROOT / "docs" / "pictures" / "growth.svg"

WIDE, TALL, LEFT, TOP, BELOW = 230, 190, 62, 58, 52
"""The size of a panel's frame, and the room around it."""

TITLES = {
    "nodes": "nodes of the program",
    "parameters": "numbers that are trained",
    "batch": "examples of a batch",
}
"""What stands below each curve's horizontal axis."""

BASE = "torch eager"

COLOURS = ("#d95f02", "#1b9e77", "#7570b3", "#e7298a", "#66a61e")
"""Told apart by who sees no red or green, and from white and black."""

HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
    'width="{width}" height="{height}">'
)
STYLE = (
    "<style>"
    "text{font:12px sans-serif;fill:#222}.title{font-weight:bold}"
    ".frame{fill:none;stroke:#888}.grid{stroke:#888;stroke-opacity:.3}"
    ".middle{text-anchor:middle}.end{text-anchor:end}"
    "polyline{fill:none;stroke-width:2}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}}"
    "</style>"
)

Points = list[tuple[float, float]]


def curves(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, Points]:
    """Return the times of each engine on a curve; torch eager's are those beside the first one."""
    found: dict[str, Points] = {BASE: []}
    for row in rows:
        if row["curve"] == name:
            found.setdefault(row["engine"], []).append((row["at"], row["ours_us"]))
            if row["at"] not in dict(found[BASE]):
                found[BASE].append((row["at"], row["theirs_us"]))
    return found


def picture(measured: Mapping[str, Any]) -> str:
    """Draw every curve's panel side by side, on one scale of time."""
    rows = measured["rows"]
    names = list(dict.fromkeys(row["curve"] for row in rows))
    panels = [curves(rows, name) for name in names]
    engines = list(dict.fromkeys(engine for panel in panels for engine in panel))
    times = [y for panel in panels for points in panel.values() for _, y in points]
    low, high = floor(log10(min(times))), ceil(log10(max(times)))
    colour = dict(zip(engines, COLOURS, strict=False))
    width, height = len(names) * (LEFT + WIDE) + 16, TOP + TALL + BELOW
    lines = [HEAD.format(width=width, height=height), STYLE]
    lines += ['<text x="8" y="18" class="title">Time of a training step</text>']
    for k, engine in enumerate(engines):
        x = LEFT + 130 * k
        lines.append(f'<line x1="{x}" y1="36" x2="{x + 22}" y2="36" stroke="{colour[engine]}" '
                     'stroke-width="2"/>')  # fmt: skip
        lines.append(f'<text x="{x + 28}" y="40">{escape(engine)}</text>')
    for k, (name, panel) in enumerate(zip(names, panels, strict=True)):
        lines += _panel(LEFT + k * (LEFT + WIDE), name, panel, (low, high), colour)
    about = measured["environment"]
    place = (
        f"One thread of {about['processor']}, {about['date'][:10]}, commit {about['commit'][:7]}"
    )
    lines.append(f'<text x="8" y="{height - 6}">{escape(place)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _panel(
    left: int, name: str, panel: Mapping[str, Points], decades: tuple[int, int],
    colour: Mapping[str, str],
) -> Iterator[str]:  # fmt: skip
    """Yield the parts of one panel: grid, scales, a line and its points for each engine."""
    sizes = [log10(x) for points in panel.values() for x, _ in points]
    first, last = min(sizes), max(sizes)
    low, high = decades

    def across(x: float) -> float:
        return left + 8 + (WIDE - 16) * (x - first) / (last - first or 1)

    def down(y: float) -> float:
        return TOP + TALL - TALL * (y - low) / (high - low)

    for decade in range(low, high + 1):
        y = down(decade)
        yield f'<line x1="{left}" y1="{y:.1f}" x2="{left + WIDE}" y2="{y:.1f}" class="grid"/>'
        yield f'<text x="{left - 5}" y="{y + 4:.1f}" class="end">{_time(decade)}</text>'
    for size in dict.fromkeys(x for points in panel.values() for x, _ in points):
        x = across(log10(size))
        yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{TOP + TALL}" class="grid"/>'
        yield f'<text x="{x:.1f}" y="{TOP + TALL + 15}" class="middle">{_count(size)}</text>'
    yield f'<rect x="{left}" y="{TOP}" width="{WIDE}" height="{TALL}" class="frame"/>'
    middle = left + WIDE / 2
    title = TITLES.get(name, name)
    yield f'<text x="{middle}" y="{TOP + TALL + 31}" class="middle">{escape(title)}</text>'
    for engine, points in panel.items():
        places = [(across(log10(x)), down(log10(y))) for x, y in sorted(points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polyline points="{path}" stroke="{colour[engine]}"/>'
        for (x, y), (size, time) in zip(places, sorted(points), strict=True):
            told = f"{engine}: {time:,.0f} us at {size:,}"
            yield (
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour[engine]}">'
                f"<title>{escape(told)}</title></circle>"
            )


def _count(size: float) -> str:
    """Say a number in as few characters as the axis has room for."""
    if size < 1_000:
        return f"{size:g}"
    return f"{size / 1e3:.3g}k" if size < 1_000_000 else f"{size / 1e6:.3g}M"


def _time(decade: int) -> str:
    """Say a power of ten of microseconds."""
    unit, power = (
        ("us", decade) if decade < 3 else ("ms", decade - 3) if decade < 6 else ("s", decade - 6)
    )
    return f"{10**power:g} {unit}"


def main() -> int:
    """Draw the picture, or with --check compare it."""
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    return write_or_check(PICTURE, picture(measured), "tools.generate_growth")


if __name__ == "__main__":
    sys.exit(main())
