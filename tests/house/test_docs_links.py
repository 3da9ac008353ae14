"""A reader can open everything that the text names: links, headings, other documents, commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.tree import ROOT, files

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)
DOCUMENT = re.compile(r"(?<![\w/.*{<-])(?:\./)?([\w][\w/.-]*\.md)\b")
TARGET = re.compile(r"`make ([a-z][a-z-]*)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchor(heading: str) -> str:
    """The fragment by which a heading is linked."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def broken_links(root: Path) -> Iterator[str]:
    """Say which relative links of the Markdown files lead nowhere."""
    for path in files(root, ".md"):
        text = FENCE.sub("", path.read_text(encoding="utf-8"))
        for target in LINK.findall(text):
            name, _, fragment = target.partition("#")
            if ":" in name:
                continue
            goal = (path.parent / name) if name else path
            if not goal.exists():
                yield f"{path.relative_to(root)} links to {target}, and there is no such file"
            elif fragment and goal.suffix == ".md" and fragment not in anchors(goal):
                yield f"{path.relative_to(root)} links to {target}, and there is no such heading"


def anchors(path: Path) -> set[str]:
    """The fragments that a Markdown file offers."""
    return {anchor(h) for h in HEADING.findall(path.read_text(encoding="utf-8"))}


def missing_documents(root: Path) -> Iterator[str]:
    """Say which Markdown files are named somewhere, in code or prose, and are not there."""
    there = [p.relative_to(root).as_posix() for p in files(root, ".md")]
    for path in files(root, ".md", ".py", "Makefile", ".toml"):
        if path.name.startswith("test_"):
            continue
        for name in sorted(set(DOCUMENT.findall(path.read_text(encoding="utf-8")))):
            if not any(f"/{known}".endswith(f"/{name}") for known in there):
                yield (
                    f"{path.relative_to(root)} names {name}, which is not in this repository; "
                    "say what it says, or name a document that a reader can open"
                )


def missing_targets(root: Path) -> Iterator[str]:
    """Say which `make` targets the Markdown files promise and the Makefile lacks."""
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    known = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    for path in files(root, ".md"):
        for target in TARGET.findall(path.read_text(encoding="utf-8")):
            if target not in known:
                yield f"{path.relative_to(root)} promises `make {target}`, and there is none"


def unlisted_documents(root: Path) -> Iterator[str]:
    """Say which documents the table of contents does not list."""
    listed = LINK.findall((root / "docs" / "index.md").read_text(encoding="utf-8"))
    for path in files(root / "docs", ".md"):
        name = path.relative_to(root / "docs").as_posix()
        if name != "index.md" and name not in listed:
            yield f"docs/{name} is not listed in docs/index.md, so nobody will find it"


def lost_terms(root: Path) -> Iterator[str]:
    """Say which terms of the glossary live nowhere."""
    text = (root / "docs" / "glossary.md").read_text(encoding="utf-8")
    for line in [row for row in text.splitlines() if row.startswith("|")][2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        path = cells[-1].strip("`")
        if len(cells) != 4 or not all(cells):
            yield f"docs/glossary.md has a row that is not four cells: {line}"
        elif not (root / path).exists():
            yield f"docs/glossary.md says that {cells[0]} lives in {path}, and it is not there"


def test_links_lead_somewhere() -> None:
    found = [*broken_links(ROOT), *missing_documents(ROOT), *missing_targets(ROOT)]
    found += [*unlisted_documents(ROOT), *lost_terms(ROOT)]
    assert not found, "\n".join(found)


def test_planted_dead_ends_are_found(tmp_path: Path, plant: Callable[[str, str], None]) -> None:
    plant("Makefile", "test: ready\n")
    plant("docs/index.md", "# One, two\n[a](other.md) [b](#one-two) [c](#three) [d](https://x.y)\n")
    plant("README.md", "[a](docs/index.md#one-two) [b](docs/nothing.py) `make test` `make gold`\n")
    plant("population/record.py", "# see HISTORY.md\n")
    plant("spec/op.py", "# see PLAN.md, index.md and docs/index.md\n")
    assert list(broken_links(tmp_path)) == [
        "README.md links to docs/nothing.py, and there is no such file",
        "docs/index.md links to other.md, and there is no such file",
        "docs/index.md links to #three, and there is no such heading",
    ]
    assert [m.split(",")[0] for m in missing_documents(tmp_path)] == [
        "docs/index.md names other.md",
        "population/record.py names HISTORY.md",
        "spec/op.py names PLAN.md",
    ]
    plant("docs/hidden.md", "")
    assert [u.split(",")[0] for u in unlisted_documents(tmp_path)] == [
        "docs/hidden.md is not listed in docs/index.md"
    ]
    assert list(missing_targets(tmp_path)) == ["README.md promises `make gold`, and there is none"]


def test_a_planted_lost_term_is_found(tmp_path: Path, plant: Callable[[str, str], None]) -> None:
    plant("spec/op.py", "")
    head = "# Glossary\n\n| term | sentence | word | where |\n|---|---|---|---|\n"
    rows = "| op | An op. | operator | `spec/op.py` |\n| ring | A ring. | kind | `spec/no.py` |\n"
    plant("docs/glossary.md", head + rows + "| row | A row. | `spec/op.py` |\n")
    assert list(lost_terms(tmp_path)) == [
        "docs/glossary.md says that ring lives in spec/no.py, and it is not there",
        "docs/glossary.md has a row that is not four cells: | row | A row. | `spec/op.py` |",
    ]
