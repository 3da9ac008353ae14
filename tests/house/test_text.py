"""What may not stand in a file of this repository, whatever its kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.tree import PACKAGES, ROOT, files

TEXT = (".py", ".md", ".toml", ".txt", ".json", ".jsonl", ".yml", "Makefile", "run", ".gitignore")


@dataclass(frozen=True)
class Ban:
    """A pattern that no line may hold, and what to do instead."""

    pattern: re.Pattern[str]
    instead: str


BANS = (
    Ban(
        re.compile(r"""(?<![\w.$})*-])/(?:work|root|home|Users|opt|mnt)/\w"""),
        "is a path of one machine; make it relative to the repository",
    ),
    Ban(
        re.compile(r"\.\./" + "shared|DESIGN" + r" ?(?:section|§|\d)"),
        "points outside this repository; say what it says where it is needed",
    ),
    Ban(
        re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b(?!.*#\d)"),
        "is a wish with no issue; file one and write its number (#12), or do it",
    ),
    Ban(
        re.compile(r"(?i)\b(?:index-url|find-links|files\.python" + r"hosted|py" + r"pi\.org)\b"),
        "names a package registry; pip already knows the one of its machine",
    ),
    Ban(
        re.compile(r"^\s*#\s*(?:-{4,}|={4,}|#{4,}).*"),
        "is a banner; a heading is a module or a function",
    ),
)


def banned_lines(root: Path) -> Iterator[str]:
    """Say which line holds what it may not, and what to write instead."""
    for path in files(root, *TEXT):
        if path.name == Path(__file__).name:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for ban in BANS:
                if hit := ban.pattern.search(line):
                    place = f"{path.relative_to(root)}:{number}"
                    yield f"{place}: {hit.group().strip()!r} {ban.instead}"


def test_text_is_fit_to_be_read_anywhere() -> None:
    found = list(banned_lines(ROOT))
    assert not found, "\n".join(found)


def test_planted_lines_are_found(tmp_path: Path, plant: Callable[[str, str], None]) -> None:
    plant("a.py", "OUT = '/root/x'\nurl = 'https://a.b/home/c'\n# TODO later\n# TODO(#12) later\n")
    for package in PACKAGES:
        plant(f"{package}/wrong/rows.py", "# FIXME\n")
    plant("b.md", "See ../shared/x and DESIGN section 4.\n")
    plant("Makefile", "\tpip install --index-url x\n# --------\n")
    found = [line.rsplit("' ", 1)[0] for line in banned_lines(tmp_path)]
    assert found == [
        "Makefile:1: 'index-url",
        "Makefile:2: '# --------",
        "a.py:1: '/root/x",
        "a.py:3: 'TODO",
        "b.md:1: '../shared",
        *sorted(f"{package}/wrong/rows.py:1: 'FIXME" for package in PACKAGES),
    ]
