"""TRUST.md is what the tree says, and the generator finds what it should."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tools.generate_trust import assumed, device_runs, findings, generate, laws, proved
from tools.tree import ROOT


def test_trust_is_up_to_date() -> None:
    committed = (ROOT / "TRUST.md").read_text(encoding="utf-8")
    assert committed == generate(), "TRUST.md is stale; run: python -m tools.generate_trust"


def test_claims_and_assumptions_are_collected(
    tmp_path: Path, plant: Callable[[str, str], None]
) -> None:
    plant("proofs_notes/README.md", "# How to read\n\nAssumed: nothing here counts.\n")
    plant(
        "proofs_notes/exp.md",
        "# The exponential\n\nProved: its own\nderivative.\n\nIt is not Assumed: here.\n\n"
        "* Assumed: exp is exp.\n* Assumed: and log\n  is log.\n",
    )
    plant("docs/rounding.md", "Assumed: rounding.\n")
    note = "proofs_notes/exp.md"
    assert list(proved(tmp_path)) == [f"[The exponential]({note}): its own derivative."]
    assert list(assumed(tmp_path)) == [
        f"exp is exp. ([exp]({note}))",
        f"and log is log. ([exp]({note}))",
        "rounding. ([rounding](docs/rounding.md))",
    ]


def test_laws_findings_and_runs_are_collected(
    tmp_path: Path, plant: Callable[[str, str], None]
) -> None:
    plant("tests/spec/test_laws.py", '"""The laws of\nthe reference.\n\nMore."""\n')
    plant(
        "equivalence/backends/torch/findings.toml",
        '[[finding]]\nkind = "edge"\nbackend = "torch"\nop = "log"\nreason = "it says NaN"\n',
    )
    plant(
        "benchmarks/results/gpu-x.json",
        '{"environment": {"device": "X", "date": "2026-01-02T03:04:05Z", "commit": "0123456789ab"},'
        ' "replay": [{"rows": [{"status": "conformant"}]}, {"rows": [{"status": "conformant"}]}]}',
    )
    assert list(laws(tmp_path)) == ["`tests/spec/test_laws.py`: The laws of the reference."]
    assert list(findings(tmp_path)) == ["torch log: it says NaN"]
    assert list(findings(ROOT)), "the findings that ship lie elsewhere"
    assert list(device_runs(tmp_path)) == [
        "X, 2026-01-02, commit 0123456789ab ([results](benchmarks/results/gpu-x.json)): "
        "2 rows conformant; memory check not run"
    ]
