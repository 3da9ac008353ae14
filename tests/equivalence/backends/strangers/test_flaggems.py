"""FlagGems' kernels as a stranger brings them: matrices are right, other ranks are not."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from equivalence.backends import load
from equivalence.backends.protocol import Backend
from equivalence.budgets.outcome import Outcome
from equivalence.runs.choice import kind_of_case, read_case
from tests.support import judge

pytestmark = [
    pytest.mark.skipif(
        any(find_spec(name) is None for name in ("flag_gems", "yaml", "sqlalchemy")),
        reason="FlagGems is no part of the install (docs/findings.md)",
    ),
    # What FlagGems generates has block pointers.
    pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated"),
]


def test_it_follows_the_protocol_and_leaves_torch_as_it_was() -> None:
    before = torch.cuda.device_count
    backend = load("flaggems")
    assert isinstance(backend, Backend)
    assert backend.value("softmax", [torch.zeros(1, 2)], {}).tolist() == [[0.5, 0.5]]
    assert torch.cuda.device_count is before


def outcome(**plain: object) -> Outcome:
    """Judge a case in fp32, of a gradient if it has a cotangent."""
    backend = load("flaggems")
    direction = "vjp" if "cotangent" in plain else "value"
    row, case = read_case(json.dumps({**plain, "direction": direction, "dtype": "fp32"}))
    contract = backend.capabilities().contract(row.op, row.dtype)
    return kind_of_case(row, case).measure(backend, case, contract)


def test_the_backward_of_layer_norm_is_right_for_matrices() -> None:
    recipes = [["normal", seed, "contiguous"] for seed in range(4)]
    shapes = [[3, 5], [5], [5]]
    found = outcome(op="layer_norm", shapes=shapes, recipes=recipes[:3], cotangent=recipes[3])
    assert not found.failed and found.judged == 3 * 5 + 5 + 5


@pytest.mark.parametrize(("layout", "fails"), [("contiguous", False), ("padded", True)])
def test_the_backward_of_embedding_reads_a_cotangent_without_its_strides(
    layout: str, fails: bool
) -> None:
    recipes = [["indices", 0, "contiguous"], ["integers", 0, "contiguous"]]
    cotangent = ["integers", 0, layout]
    shapes = [[2], [1, 1]]
    found = outcome(op="embedding", shapes=shapes, recipes=recipes, cotangent=cotangent)
    assert (found.failed, found.crash) == (fails, None)


@pytest.mark.parametrize(
    ("op", "shape", "fails"),
    [
        ("exp", [3, 5], False),
        ("tanh", [3, 5], False),
        ("gelu", [3, 5], False),
        ("mul", [3, 5], False),
        ("expm1", [3, 5], True),
    ],
)
def test_generated_kernels_run_in_the_interpreter(op: str, shape: list[int], fails: bool) -> None:
    """The numbers are so small that e^x - 1 loses them."""
    count = 2 if op == "mul" else 1
    recipes = [["tiny", seed, "padded"] for seed in range(count)]
    found = outcome(op=op, shapes=[shape] * count, recipes=recipes)
    assert (found.failed, found.crash) == (fails, None)


@pytest.mark.parametrize(("layout", "fails"), [("contiguous", False), ("padded", True)])
def test_hardsigmoid_reads_its_input_without_its_strides(layout: str, fails: bool) -> None:
    found = outcome(op="hardsigmoid", shapes=[[3, 5]], recipes=[["normal", 0, layout]])
    assert (found.failed, found.crash) == (fails, None)


def test_argmax_has_no_tile_for_three_entries_of_another_axis() -> None:
    found = outcome(
        op="argmax", shapes=[[3, 2]], recipes=[["normal", 0, "contiguous"]], attrs={"axis": 0}
    )
    assert found.crash is not None and "must be a power of 2" in found.crash


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
