"""The snippets of the documents run as they stand, and print what is said that they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tools.tree import ROOT

pytestmark = pytest.mark.slow

SNIPPET = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


TOGETHER = ("docs/training.md", "docs/worlds.md")
"""Documents whose blocks are one program, block by block."""

DOCUMENTS = ("README.md", "docs/torch.md", "docs/interpreters.md")


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def snippets(document: str) -> list[tuple[str, str]]:
    """Each block of Python, with the block of text that follows it at once, if one does."""
    return SNIPPET.findall((ROOT / document).read_text(encoding="utf-8"))


@pytest.mark.parametrize("document", TOGETHER)
def test_the_blocks_of_a_document_are_one_program(document: str) -> None:
    blocks = snippets(document)
    done = run("\n".join(code for code, _ in blocks))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(text for _, text in blocks)
    assert sum(bool(text) for _, text in blocks) >= 2


def test_each_reader_has_a_snippet() -> None:
    assert len(snippets("README.md")) >= 3


@pytest.mark.parametrize(
    ("document", "number"), [(d, n) for d in DOCUMENTS for n in range(len(snippets(d)))]
)
def test_snippet_runs_and_prints_what_the_document_says(document: str, number: int) -> None:
    code, text = snippets(document)[number]
    done = run(code)
    assert done.returncode == 0, done.stderr
    assert not text or done.stdout == text
