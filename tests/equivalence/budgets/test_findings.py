"""Declared findings: read strictly, and each shipped one still fails as declared."""

from __future__ import annotations

import json

import pytest

from equivalence.backends import load
from equivalence.budgets.findings import Finding, for_row, parse, shipped
from equivalence.runs.kinds import kind_of, read_case

CASES = [finding for finding in shipped() if finding.case is not None]


def table(**keys: str) -> str:
    return "[[finding]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in keys.items())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (table(kind="case", backend="torch", op="exp"), "missing keys \\['reason'\\]"),
        (table(kind="case", backend="torch", op="exp", reason="r"), "needs 'case'"),
        (table(kind="edge", backend="torch", op="exp", reason="r"), "needs 'edge'"),
        (table(kind="near-miss", backend="torch", op="exp", reason="r"), "needs 'label'"),
        (table(kind="hunch", backend="torch", op="exp", reason="r"), "there are case, edge"),
        (table(kind="edge", backend="t", op="exp", reason="r", colour="red"), "\\['colour'\\]"),
    ],
)
def test_a_finding_that_is_not_well_formed_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse(text)


def test_a_finding_speaks_of_the_rows_that_its_patterns_name() -> None:
    finding = Finding("case", "fast-*", "layer_norm", "why", direction="vjp", dtype="bf16")
    assert for_row([finding], "fast-aten", "layer_norm", "vjp", "bf16") == (finding,)
    assert for_row([finding], "torch", "layer_norm", "vjp", "bf16") == ()
    assert for_row([finding], "fast-aten", "layer_norm", "value", "bf16") == ()
    assert for_row([finding], "fast-aten", "layer_norm", "vjp", "fp32") == ()


def test_a_finding_covers_what_it_describes() -> None:
    finding = Finding("case", "torch", "div", "why", regimes=("zeros",), got="nan")
    assert finding.covers(["normal", "zeros"], "nan")
    assert not finding.covers(["normal"], "nan")
    assert not finding.covers(["zeros"], "1.5")


@pytest.mark.parametrize("finding", CASES, ids=lambda f: f"{f.op}-{f.direction}-{f.dtype}")
def test_a_shipped_finding_still_fails(finding: Finding) -> None:
    assert finding.case is not None
    row, case = read_case(finding.case)
    backend = load(finding.backend)
    contract = backend.capabilities().contract(row.op, row.dtype)
    outcome = kind_of(row).measure(backend, case, contract)
    assert outcome.failed and outcome.crash is None
    regimes = [recipe.regime for _, recipe in kind_of(row).recipes(case)]
    assert outcome.detail is not None and finding.covers(regimes, outcome.detail.got)
