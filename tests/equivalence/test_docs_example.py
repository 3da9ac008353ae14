"""The ten-line backend of docs/backends.md is judged as the page says."""

from __future__ import annotations

import re

from equivalence.runs.run import Request, perform
from tools.tree import ROOT

BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_the_example_is_ten_lines_and_conformant() -> None:
    found = BLOCK.search((ROOT / "docs" / "backends.md").read_text(encoding="utf-8"))
    assert found is not None
    code = found.group(1)
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
