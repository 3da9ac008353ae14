"""The public names of the suite, and that its documents import no others."""

from __future__ import annotations

import re

import pytest

import equivalence
from tools.tree import ROOT

NAMES = [
    "BF16",
    "CORRECTLY_ROUNDED",
    "FP16",
    "FP32",
    "FP64",
    "TF32",
    "Backend",
    "Capabilities",
    "Contract",
    "Conventions",
    "Done",
    "Faulty",
    "Form",
    "FunctionError",
    "Kept",
    "NoLaunch",
    "OptimizerHandle",
    "Replayed",
    "Request",
    "UnknownBackend",
    "Unregistered",
    "Unusable",
    "assert_conforms",
    "check_call",
    "declared",
    "granted",
    "keeping",
    "load",
    "perform",
    "register",
    "registered",
    "replay_case",
    "standing",
    "ulps",
    "unregister",
    "watching",
]

INNER = re.compile(r"^.*?\b(?:from|import) +equivalence\.[\w.]+.*$", re.MULTILINE)
"""An import of a part of the suite, whether its block is fenced, indented or shows a prompt."""


def test_the_public_names_are_these() -> None:
    assert equivalence.__all__ == NAMES
    assert dir(equivalence) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_public_name_can_be_imported(name: str) -> None:
    namespace: dict[str, object] = {}
    exec(f"from equivalence import {name}", namespace)
    assert namespace[name] is getattr(equivalence, name)


@pytest.mark.parametrize("document", ["README.md", "docs/backends.md", "docs/ci.md"])
def test_documents_import_public_names_only(document: str) -> None:
    assert INNER.findall((ROOT / document).read_text(encoding="utf-8")) == []


def test_a_planted_import_is_found() -> None:
    text = "    from equivalence.runs.run import perform\nfrom equivalence import perform\n"
    assert INNER.findall(text) == ["    from equivalence.runs.run import perform"]
