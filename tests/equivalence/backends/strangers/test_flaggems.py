"""FlagGems' kernels as a stranger brings them: matrices are right, other ranks are not."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from equivalence.backends import load
from equivalence.backends.protocol import Backend
from equivalence.runs.choice import kind_of_case, read_case
from tests.support import judge

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("flag_gems", "yaml", "sqlalchemy")),
    reason="FlagGems is no part of the install (docs/findings.md)",
)


def test_it_follows_the_protocol_and_leaves_torch_as_it_was() -> None:
    before = torch.cuda.device_count
    backend = load("flaggems")
    assert isinstance(backend, Backend)
    assert backend.value("softmax", [torch.zeros(1, 2)], {}).tolist() == [[0.5, 0.5]]
    assert torch.cuda.device_count is before


def test_the_backward_of_layer_norm_is_right_for_matrices() -> None:
    backend = load("flaggems")
    plain = [["normal", seed, "contiguous"] for seed in range(4)]
    text = {"op": "layer_norm", "direction": "vjp", "dtype": "fp32", "shapes": [[3, 5], [5], [5]]}
    row, case = read_case(json.dumps({**text, "recipes": plain[:3], "cotangent": plain[3]}))
    contract = backend.capabilities().contract(row.op, row.dtype)
    outcome = kind_of_case(row, case).measure(backend, case, contract)
    assert not outcome.failed and outcome.judged == 3 * 5 + 5 + 5


@pytest.mark.slow
def test_the_command_finds_the_corrupted_heap_and_goes_on(tmp_path: Path) -> None:
    command = [
        "run",
        "--backend",
        "flaggems",
        "--ops",
        "layer_norm",
        "--profile",
        "quick",
        "--seed",
        "0",
        "--jobs",
        "1",
    ]
    ran = judge(tmp_path, *command, "--json", "found.json")
    assert ran.returncode == 3, ran.stderr
    rows = {
        (row["direction"], row["dtype"]): row
        for row in json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["rows"]
    }
    backward = rows["vjp", "fp32"]
    died = [failure["title"] for failure in backward["failures"] if failure["kind"] == "died"]
    assert any("fp32[1,2,8]" in title for title in died), ran.stdout
    assert backward["cases"] > 0
    assert rows["value", "fp32"]["status"] == "partial"
