"""The backends of docs/backends.md are judged as the page says, and its tables are whole."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import torch

from equivalence.budgets.judge import judge_tensor
from equivalence.budgets.oracle import expected_value
from equivalence.cases.declared.calls import OPTIONS
from equivalence.cases.declared.inside import Inside
from equivalence.cases.declared.part import ORDERS
from equivalence.cases.declared.reading import KEYS, read_declaration
from equivalence.cases.guard import LAYOUTS
from equivalence.cases.strata.fixed import strata
from equivalence.runs.results import STATUSES
from equivalence.runs.row.reached import MOST_AGAIN
from equivalence.runs.run import Request, perform
from equivalence.worlds.contract import Contract
from tools.tree import ROOT

BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def blocks() -> list[str]:
    """Return the Python of docs/backends.md."""
    return BLOCK.findall((ROOT / "docs" / "backends.md").read_text(encoding="utf-8"))


def block_with(text: str) -> str:
    """Return the only block that holds a text."""
    (found,) = (code for code in blocks() if text in code)
    return found


@pytest.mark.parametrize("code", blocks(), ids=range(len(blocks())))
def test_every_block_runs(code: str) -> None:
    exec(compile(code, "docs/backends.md", "exec"), {})


def test_the_example_is_ten_lines_and_conformant() -> None:
    code = block_with("class Squares:")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    namespace: dict[str, type] = {}
    exec(compile(code, "docs/backends.md", "exec"), namespace)
    request = Request("squares", ops=["square"], profile="quick")
    done = perform(request, backend=namespace["Squares"]())
    statuses = {str(result.row): result.status for result in done.results}
    assert statuses == {
        "square value fp32": "conformant",
        "square vjp fp32": "conformant",
        "square value bf16": "unsupported",
        "square vjp bf16": "unsupported",
        "square value fp16": "unsupported",
        "square vjp fp16": "unsupported",
    }


def test_the_form_allows_what_the_page_alone_does_not() -> None:
    code = block_with("def minus_logsumexp")
    namespace: dict[str, Any] = {}
    exec(compile(code, "docs/backends.md", "exec"), namespace)
    formed: Contract = namespace["contract"]("log_softmax", "fp32")
    x = torch.randn(4, 9, generator=torch.Generator().manual_seed(0)) + 1e3
    got = x - torch.logsumexp(x, -1, keepdim=True)
    for contract, status in ((formed, "conformant"), (replace(formed, forms=()), "nonconformant")):
        outcome = judge_tensor(got, expected_value("log_softmax", [x], {}, contract))
        assert outcome.status == status
        assert outcome.page is not None and outcome.page > 1
    wrong = got + 1e-2
    assert judge_tensor(wrong, expected_value("log_softmax", [x], {}, formed)).failed


def test_the_example_of_a_part_is_partial_and_its_predicate_is_one() -> None:
    rows, predicate = block_with("class Rows"), block_with("def takes")
    namespace: dict[str, Any] = {}
    for code in (rows, predicate):
        exec(compile(code, "docs/backends.md", "exec"), namespace)
    request = Request("rows", ops=["softmax"], profile="quick")
    done = perform(request, backend=namespace["Rows"]())
    found = [result for result in done.results if result.row.dtype == "fp32"]
    assert [result.status for result in found] == ["partial", "partial"]
    assert all(result.partial and "rank" in result.partial.missing for result in found)
    inside = Inside(read_declaration("softmax", namespace["takes"]), "value", "fp32")
    taken = {case.shapes[0] for case in strata("softmax", "value", "fp32", inside=inside)}
    assert taken and max(map(max, taken)) <= 512


def test_every_key_of_a_part_stands_in_the_table() -> None:
    text = (ROOT / "docs" / "backends.md").read_text("utf-8")
    section = text.partition("## A part of an op")[2].partition("\n## ")[0]
    assert all(f"| `{key}` |" in section for key in KEYS)
    assert all(f"`{name}`" in section for name in (*LAYOUTS, *OPTIONS))
    assert all(f'`"{name}"`' in section for name in ORDERS)
    assert all(f"| `{status}` |" in text for status in STATUSES)
    assert f"At most {MOST_AGAIN} refused calls" in section
