"""A few kernels compiled ahead of time, and the asserts on what compiling gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fast.__main__ import main
from fast.binaries import compilation, facts, ptx_rules
from tools.tree import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    path = tmp_path_factory.mktemp("compiled") / "kernels.json"
    command = ["kernels", "--target", "sm_90", "--ops", "div,", "sum", "--json", str(path)]
    assert main(command) == 0
    found: list[dict[str, Any]] = json.loads(path.read_text())["kernels"]
    return found


def test_every_row_says_what_a_kernel_uses(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert row.keys() == {
            "name", "target", "config", "registers", "spills", "shared", "occupancy", "limit",
            "instructions", "mix", "loads", "stores", "barriers", "tensor",
        }  # fmt: skip
        assert row["target"] == "sm_90"
        assert row["spills"] == 0
        assert 0 < row["registers"] <= 255


def test_layouts_are_no_specializations(rows: list[dict[str, Any]]) -> None:
    for op in ("div", "sum"):
        used = [row["config"]["dtypes"] for row in rows if row["name"].startswith(f"{op}.")]
        for dtype in ("fp32", "bf16", "fp16"):
            count = sum(dtype in dtypes.split() for dtypes in used)
            assert 0 < count <= compilation.most_kernels(op)
    kernels = {row["name"] for row in rows}
    assert kernels == {"div._flat_kernel", "div._strided_kernel", "sum._reduce_kernel"}


def test_one_op_alone_has_the_facts_that_it_has_among_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Kernels report an index by a number that a process gives to ops as they are used.
    of_all = str(ROOT / "docs" / "kernels.json")
    asked = ["kernels", "--target", "sm_90", "--ops", "one_hot", "--against", of_all]
    assert main(asked) == 0, capsys.readouterr().err


def test_a_kernel_that_became_worse_fails_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "facts.json"
    asked = ["kernels", "--target", "sm_90", "--ops", "exp"]
    assert main([*asked, "--json", str(path)]) == 0
    assert main([*asked, "--against", str(path)]) == 0
    then = facts.read(path)
    flat = next(row for row in then["kernels"] if row["name"] == "exp._flat_kernel")
    assert flat["loads"]["128"] > 0
    flat["loads"]["256"] = 1
    facts.write(path, then["kernels"], then["triton"])
    capsys.readouterr()
    assert main([*asked, "--against", str(path)]) == 1
    said = capsys.readouterr()
    assert "its widest loads of global memory have 128 bits, and had 256" in said.err
    assert said.out.strip().endswith("1 faults")


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "--target", "sm_70"]) == 2
    assert "unknown target 'sm_70'; there are sm_80, sm_90" in capsys.readouterr().err
    assert main(["kernels", "--ops", "plus"]) == 2
    assert "unknown op 'plus'; there are add, " in capsys.readouterr().err


WIDE = "ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [ %rd1 + 0 ];"


@pytest.mark.parametrize(
    ("ptx", "meta", "half", "said"),
    [
        (f"{WIDE} div.full.f32 %f1, %f2, %f3;", {}, False, "contains div.full"),
        (f"{WIDE} rsqrt.approx.ftz.f32 %f1, %f2;", {}, False, "contains rsqrt.approx"),
        ("ld.global.b32 {%r1}, [ %rd1 + 0 ];", {"ALIGNED": True}, False, "without 128-bit"),
        (WIDE, {"PRECISION": "tf32"}, False, "without the tensor cores"),
        (WIDE, {"PRECISION": "ieee"}, True, "without the tensor cores"),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32", {"PRECISION": "ieee"}, False, "asks for"),
        (f"{WIDE} max.f32 %f1, %f2, %f3;", {"KIND": "max"}, False, "loses NaN"),
        (f"{WIDE} mul.hi.u64 %rd1, %rd2, 7;", {"name": "_fill_kernel"}, False, "64-bit words"),
    ],
)
def test_the_asserts_see_what_they_forbid(
    ptx: str, meta: dict[str, Any], half: bool, said: str
) -> None:
    (found,) = ptx_rules.violations(ptx, meta.get("name", "_kernel"), meta, half, ())
    assert said in found


def test_a_kernel_that_only_fills_needs_no_wide_loads() -> None:
    store = "st.global.v4.b32 [ %rd1 + 0 ], {%r1, %r2, %r3, %r4};"
    load = "ld.global.b32 {%r1}, [ %rd1 + 0 ];"
    assert not [*ptx_rules.violations(f"{load} {store}", "_kernel", {"UNIT": 4}, False, ())]
    assert [*ptx_rules.violations(f"{load * 4} {store}", "_kernel", {"UNIT": 4}, False, ())]


def test_what_a_page_declares_is_allowed() -> None:
    ptx = f"{WIDE} rsqrt.approx.ftz.f32 %f1, %f2;"
    assert not [*ptx_rules.violations(ptx, "_flat_kernel", {}, False, ("rsqrt.approx",))]
    assert [*ptx_rules.overuse("sm_80", 200 * 1024)] == [
        "needs 204800 bytes of shared memory; sm_80 has 166912",
    ]


@pytest.mark.parametrize(("kind", "codes"), [("traded", (0, 1)), ("broken", (1, 1))])
def test_registers_kept_in_memory_for_more_warps_are_a_fault_beside_facts_alone(
    kind: str,
    codes: tuple[int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def rows(targets: list[str], ops: list[str]) -> list[dict[str, Any]]:
        said = {"broken": [], "traded": [], kind: [*ptx_rules.spilled(8)]}
        config = {"direction": "value", "dtypes": "fp32"}
        facts_of_it = {"registers": 80, "spills": 8, "shared": 0, "occupancy": 0.375}
        return [
            {"name": "exp._flat_kernel", "target": "sm_90", "config": config, "launches": [0],
             **facts_of_it, **said}
        ]  # fmt: skip

    monkeypatch.setattr(compilation, "_compile", rows)
    path = tmp_path / "facts.json"
    assert main(["kernels", "--json", str(path)]) == codes[0]
    said = capsys.readouterr()
    counted = "1 keep a few registers in memory"
    assert (counted in said.out, "spills 8 bytes" in said.err) == (kind == "traded", bool(codes[0]))
    monkeypatch.setattr(facts, "differences", lambda *given: [])
    assert main(["kernels", "--against", str(path)]) == codes[1]
    assert "exp._flat_kernel for sm_90" in capsys.readouterr().err


def test_too_many_kernels_of_one_op_are_a_fault() -> None:
    def of(dtypes: str) -> dict[str, Any]:
        return {"name": "add._flat_kernel", "target": "sm_80", "config": {"dtypes": dtypes}}

    rows = [of("fp32 fp16")] * compilation.MOST_PER_OP + [of("fp32"), of("bf16")]
    assert compilation._too_many(rows) == [
        "add in fp32 for sm_80: 5 compiled kernels, at most 4 are allowed"
    ]


def test_the_module_itself_needs_a_target(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="use python -m fast kernels"):
        compilation.main(str(tmp_path / "rows.json"), "add")
