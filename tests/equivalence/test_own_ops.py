"""docs/own-ops.md, executed: its pages, its backends and its commands do what it says."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support import judge
from tools.tree import ROOT

OPENING = ("The page", "The backend", "The verdict")
"""The sections that tell one story together; each of the others tells its own."""

RESULTS = {"Several results": ("result 1 (scale)[", "gradient of x[")}
"""By story: the results among several that its failures name."""

Command = list[str]


def stories() -> dict[str, str]:
    """Return the text of each story by its first heading, without those that run nothing."""
    _, *parts = re.split(r"(?m)^## (.*)\n", (ROOT / "docs" / "own-ops.md").read_text("utf-8"))
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    opening = "".join(sections.pop(name) for name in OPENING)
    told = {OPENING[0]: opening, **sections}
    return {name: text for name, text in told.items() if "```sh" in text}


STORIES = stories()


def blocks(story: str, language: str) -> list[str]:
    """Return the blocks of a language, in the order of a story."""
    return re.findall(rf"```{language}\n(.*?)```", STORIES[story], re.DOTALL)


def modules(story: str) -> dict[str, str]:
    """Return a story's files by name; a block that names none goes on with the file before it."""
    texts: dict[str, str] = {}
    for block in blocks(story, "python"):
        named = re.match(r"# (\w+\.py)\n", block)
        if named is None:
            texts[list(texts)[-1]] += f"\n\n{block}"
        else:
            texts[named[1]] = block
    return texts


def commands(story: str) -> list[Command]:
    """Return the words of every command of a story."""
    return [shlex.split(line) for block in blocks(story, "sh") for line in block.splitlines()]


def option(words: Command, name: str) -> str:
    """Return what a command says of an option."""
    return words[words.index(f"--{name}") + 1]


def right_of(words: Command) -> bool:
    """Say whether a command asks about a right backend, or about none."""
    return words[3] == "list" or option(words, "backend").endswith(":Right")


def told(kind: str, right: bool = True, of: int | None = None) -> list[object]:
    """Return every command of a kind that asks about right backends, or about wrong ones.

    Where a story is chosen, by its place, those of the others are left to `make full`.
    """
    return [
        pytest.param(
            story,
            words,
            id=f"{story}-{' '.join(words[4:6])}",
            marks=[] if of is None or story == list(STORIES)[of] else [pytest.mark.full],
        )
        for story in STORIES
        for words in commands(story)
        if words[3] == kind and right is right_of(words)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a stranger's folder with the modules of the document."""
    where = tmp_path_factory.mktemp("stranger")
    for story in STORIES:
        for name, text in modules(story).items():
            (where / name).write_text(text, encoding="utf-8")
    return where


def ran(folder: Path, words: Command) -> subprocess.CompletedProcess[str]:
    """Run a command of the document in the folder."""
    assert words[:3] == ["python", "-m", "equivalence"]
    return judge(folder, *words[3:])


def test_each_story_has_a_right_and_a_wrong_backend() -> None:
    """Every page is listed, judged and read exactly, and wrong backends are judged like right."""
    assert len(STORIES) == 4 and set(RESULTS) <= set(STORIES)
    for story in STORIES:
        asked = [(words[3], right_of(words)) for words in commands(story)]
        assert {("run", True), ("exact", True), ("run", False)} <= set(asked), story


@pytest.mark.slow
@pytest.mark.parametrize(("story", "words"), told("list"))
def test_pages_are_listed_with_their_module(folder: Path, story: str, words: Command) -> None:
    module = option(words, "pages")
    pages = option(next(w for w in commands(story) if w[3] == "run"), "ops")
    said = ran(folder, words).stdout
    assert re.search(rf"(operations|optimizers) of {module}: {pages.replace(',', ', ')}\n", said)


@pytest.mark.slow
@pytest.mark.parametrize(("story", "words"), told("run", of=0))
def test_right_backends_are_conformant(folder: Path, story: str, words: Command) -> None:
    done = ran(folder, [*words, "--json", f"{option(words, 'profile')}.json"])
    assert done.returncode == 0, done.stdout + done.stderr
    plain = json.loads((folder / f"{option(words, 'profile')}.json").read_text(encoding="utf-8"))
    judged = [row for row in plain["rows"] if row["dtype"] == "fp32"]
    assert {row["status"] for row in judged} == {"conformant"}
    assert {row["op"] for row in judged} == set(option(words, "ops").split(","))


@pytest.mark.slow
@pytest.mark.parametrize(("story", "words"), told("run", right=False, of=2))
def test_wrong_backends_are_refused_and_replayed(folder: Path, story: str, words: Command) -> None:
    """Each page of a wrong backend fails, and a line of the report shows it in a new process.

    Where there are several results, it says which one is wrong.
    """
    done = ran(folder, words)
    assert done.returncode == 1, done.stdout + done.stderr
    assert all(name in done.stdout for name in RESULTS.get(story, ()))
    lines = (line.partition("replay: ")[2] for line in done.stdout.splitlines())
    cases: dict[str, tuple[Command, str]] = {}
    for line in map(shlex.split, filter(None, lines)):
        case = json.loads(line[4])
        cases[case["op"] if "op" in case else case["optimizer"]] = line, case["page"]
    assert set(cases) == set(option(words, "ops").split(","))
    for name, (line, page) in cases.items():
        assert page == f"{option(words, 'pages')}:{name}"
        again = ran(folder, line)
        assert again.returncode == 1, again.stdout + again.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("story", "words"), told("exact", of=1))
def test_right_backends_are_equal_on_exact_numbers(
    folder: Path, story: str, words: Command
) -> None:
    done = ran(folder, words)
    assert done.returncode == 0 and " 0 differ;" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("story", "words"), told("exact", right=False, of=3))
def test_wrong_backends_differ_on_exact_numbers(folder: Path, story: str, words: Command) -> None:
    done = ran(folder, words)
    assert done.returncode == 1 and " differs" in done.stdout, done.stdout + done.stderr
