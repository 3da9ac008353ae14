"""Declared findings: read strictly, and each shipped one still fails as declared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from equivalence import processor
from equivalence.backends import EXTRAS, libraries, load
from equivalence.backends.libraries import shipped
from equivalence.budgets.findings import Finding, for_row, parse, read, written
from equivalence.budgets.outcome import Outcome, Over
from equivalence.runs.choice import kind_of_case, read_case
from equivalence.runs.results import Row
from equivalence.runs.runner import run_row

CASES = [finding for finding in shipped() if finding.case is not None]


def table(**keys: object) -> str:
    return "[[finding]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in keys.items())


WELL_FORMED = table(kind="near-miss", backend="torch", op="exp", label="C1", reason="r")

CASE = {"kind": "case", "backend": "torch", "op": "exp", "reason": "r", "case": "{}"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (table(kind="case", op="exp", reason="r"), r"missing keys \['backend'\]"),
        (table(kind="case", backend="torch", op="exp"), r"^finding 1, exp \(case\), has no reason"),
        (table(**{**CASE, "reason": ""}, dtype="fp32"), r"exp fp32 \(case\), has no reason: write"),
        ("schema = 1\nfindings = []\n", r"unknown keys \['findings'\]; there are 'schema' and"),
        (table(**{**CASE, "case": ""}), "needs 'case' and 'regimes' and 'got'"),
        (table(**CASE, got=["nan"]), "needs 'regimes'"),
        (table(**CASE, regimes=["normal"]), "needs 'got'"),
        (table(**CASE, regimes=["normal"], got=["finite"]), "needs 'ratio', above 1, or 'error'"),
        (table(**CASE, regimes=["normal"], got=["zero"], ratio=0.5), "needs 'ratio', above 1, or"),
        (table(**CASE, regimes=["normal"], got=["huge"], ratio=2.0), "elements are nan, inf, zero"),
        (table(kind="edge", backend="torch", op="exp", reason="r", edge="e"), "needs 'gave'"),
        (table(kind="near-miss", backend="torch", op="exp", reason="r"), "needs 'label'"),
        (table(kind="hunch", backend="torch", op="exp", reason="r"), "there are case, edge"),
        (table(kind="edge", backend="t", op="exp", reason="r", colour="red"), r"\['colour'\]"),
    ],
)
def test_a_finding_that_is_not_narrow_or_not_well_formed_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse(text)


@pytest.mark.parametrize("schema", ["2", "0", "true", "1.0", "'1'"])
def test_another_schema_is_refused_by_the_file_and_its_number(schema: str, tmp_path: Path) -> None:
    path, number = tmp_path / "known.toml", schema.replace("true", "True")
    path.write_text(f"schema = {schema}\n\n{WELL_FORMED}", encoding="utf-8")
    with pytest.raises(ValueError, match=f"known.toml: these findings are of schema {number}; "):
        read(path)


def test_a_file_without_a_schema_is_read_as_the_first_was(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    path.write_text(written([WELL_FORMED]), encoding="utf-8")
    assert path.read_text(encoding="utf-8").startswith("schema = 1\n\n[[finding]]\n")
    assert read(path) == parse(WELL_FORMED) and len(read(path)) == 1


def test_every_library_has_a_file_of_findings_about_itself() -> None:
    for folder in ("fast", "jax", "torch"):
        found = read(Path(libraries.__file__).parent / folder / "findings.toml")
        assert found and all(finding.backend.startswith(folder) for finding in found)
        assert all(finding in shipped() for finding in found)


def test_a_finding_speaks_of_the_rows_that_its_patterns_name() -> None:
    finding = Finding("case", "fast-*", "layer_norm", "why", direction="vjp", dtype="bf16")
    assert for_row([finding], "fast-aten", "layer_norm", "vjp", "bf16") == (finding,)
    assert for_row([finding], "torch", "layer_norm", "vjp", "bf16") == ()
    assert for_row([finding], "fast-aten", "layer_norm", "value", "bf16") == ()
    assert for_row([finding], "fast-aten", "layer_norm", "vjp", "fp32") == ()


def test_a_finding_speaks_of_the_processors_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = parse(WELL_FORMED + 'cpu = ["avx2", "no avx512f"]\n')
    for has, speaks in (({"avx2"}, True), ({"avx2", "avx512f"}, False), ({"neon"}, False)):
        monkeypatch.setattr(processor, "instructions", lambda has=has: frozenset(has))
        assert for_row([finding], "torch", "exp", "value", "fp32") == ((finding,) if speaks else ())


POLE = Over("gradient of x", "finite", "subnormal", ratio=3.0)


@pytest.mark.parametrize(
    ("changed", "covered"),
    [
        ({}, True),
        ({"got": "nan"}, False),
        ({"exact": "finite"}, False),
        ({"result": "gradient of y"}, False),
        ({"ratio": 4.5}, False),
        ({"ratio": 0.0, "error": 2.0}, False),
    ],
)
def test_a_finding_covers_what_it_describes(changed: dict[str, Any], covered: bool) -> None:
    (finding,) = parse(
        table(**CASE, got=["finite"], exact=["subnormal"], results=["* of x"], ratio=4.0)
        + 'regimes = { "input 0" = ["zeros", "tiny"], "cotangent" = ["normal"] }\n'
    )
    over = replace(POLE, **changed)
    assert finding.covers([("input 0", "zeros"), ("cotangent", "normal")], over) is covered
    assert not finding.covers([("input 0", "normal"), ("cotangent", "normal")], over)
    assert not finding.covers([("input 0", "tiny"), ("cotangent", "zeros")], over)
    assert not finding.covers([("input 0", "tiny")], over)


def test_a_list_of_regimes_is_of_any_position() -> None:
    (finding,) = parse(table(**CASE, regimes=["tiny"], got=["nan"]))
    over = Over("result", "nan", "finite")
    assert finding.covers([("input 0", "normal"), ("input 1", "tiny")], over)
    assert not finding.covers([("input 0", "normal"), ("input 1", "normal")], over)


@pytest.mark.parametrize(
    ("fields", "over", "said"),
    [
        ({"ratio": 4.0}, [Over("z", "finite", "finite", ratio=1.5)], None),
        ({"ratio": 8.0}, [Over("z", "finite", "finite", ratio=1.5)], "reaches 1.5 of the ratio 8"),
        ({"ratio": 8.0}, [Over("z", "finite", "finite", ratio=9.0)], "reaches 0 of the ratio 8"),
        ({"error": 1.0}, [Over("z", "finite", "zero", error=0.1)], "reaches 0.1 of the error 1"),
        ({"got": ["nan"]}, [Over("z", "inf", "zero")], "no element that got calls nan"),
        (
            {"got": ["nan"], "exact": ["zero", "finite"]},
            [Over("z", "nan", "zero")],
            "no element that exact calls finite",
        ),
    ],
)
def test_a_finding_that_is_too_wide_is_told(
    fields: dict[str, Any], over: list[Over], said: str | None
) -> None:
    (finding,) = parse(table(**{**CASE, "regimes": ["normal"], "got": ["finite"], **fields}))
    found = finding.too_wide([("input 0", "normal")], Outcome(fraction=9.0, over=tuple(over)))
    assert found is None if said is None else said in str(found)


@pytest.mark.parametrize(
    "finding", CASES, ids=lambda f: f"{f.backend}-{f.op}-{f.direction}-{f.dtype}"
)
def test_a_shipped_finding_still_fails_and_is_narrow(finding: Finding) -> None:
    assert finding.case is not None
    if finding.backend in EXTRAS:
        package, command = EXTRAS[finding.backend]
        pytest.importorskip(package, reason=f"{package} is not installed: {command}")
    row, case = read_case(finding.case)
    if not all(map(processor.has, finding.cpu)):
        pytest.skip(f"it holds of processors that have or lack {', '.join(finding.cpu)}")
    backend = load(finding.backend)
    contract = backend.capabilities().contract(row.op, row.dtype)
    kind = kind_of_case(row, case)
    outcome = kind.measure(backend, case, contract)
    assert outcome.failed and outcome.crash is None
    regimes = [(place, recipe.regime) for place, recipe in kind.recipes(case)]
    assert finding.too_wide(regimes, outcome) is None


@pytest.mark.skipif("avx2" not in processor.instructions(), reason="oneDNN's kernels are for x86")
def test_what_another_processor_would_compute_is_declared_too() -> None:
    """OneDNN takes its kernels for AVX2 wherever it is told to, so both sets of findings hold."""
    code = (
        "from equivalence import processor; processor.instructions = lambda: {'avx2'}\n"
        "from equivalence.backends import load\n"
        "from equivalence.backends.libraries import shipped\n"
        "from equivalence.runs.results import Row; from equivalence.runs.runner import run_row\n"
        "for dtype in ('fp32', 'bf16'):\n"
        "    row = Row('gelu', 'value', dtype)\n"
        "    done = run_row(load('torch'), row, counted=8, seed=0, findings=shipped())\n"
        "    print(dtype, done.status, *done.failures)\n"
    )
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    command = (sys.executable, "-c", code)
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.stdout == "fp32 declared\nbf16 conformant\n", ended.stderr


def test_a_doubled_gradient_is_not_what_torch_declares() -> None:
    result = run_row(_Doubled(), Row("layer_norm", "vjp", "fp32"), **RUN)
    assert result.status == "nonconformant"
    assert any("gradient of x" in line for f in result.failures for line in f.details)


class _Doubled:
    """Torch, whose layer_norm gives twice the gradient of its input."""

    def __init__(self) -> None:
        self.torch = load("torch")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.torch, name)

    def vjp(self, *call: Any) -> list[Any]:
        first, *others = self.torch.vjp(*call)
        return [2 * first, *others]


RUN: dict[str, Any] = {"counted": 8, "seed": 0, "findings": shipped()}
