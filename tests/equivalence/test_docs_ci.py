"""docs/ci.md and what docs/backends.md lists: executed, or compared with the code."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from equivalence import Contract, declared
from equivalence.backends.libraries import FAMILIES
from equivalence.cli.commands import parser
from tools.tree import ROOT

CI = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
BACKENDS = (ROOT / "docs" / "backends.md").read_text(encoding="utf-8")
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
YAML = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"python -m equivalence ([^\n`]*)")
PLAIN = re.compile(r"^( *)(- )?(([\w-]+): ?(.*)|[\w\"./*@-]+)$")
"""A line of the small part of YAML that the workflow uses."""


def namespace() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for code in PYTHON.findall(CI):
        exec(compile(code, "docs/ci.md", "exec"), found)
    return found


def test_the_lines_for_a_test_run(tmp_path: Path) -> None:
    found = namespace()
    found["test_my_square"]()
    kept = tmp_path / "case.json"
    kept.write_text(
        '{"op":"square","direction":"value","dtype":"fp32","shapes":[[]],'
        '"recipes":[["integers",1,"contiguous"]]}'
    )
    found["check"](kept, "torch")
    found["check_all"](["torch", "fast-aten"], ["square"])


def test_the_workflow_is_yaml_and_its_commands_are_ours() -> None:
    (text,) = YAML.findall(CI)
    for line in text.splitlines():
        match = PLAIN.match(line)
        assert match is not None and len(match[1]) % 2 == 0, line
        value = match[5] or ""
        assert value.count('"') % 2 == 0 and ": " not in value, line
    if importlib.util.find_spec("yaml") is not None:
        plain = importlib.import_module("yaml").safe_load(text)
        assert len(plain["jobs"]["judge"]["steps"]) == 7


@pytest.mark.parametrize("document", ["README.md", "docs/ci.md", "docs/backends.md"])
def test_each_command_of_a_document_parses(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    commands = [line for line in COMMAND.findall(text) if not line.startswith("--")]
    assert commands
    for command in commands:
        words = shlex.split(command)
        if len(words) == 1 and words[0] in ("exact", "races", "matrix"):
            continue
        assert parser().parse_args(words).command == words[0]


def test_exit_codes_are_those_of_the_suite() -> None:
    from equivalence.runs import results

    listed = re.findall(r"^\| (\d+) \|", CI, re.MULTILINE)
    names = ("CONFORMANT", "NONCONFORMANT", "USAGE", "CRASH", "VACUOUS", "INTERRUPTED")
    assert [int(code) for code in listed] == [getattr(results, name) for name in names]


def test_the_families_are_listed() -> None:
    table = BACKENDS.partition("| family | whose arithmetic |\n|---|---|\n")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE) == list(FAMILIES)


def test_the_fields_of_a_contract_are_listed() -> None:
    table = BACKENDS.partition("fields of a `Contract`")[2].partition("|---|---|\n")[2]
    listed = re.findall(r"^\| `(\w+)` \|", table.partition("\n\n")[0], re.MULTILINE)
    assert listed == [field.name for field in fields(Contract)]
    needed = [
        field.name
        for field in fields(Contract)
        if field.default is MISSING and field.default_factory is MISSING
    ]
    assert needed == ["name", "compute", "store"]


def test_the_interpreter_rounds_bf16_as_the_page_says() -> None:
    contract = declared("triton-interpreted")("mul", "bf16")
    for name in ("store_rounding", "flush", "casts"):
        said = re.search(rf"`{name}=(.*?)`", BACKENDS)
        assert said is not None and eval(said[1]) == getattr(contract, name)


TTSEM = ROOT / "build" / "races"


@pytest.mark.slow
@pytest.mark.skipif(
    not (TTSEM / "ttsem").is_dir(), reason="ttsem is not here; `make races` sets it up"
)
def test_the_example_of_races_runs(tmp_path: Path) -> None:
    block = BACKENDS.partition("`myraces.py`:\n\n")[2].partition("\nA process that")[0]
    program = "".join(line[4:] if line.strip() else line for line in block.splitlines(True))
    (tmp_path / "myraces.py").write_text(program, encoding="utf-8")
    own = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    path = os.pathsep.join([str(TTSEM), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "myraces.py"],
        cwd=tmp_path,
        env={**own, "PYTHONPATH": path, "TWINGRAD_COMPILE_TARGET": "sm_90"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [
        "1 launch without a fault",
        "race at tl.store(z + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)",
    ], done.stderr
